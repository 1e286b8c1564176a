package kubernetes_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"maestrohub.io/uns/tests/harness"
	"maestrohub.io/uns/tools/launch"
)

// release is an installation of the chart.
type release struct {
	name, namespace string
	files           []string       // values files of the chart, by name
	values          map[string]any // over them
}

// deps is the namespace of NATS.
func (r *release) deps() string { return r.namespace + "-deps" }

// uns is the name of the StatefulSet and of the HTTP Service.
func (r *release) uns() string { return r.name + "-uns" }

// nats is the name of NATS's StatefulSet and Service.
func (r *release) nats() string { return r.name + "-nats" }

// patient is how long an installation may take: images are pulled, volumes made and
// three NATS servers find each other, on a busy machine.
const patient = 6 * time.Minute

// clients may do everything in the tests' workspace.
var clients = harness.Clients("device", "other")

// entries are the clients as the chart takes them.
func entries(all []launch.Client) (list []any) {
	for _, c := range all {
		list = append(list, map[string]any{"id": c.ID, "secret": c.Secret, "workspace": c.Workspace, "scopes": c.Scopes})
	}
	return list
}

// apply installs the release or upgrades it, and waits until everything is ready.
// Values given here are put over the release's own and kept for the next time.
func (r *release) apply(ctx context.Context, change map[string]any) error {
	r.values = merge(r.values, change)
	content, err := yaml.Marshal(merge(map[string]any{"global": map[string]any{"imageRegistry": *registry}}, r.values))
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "values-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "values.yaml")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		return err
	}
	args := []string{"upgrade", r.name, filepath.Join(root, "chart"), "--install", "--namespace", r.namespace, "--wait", "--timeout", patient.String()}
	for _, f := range r.files {
		args = append(args, "--values", filepath.Join(root, "chart", f))
	}
	_, err = cluster.command(ctx, "helm", append(args, "--values", file)...)
	return err
}

// merge puts the second over the first, level by level.
func merge(under, over map[string]any) map[string]any {
	result := maps.Clone(under)
	if result == nil {
		result = map[string]any{}
	}
	for key, value := range over {
		a, isMap := result[key].(map[string]any)
		if b, both := value.(map[string]any); isMap && both {
			value = merge(a, b)
		}
		result[key] = value
	}
	return result
}

// uninstall removes the release, not what it keeps.
func (r *release) uninstall(ctx context.Context) error {
	_, err := cluster.command(ctx, "helm", "uninstall", r.name, "--namespace", r.namespace, "--wait", "--timeout", "2m", "--ignore-not-found")
	return err
}

// discard removes everything of the release. Its pods are killed: how they hand over is
// uninstall_test.go's, and would take each test half a minute.
func (r *release) discard(ctx context.Context) error {
	_, err := cluster.command(ctx, "helm", "uninstall", r.name, "--namespace", r.namespace, "--ignore-not-found")
	for _, n := range []string{r.namespace, r.deps()} {
		_, killed := cluster.command(ctx, "kubectl", "-n", n, "delete", "pods", "--all", "--grace-period=1", "--wait=false")
		err = errors.Join(err, killed)
	}
	return errors.Join(err, cluster.deleteNamespaces(ctx, r.namespace, r.deps()))
}

// remove discards a release of a test's own, and says how it was if the test failed.
func (r *release) remove(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	if t.Failed() {
		t.Log(cluster.describe(ctx, r.namespace, r.deps()))
	}
	if err := r.discard(ctx); err != nil {
		t.Error(err)
	}
}

// install installs a release of a test's own, which is gone with its namespaces when
// the test ends.
func install(t *testing.T, r *release) *release {
	t.Helper()
	t.Cleanup(func() { r.remove(t) })
	if err := cluster.makeNamespace(t.Context(), r.namespace); err != nil {
		t.Fatal(err)
	}
	if err := r.apply(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return r
}

// mustBeNew ends a test that would change what somebody else has in the namespaces.
func (r *release) mustBeNew(t *testing.T) {
	t.Helper()
	for _, n := range []string{r.namespace, r.deps()} {
		if _, err := cluster.CoreV1().Namespaces().Get(t.Context(), n, meta.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Fatalf("namespace %s is there already (%v): this test would change what is in it", n, err)
		}
	}
}

// nodePort is an address of a node at which a port of the MQTT Service is reached.
func (r *release) nodePort(ctx context.Context, port string) (string, error) {
	service, err := cluster.CoreV1().Services(r.namespace).Get(ctx, r.uns()+"-mqtt", meta.GetOptions{})
	if err != nil {
		return "", err
	}
	nodes, err := cluster.CoreV1().Nodes().List(ctx, meta.ListOptions{})
	if err != nil {
		return "", err
	}
	for _, p := range service.Spec.Ports {
		if p.Name != port || p.NodePort == 0 {
			continue
		}
		for _, a := range nodes.Items[0].Status.Addresses {
			if a.Type == "InternalIP" {
				return net.JoinHostPort(a.Address, strconv.Itoa(int(p.NodePort))), nil
			}
		}
	}
	return "", fmt.Errorf("service %s has no node port called %s; it has %+v", service.Name, port, service.Spec.Ports)
}

// balanced is the address of the load balancer for a port of the MQTT Service.
func (r *release) balanced(ctx context.Context, port string) (string, error) {
	service, err := cluster.CoreV1().Services(r.namespace).Get(ctx, r.uns()+"-mqtt", meta.GetOptions{})
	if err != nil {
		return "", err
	}
	if len(service.Status.LoadBalancer.Ingress) == 0 {
		return "", fmt.Errorf("service %s has no address of a load balancer", service.Name)
	}
	at := slices.IndexFunc(service.Spec.Ports, func(p core.ServicePort) bool { return p.Name == port })
	if at < 0 {
		return "", fmt.Errorf("service %s has no port called %s", service.Name, port)
	}
	ingress := service.Status.LoadBalancer.Ingress[0]
	return net.JoinHostPort(cmp.Or(ingress.IP, ingress.Hostname), strconv.Itoa(int(service.Spec.Ports[at].Port))), nil
}
