package kubernetes_test

import (
	"bytes"
	"fmt"
	"os"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/harness"
	"maestrohub.io/uns/tools/launch"
)

// small lets a release be ready on nodes that share two cores.
var small = map[string]any{
	"uns":  map[string]any{"minReadySeconds": 0, "clients": map[string]any{"entries": entries(clients)}, "resources": map[string]any{"requests": map[string]any{"cpu": "50m"}}},
	"nats": map[string]any{"statefulSet": map[string]any{"minReadySeconds": 0}, "container": map[string]any{"resources": map[string]any{"requests": map[string]any{"cpu": "50m"}}}},
}

// reach is a release as pods of the cluster see it: by its Services.
func (r *release) reach(t *testing.T) *harness.Broker {
	t.Helper()
	b := &launch.Broker{TCP: cluster.toService(t, r.namespace, r.uns()+"-mqtt", ""), HTTP: cluster.toService(t, r.namespace, r.uns(), "")}
	return harness.Attach(b, clients)
}

// helmTest runs the chart's own test.
func (r *release) helmTest(t *testing.T) time.Duration {
	t.Helper()
	began := time.Now()
	if _, err := cluster.command(t.Context(), "helm", "test", r.name, "--namespace", r.namespace, "--logs", "--timeout", "2m"); err != nil {
		t.Errorf("%v", err)
	}
	return time.Since(began)
}

// TestSingleNode installs one replica without NATS: what it has acknowledged outlives
// its pod, on its volume.
func TestSingleNode(t *testing.T) {
	installations.enter(t)
	began := time.Now()
	r := install(t, &release{name: "single", namespace: "e2e-single", files: []string{"values-single-node.yaml"}, values: small})
	row(t, "helm install with values-single-node.yaml: ready", "one replica, no NATS", time.Since(began))
	row(t, "helm test on it", "a device's way, once", r.helmTest(t))
	b := r.reach(t)
	if code := b.Client(t, "device", "single").Publish(harness.Inbox("device", "single/x"), 1, "42"); code != mqtt.Success {
		t.Fatalf("PUBACK %v", code)
	}
	if err := cluster.CoreV1().Pods(r.namespace).Delete(t.Context(), r.uns()+"-0", meta.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	deleted := time.Now()
	until(t, 2*time.Minute, "history to be read again", func() (bool, string) {
		var page struct {
			Values []harness.Row `json:"values"`
		}
		err := fetch(t.Context(), b, "/api/v1/uns/"+harness.Workspace+"/history?topic=single/x", &page)
		return err == nil && len(page.Values) == 1 && string(page.Values[0].Value) == "42", fmt.Sprintf("%v, %v", page.Values, err)
	})
	row(t, "single node, its pod deleted: what it acknowledged is read, from the deletion", "kept on its volume", time.Since(deleted))

	// Uninstalled and installed again, it has its volume back.
	if err := r.uninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	claims, err := cluster.CoreV1().PersistentVolumeClaims(r.namespace).List(t.Context(), meta.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(claims.Items) != 1 {
		t.Errorf("uninstall left %d volume claims, want the historian's", len(claims.Items))
	}
	if err := r.apply(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if rows := r.reach(t).History(t, "device", "single/x"); len(rows) != 1 {
		t.Errorf("after a reinstallation history has %d values, want 1", len(rows))
	}
}

// startDatabase gives a namespace the database that production brings itself, and the
// Secret with its URL.
func startDatabase(t *testing.T, namespace string) {
	t.Helper()
	manifests, err := os.ReadFile("testdata/postgres.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file := written(t, "postgres.yaml", bytes.ReplaceAll(manifests, []byte("IMAGE"), []byte(image("postgres:15"))))
	cluster.mustRun(t, "kubectl", "-n", namespace, "apply", "-f", file)
	cluster.mustRun(t, "kubectl", "-n", namespace, "rollout", "status", "statefulset/postgres", "--timeout=2m")
}

// TestProductionValues installs values-production.yaml as it is, with a database of
// one's own, on a cluster that knows the Prometheus operator's objects.
func TestProductionValues(t *testing.T) {
	installations.enter(t)
	define(t, prometheusOperator)
	r := &release{name: "production", namespace: "e2e-production", files: []string{"values-production.yaml"}, values: merge(small, map[string]any{
		"global": map[string]any{"natsAuth": map[string]any{"enabled": true}}})}
	t.Cleanup(func() { r.remove(t) })
	if err := cluster.makeNamespace(t.Context(), r.namespace); err != nil {
		t.Fatal(err)
	}
	startDatabase(t, r.namespace)
	began := time.Now()
	if err := r.apply(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	row(t, "helm install with values-production.yaml: ready", "two replicas, mutual TLS, accounts", time.Since(began))
	cluster.mustRun(t, "kubectl", "-n", r.namespace, "get", "prometheusrule/"+r.uns(), "podmonitor/"+r.uns())
	row(t, "helm test on it", "a device's way, once", r.helmTest(t))
	pods, err := cluster.pods(t.Context(), r.namespace, "uns")
	if err != nil || len(pods) != 2 {
		t.Fatalf("%d replicas, %v", len(pods), err)
	}
	if pods[0].Spec.NodeName == pods[1].Spec.NodeName {
		t.Errorf("both replicas are on %s", pods[0].Spec.NodeName)
	}
}
