package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	client "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
)

// onKubernetes is a Helm release, harmed through the Kubernetes API.
type onKubernetes struct {
	config             *client.Config
	api                kubernetes.Interface
	namespace, release string
	stop               context.CancelFunc
	ended              chan struct{}
}

// openKubernetes finds the release's MQTT address, unless places has one, and forwards a
// local port to the REST API of a ready replica.
func openKubernetes(ctx context.Context, kubeconfig, namespace, release string, tls bool, at places) (site, places, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, at, fmt.Errorf("--kubeconfig: %w", err)
	}
	config.WarningHandler = client.NoWarnings{}
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, at, fmt.Errorf("--kubeconfig: %w", err)
	}
	k := &onKubernetes{config: config, api: api, namespace: namespace, release: release, stop: func() {}}
	if _, err := k.statefulSet(ctx); err != nil {
		return nil, at, fmt.Errorf("find release %q in namespace %q: %w", release, namespace, err)
	}
	if len(at.MQTT) == 0 {
		if at.MQTT, err = k.mqtt(ctx, tls); err != nil {
			return nil, at, err
		}
	}
	if len(at.HTTP) == 0 {
		base, err := k.forward(ctx)
		if err != nil {
			return nil, at, err
		}
		at.HTTP = []string{base}
	}
	return k, at, nil
}

func (k *onKubernetes) name() string {
	return fmt.Sprintf("release %s in namespace %s", k.release, k.namespace)
}

func (k *onKubernetes) close() error {
	k.stop()
	if k.ended != nil {
		<-k.ended
	}
	return nil
}

func (k *onKubernetes) statefulSet(ctx context.Context) (*apps.StatefulSet, error) {
	return k.api.AppsV1().StatefulSets(k.namespace).Get(ctx, k.release+"-uns", meta.GetOptions{})
}

// mqtt is where devices reach the Service from outside the cluster.
func (k *onKubernetes) mqtt(ctx context.Context, tls bool) ([]string, error) {
	service, err := k.api.CoreV1().Services(k.namespace).Get(ctx, k.release+"-uns-mqtt", meta.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("find the MQTT Service: %w", err)
	}
	name := "mqtt"
	if tls {
		name = "mqtts"
	}
	for _, p := range service.Spec.Ports {
		if p.Name != name {
			continue
		}
		for _, i := range service.Status.LoadBalancer.Ingress {
			if host := i.IP + i.Hostname; host != "" {
				return []string{net.JoinHostPort(host, strconv.Itoa(int(p.Port)))}, nil
			}
		}
		if p.NodePort != 0 {
			return k.nodes(ctx, int(p.NodePort))
		}
		return nil, fmt.Errorf("the Service %s is of type %s, which nobody outside reaches: give --mqtt", service.Name, service.Spec.Type)
	}
	return nil, fmt.Errorf("the Service %s has no port %q: give --mqtt", service.Name, name)
}

// nodes are the addresses of all nodes, with a port.
func (k *onKubernetes) nodes(ctx context.Context, port int) (addresses []string, err error) {
	list, err := k.api.CoreV1().Nodes().List(ctx, meta.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the nodes: %w", err)
	}
	for _, n := range list.Items {
		for _, a := range n.Status.Addresses {
			if a.Type == core.NodeInternalIP {
				addresses = append(addresses, net.JoinHostPort(a.Address, strconv.Itoa(port)))
			}
		}
	}
	if len(addresses) == 0 {
		return nil, errors.New("no node has an address: give --mqtt")
	}
	return addresses, nil
}

