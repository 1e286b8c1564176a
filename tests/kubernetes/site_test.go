package kubernetes_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"maestrohub.io/uns/tests/harness"
	"maestrohub.io/uns/tools/launch"
)

// site is the release that the rows share, one after the other: two replicas, three
// NATS servers with accounts and mutual TLS, network policies, a database.
type site struct {
	release *release
	// address is where devices connect: the load balancer, or a node's port.
	address string
	cuts    [][2]string // that were made and not healed
	nodes   []string    // that were cordoned
}

var (
	sharing sync.Mutex // guards shared against an interrupt
	shared  *site
)

// Figures of the shared release: T is the default; the will grace is long enough for a
// device that a busy machine holds up.
const (
	ttl   = 10 * time.Second
	grace = 30 * time.Second
	// logCap is what a session log keeps: minutes of a load, and little enough for a
	// row to fill.
	logCap = 16 << 20
)

// backups is the claim of the backups. Of one's own, because the chart's is bound by the
// first backup alone where a class waits for its first pod, and `helm install --wait`
// waits for it in vain.
const backups = "e2e-backups"

// model lets topics below retained/ keep their last value.
const model = `
workspaces:
  - slug: ` + harness.Workspace + `
    bindings:
      - topic: retained/#
        retain: true
  - slug: helm-test
`

// generous is added to every promised figure for what a busy machine takes.
const generous = 20 * time.Second

// start waits for the test's turn and returns the shared release, whole: everything
// runs, every replica serves and knows the other.
func start(t *testing.T) *site {
	t.Helper()
	rows.enter(t)
	sharing.Lock()
	s := shared
	sharing.Unlock()
	if s == nil {
		s = first(t)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if t.Failed() {
			t.Log(cluster.describe(ctx, s.release.namespace, s.release.deps()))
			for _, pod := range []string{"uns-0", "uns-1"} {
				logs, err := cluster.command(ctx, "kubectl", "-n", s.release.namespace, "logs", s.release.name+"-"+pod, "--tail=40")
				t.Logf("%s: %v\n%s", pod, err, logs)
			}
		}
		for _, c := range s.cuts {
			if _, err := cluster.command(ctx, "kubelab", "--repository", root, "heal", c[0], c[1]); err != nil {
				t.Error(err)
			}
		}
		s.cuts = nil
		for _, n := range s.nodes {
			if _, err := cluster.command(ctx, "kubectl", "uncordon", n); err != nil {
				t.Error(err)
			}
		}
		s.nodes = nil
	})
	s.whole(t)
	return s
}

