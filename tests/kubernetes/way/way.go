package way

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Ways are those into one cluster.
type Ways struct {
	config *rest.Config
	client *kubernetes.Clientset
	inside bool // this machine reaches the cluster's addresses

	mu   sync.Mutex
	made map[string]string // addresses on loopback, by what they lead to
}

// Inside are the ways on a machine that is part of the cluster's networks.
func Inside(config *rest.Config) (*Ways, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return &Ways{config: config, client: client, inside: true, made: map[string]string{}}, nil
}

// Find finds out whether this machine reaches ClusterIPs, such as the API server's.
func Find(ctx context.Context, config *rest.Config) (*Ways, error) {
	w, err := Inside(config)
	if err != nil {
		return nil, err
	}
	api, err := w.client.CoreV1().Services(meta.NamespaceDefault).Get(ctx, "kubernetes", meta.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("find the API server's Service: %w", err)
	}
	w.inside = Answers(ctx, net.JoinHostPort(api.Spec.ClusterIP, strconv.Itoa(int(api.Spec.Ports[0].Port))), 3*time.Second)
	return w, nil
}

// Answers reports whether somebody takes a connection.
func Answers(ctx context.Context, address string, within time.Duration) bool {
	conn, err := (&net.Dialer{Timeout: within}).DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	return conn.Close() == nil
}

// target is a port of a pod.
type target struct {
	namespace, pod string
	port           int
}

func (t target) String() string {
	return fmt.Sprintf("port %d of pod %s/%s", t.port, t.namespace, t.pod)
}

// ToPod is an address at which a port of a pod is reached.
func (w *Ways) ToPod(pod *core.Pod, port int) (string, error) {
	if w.inside {
		return net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(port)), nil
	}
	to := target{pod.Namespace, pod.Name, port}
	return w.listen(to.String(), func(context.Context) (target, error) { return to, nil })
}

// ToService is an address at which a port of a Service is reached, by the port's name;
// "" is the first.
func (w *Ways) ToService(ctx context.Context, namespace, name, port string) (string, error) {
	service, err := w.client.CoreV1().Services(namespace).Get(ctx, name, meta.GetOptions{})
	if err != nil {
		return "", err
	}
	for _, p := range service.Spec.Ports {
		if port != "" && p.Name != port {
			continue
		}
		if w.inside {
			return net.JoinHostPort(service.Spec.ClusterIP, strconv.Itoa(int(p.Port))), nil
		}
		return w.listen(fmt.Sprintf("port %q of service %s/%s", p.Name, namespace, name), func(ctx context.Context) (target, error) {
			return w.behind(ctx, namespace, name, p.Name)
		})
	}
	return "", fmt.Errorf("service %s/%s has no port called %q; it has %+v", namespace, name, port, service.Spec.Ports)
}

// behind is one of the pods that a Service leads to now, as its endpoints have it.
func (w *Ways) behind(ctx context.Context, namespace, service, port string) (target, error) {
	slices, err := w.client.DiscoveryV1().EndpointSlices(namespace).List(ctx, meta.ListOptions{LabelSelector: discovery.LabelServiceName + "=" + service})
	if err != nil {
		return target{}, err
	}
	var all []target
	for _, s := range slices.Items {
		for _, p := range s.Ports {
			for _, e := range s.Endpoints {
				if p.Name != nil && *p.Name == port && p.Port != nil && e.TargetRef != nil && e.Conditions.Ready != nil && *e.Conditions.Ready {
					all = append(all, target{namespace, e.TargetRef.Name, int(*p.Port)})
				}
			}
		}
	}
	if len(all) == 0 {
		return target{}, fmt.Errorf("it leads to no ready pod")
	}
	return all[rand.IntN(len(all))], nil
}

// listen takes connections on loopback for what choose says when they come.
func (w *Ways) listen(what string, choose func(context.Context) (target, error)) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if address := w.made[what]; address != "" {
		return address, nil
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("make a way to %s: %w", what, err)
	}
	w.made[what] = listener.Addr().String()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				fmt.Fprintf(os.Stderr, "the way to %s has ended: %v\n", what, err)
				return
			}
			go func() {
				// Whoever connected sees its end, as of a pod that is not there.
				defer conn.Close()
				if err := w.carry(conn, choose); err != nil {
					fmt.Fprintf(os.Stderr, "on the way to %s: %v\n", what, err)
				}
			}()
		}
	}()
	return w.made[what], nil
}