// forward keeps a local port connected to the REST API of a ready replica, another one
// when that is gone, until close.
func (k *onKubernetes) forward(ctx context.Context) (base string, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("forward a port: %w", err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	_ = listener.Close()
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	k.stop, k.ended = stop, make(chan struct{})
	ready := make(chan error, 1)
	go func() {
		defer close(k.ended)
		for running.Err() == nil {
			err := k.forwardOnce(running, port, func() {
				select {
				case ready <- nil:
				default:
				}
			})
			if err != nil {
				select {
				case ready <- err:
				default:
				}
			}
			_ = pause(running, 500*time.Millisecond)
		}
	}()
	select {
	case err := <-ready:
		if err != nil {
			stop()
			return "", fmt.Errorf("forward a port to the REST API: %w", err)
		}
	case <-ctx.Done():
		stop()
		return "", ctx.Err()
	}
	return "http://127.0.0.1:" + strconv.Itoa(port), nil
}

// forwardOnce forwards to one ready replica until that ends.
func (k *onKubernetes) forwardOnce(ctx context.Context, port int, up func()) error {
	pods, err := k.api.CoreV1().Pods(k.namespace).List(ctx, meta.ListOptions{LabelSelector: "app.kubernetes.io/name=uns,app.kubernetes.io/instance=" + k.release})
	if err != nil {
		return err
	}
	pod := ""
	for _, p := range pods.Items {
		if isReady(&p) {
			pod = p.Name
		}
	}
	if pod == "" {
		return fmt.Errorf("no replica of %s is ready", k.release)
	}
	transport, upgrader, err := spdy.RoundTripperFor(k.config)
	if err != nil {
		return err
	}
	url := k.api.CoreV1().RESTClient().Post().Resource("pods").Namespace(k.namespace).Name(pod).SubResource("portforward").URL()
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	ready := make(chan struct{})
	forwarder, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{strconv.Itoa(port) + ":8080"}, ctx.Done(), ready, io.Discard, io.Discard)
	if err != nil {
		return err
	}
	go func() {
		select {
		case <-ready:
			up()
		case <-ctx.Done():
		}
	}()
	return forwarder.ForwardPorts()
}

func isReady(p *core.Pod) bool {
	if p.DeletionTimestamp != nil {
		return false
	}
	for _, c := range p.Status.Conditions {
		if c.Type == core.PodReady && c.Status == core.ConditionTrue {
			return true
		}
	}
	return false
}

func (k *onKubernetes) harm(ctx context.Context, f fault, replica string) (string, func(context.Context) error, error) {
	switch f.Name {
	case "kill":
		return k.deletePod(ctx, k.namespace, replica, true)
	case "stop":
		return k.deletePod(ctx, k.namespace, replica, false)
	case "nats-kill":
		namespace, pod, err := k.natsPod(ctx)
		if err != nil {
			return "", nil, err
		}
		return k.deletePod(ctx, namespace, pod, true)
	case "upgrade":
		did, err := k.roll(ctx)
		return did, nil, err
	}
	return "", nil, fmt.Errorf("%s: %w: the Kubernetes API cannot do it; do it by hand with --mqtt and --http", f.Name, errCannot)
}

// deletePod deletes a pod, whose controller makes it anew.
func (k *onKubernetes) deletePod(ctx context.Context, namespace, pod string, atOnce bool) (string, func(context.Context) error, error) {
	did := fmt.Sprintf("kubectl -n %s delete pod %s", namespace, pod)
	var o meta.DeleteOptions
	if atOnce {
		zero := int64(0)
		o.GracePeriodSeconds = &zero
		did += " --force --grace-period=0"
	}
	if err := k.api.CoreV1().Pods(namespace).Delete(ctx, pod, o); err != nil {
		return "", nil, fmt.Errorf("delete pod %s: %w", pod, err)
	}
	return did, nil, nil
}

// natsPod is one of the release's NATS servers, in whichever namespace they are.
func (k *onKubernetes) natsPod(ctx context.Context) (namespace, pod string, err error) {
	list, err := k.api.CoreV1().Pods("").List(ctx, meta.ListOptions{LabelSelector: "app.kubernetes.io/name=nats,app.kubernetes.io/instance=" + k.release})
	if err != nil {
		return "", "", fmt.Errorf("find the NATS servers: %w", err)
	}
	for _, p := range list.Items {
		if isReady(&p) {
			return p.Namespace, p.Name, nil
		}
	}
	return "", "", fmt.Errorf("nats-kill: %w: no NATS pod of release %s is ready (an external NATS?)", errCannot, k.release)
}

// roll restarts the replicas one after the other, as `kubectl rollout restart` does, and
// waits until all are new.
func (k *onKubernetes) roll(ctx context.Context) (string, error) {
	patch := fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":%q}}}}}`, time.Now().UTC().Format(time.RFC3339))
	set, err := k.api.AppsV1().StatefulSets(k.namespace).Patch(ctx, k.release+"-uns", types.StrategicMergePatchType, []byte(patch), meta.PatchOptions{})
	if err != nil {
		return "", fmt.Errorf("restart the replicas: %w", err)
	}
	wanted := set.Generation
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		set, err := k.statefulSet(ctx)
		if err == nil && set.Status.ObservedGeneration >= wanted && set.Status.UpdateRevision == set.Status.CurrentRevision &&
			set.Status.ReadyReplicas == *set.Spec.Replicas && set.Status.UpdatedReplicas == *set.Spec.Replicas {
			return fmt.Sprintf("kubectl -n %s rollout restart statefulset/%s-uns", k.namespace, k.release), nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}