// first installs the shared release.
func first(t *testing.T) *site {
	t.Helper()
	outside, err := cluster.outside(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := &release{name: "maestrohub", namespace: *rowsIn, files: []string{"values-local-lab.yaml"}}
	if err := cluster.makeNamespace(t.Context(), r.namespace); err != nil && !*keep {
		t.Fatal(err)
	}
	s := &site{release: r}
	sharing.Lock()
	shared = s
	sharing.Unlock()
	r.values = map[string]any{
		"uns": map[string]any{
			"image":        map[string]any{"pullPolicy": "Always"},
			"antiAffinity": "preferred",
			"podLabels":    map[string]any{"e2e": r.namespace},
			"clients":      map[string]any{"entries": entries(clients)},
			"model":        map[string]any{"content": model},
			"mqtt": map[string]any{
				"service":  map[string]any{"type": cluster.serviceType(t, r.namespace)},
				"embedded": map[string]any{"memberTTL": ttl.String(), "willStopGrace": grace.String(), "tls": map[string]any{"secretName": deviceTLS}, "sessionLogMaxBytes": fmt.Sprint(logCap)},
			},
		},
		// These tests connect from outside the cluster, by way of a node.
		"networkPolicy": map[string]any{"enabled": true, "httpFrom": outside, "mqttFrom": append([]any{
			map[string]any{"podSelector": map[string]any{"matchLabels": map[string]any{"role": "device"}}}}, outside...)},
		// Only when a row asks for it.
		"backup": map[string]any{"enabled": true, "schedule": "0 0 1 1 *", "persistence": map[string]any{"existingClaim": backups}},
		"nats": map[string]any{
			"statefulSet": map[string]any{"minReadySeconds": 5},
			"container":   map[string]any{"resources": map[string]any{"requests": map[string]any{"cpu": "50m", "memory": "256Mi"}, "limits": map[string]any{"memory": "256Mi"}}},
		},
	}
	if _, err := putCertificate(t.Context(), r.namespace); err != nil {
		t.Fatal(err)
	}
	if err := cluster.makeClaim(t.Context(), r.namespace, backups); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := r.apply(t.Context(), nil); err != nil {
		t.Fatalf("%v\n%s", err, cluster.describe(t.Context(), r.namespace, r.deps()))
	}
	row(t, "helm install: two replicas, three NATS servers, PostgreSQL, all ready", "-", time.Since(began))
	return s
}

// whole waits until everything is as it should be, and brings back what rows have
// left undone.
func (s *site) whole(t *testing.T) {
	t.Helper()
	r := s.release
	until(t, 4*time.Minute, "every pod of the release to be ready", func() (bool, string) {
		for _, of := range []struct {
			namespace, component string
			want                 int
		}{{r.namespace, "uns", 2}, {r.deps(), "nats", 3}} {
			pods, err := cluster.pods(t.Context(), of.namespace, of.component)
			if err != nil {
				return false, err.Error()
			}
			ready := 0
			for i := range pods {
				if isReady(&pods[i]) {
					ready++
				}
			}
			if ready != of.want || len(pods) != of.want {
				return false, fmt.Sprintf("%d of %d pods of %s are ready", ready, of.want, of.component)
			}
		}
		return true, ""
	})
	for i := range 2 {
		b := s.replica(t, i)
		until(t, time.Minute, fmt.Sprintf("replica %d to be linked with the other", i), func() (bool, string) {
			st, err := s.status(t, b)
			return err == nil && st.Members == 2 && st.Links == 1, fmt.Sprintf("%+v, %v", st, err)
		})
	}
	if s.address == "" {
		s.address = r.door(t)
	}
}

// door is an address at which devices outside the cluster, such as these tests',
// connect: the load balancer's, or a node's.
func (r *release) door(t *testing.T) string {
	t.Helper()
	for _, find := range []func(context.Context, string) (string, error){r.balanced, r.nodePort} {
		address, err := find(t.Context(), "mqtt")
		if err != nil {
			t.Log(err)
			continue
		}
		if cluster.answersSoon(t, address) {
			return address
		}
		t.Logf("%s, where devices connect, does not answer this machine", address)
	}
	t.Log("devices go through the API server")
	return cluster.toService(t, r.namespace, r.uns()+"-mqtt", "mqtt")
}

// serviceType is LoadBalancer on a cluster that has one, such as a lab, or NodePort:
// where none comes, Helm would wait for it in vain.
func (k *kube) serviceType(t *testing.T, namespace string) core.ServiceType {
	t.Helper()
	if k.isLab(t.Context()) == nil {
		return core.ServiceTypeLoadBalancer
	}
	services := k.CoreV1().Services(namespace)
	made, err := services.Create(t.Context(), &core.Service{ObjectMeta: meta.ObjectMeta{GenerateName: "e2e-balancer-"},
		Spec: core.ServiceSpec{Type: core.ServiceTypeLoadBalancer, Ports: []core.ServicePort{{Port: 1883}}}}, meta.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := services.Delete(t.Context(), made.Name, meta.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}()
	watch, err := services.Watch(t.Context(), meta.ListOptions{FieldSelector: "metadata.name=" + made.Name})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	timeout := time.After(time.Minute)
	for {
		select {
		case e := <-watch.ResultChan():
			if s, is := e.Object.(*core.Service); is && len(s.Status.LoadBalancer.Ingress) > 0 {
				return core.ServiceTypeLoadBalancer
			}
		case <-timeout:
			t.Log("this cluster gave a Service no load balancer within a minute")
			return core.ServiceTypeNodePort
		}
	}
}

// service is the release as devices and REST clients see it: one address.
func (s *site) service(t *testing.T) *harness.Broker {
	t.Helper()
	return harness.Attach(&launch.Broker{TCP: s.address, HTTP: cluster.toService(t, s.release.namespace, s.release.uns(), "http")}, clients)
}

// replica is one of the release's pods.
func (s *site) replica(t *testing.T, i int) *harness.Broker {
	t.Helper()
	pod := s.pod(t, i)
	return harness.Attach(&launch.Broker{TCP: cluster.toPod(t, pod, 1883), HTTP: cluster.toPod(t, pod, 8080)}, clients)
}

func (s *site) pod(t *testing.T, i int) *core.Pod {
	t.Helper()
	pod, err := cluster.CoreV1().Pods(s.release.namespace).Get(t.Context(), s.podName(i), meta.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

func (s *site) podName(i int) string { return fmt.Sprintf("%s-%d", s.release.uns(), i) }

// status is what a replica says of the cluster.
type status struct {
	Members int  `json:"memberCount"`
	Links   int  `json:"linksUp"`
	Fenced  bool `json:"fenced"`
}

// status asks a replica. A pod whose NetworkPolicy has not reached its node yet, or
// that has just gone, is an error to try again.
func (s *site) status(t *testing.T, b *harness.Broker) (status, error) {
	t.Helper()
	var answer struct {
		Broker struct {
			Cluster status `json:"cluster"`
		} `json:"broker"`
	}
	err := fetch(t.Context(), b, "/api/v1/system/uns/settings/status", &answer)
	return answer.Broker.Cluster, err
}

// ready waits until a pod of the release is ready again, as another one than before
// where old names it, and returns how long that took.
func (s *site) ready(t *testing.T, namespace, name string, old *core.Pod) time.Duration {
	t.Helper()
	return until(t, 3*time.Minute, name+" to be ready again", func() (bool, string) {
		pod, err := cluster.CoreV1().Pods(namespace).Get(t.Context(), name, meta.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, "it is not there"
		}
		if err != nil {
			return false, err.Error()
		}
		if old != nil && pod.UID == old.UID && restarts(pod) == restarts(old) {
			return false, "it has not ended yet"
		}
		return isReady(pod), fmt.Sprintf("%s, %d restarts", pod.Status.Phase, restarts(pod))
	})
}

func restarts(p *core.Pod) (n int32) {
	for _, c := range p.Status.ContainerStatuses {
		n += c.RestartCount
	}
	return n
}
