package kubernetes_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Modules of what clusters have besides Kubernetes; addons/go.mod has their versions.
const (
	certManager        = "github.com/cert-manager/cert-manager"
	prometheusOperator = "github.com/prometheus-operator/prometheus-operator"
	gatewayAPI         = "sigs.k8s.io/gateway-api"
)

// definitions are the CRDs that the chart's objects, and cert-manager's controllers,
// want of them: files of the module, called <group>_<plural>.yaml.
var definitions = map[string][]string{
	certManager: {
		"deploy/crds/cert-manager.io_issuers.yaml", "deploy/crds/cert-manager.io_clusterissuers.yaml",
		"deploy/crds/cert-manager.io_certificates.yaml", "deploy/crds/cert-manager.io_certificaterequests.yaml",
	},
	prometheusOperator: {
		"example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml",
		"example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
	},
	gatewayAPI: {
		"config/crd/experimental/gateway.networking.k8s.io_tcproutes.yaml",
		"config/crd/experimental/gateway.networking.k8s.io_tlsroutes.yaml",
	},
}

// defined are the CRDs that these tests have made, by module.
var defined = struct {
	sync.Mutex
	names map[string][]string
}{names: map[string][]string{}}

// define gives the cluster the CRDs of a module. Those that it has stay as they are.
func define(t *testing.T, modules ...string) {
	t.Helper()
	defined.Lock()
	defer defined.Unlock()
	for _, module := range modules {
		if defined.names[module] != nil {
			continue
		}
		folder := moduleFolder(t, module)
		names := []string{}
		for _, f := range definitions[module] {
			group, plural, _ := strings.Cut(strings.TrimSuffix(filepath.Base(f), ".yaml"), "_")
			name := plural + "." + group
			if cluster.mustRun(t, "kubectl", "get", "customresourcedefinition", name, "--ignore-not-found", "-o", "name") != "" {
				continue
			}
			// On the server: their text is too long for the annotation that kubectl keeps.
			cluster.mustRun(t, "kubectl", "apply", "--server-side", "-f", filepath.Join(folder, f))
			names = append(names, name)
			defined.names[module] = names
			// Not kubectl wait, which fails on one whose status is not there yet.
			until(t, time.Minute, name+" to be served", func() (bool, string) {
				is := cluster.mustRun(t, "kubectl", "get", "customresourcedefinition", name, "-o", `jsonpath={.status.conditions[?(@.type=="Established")].status}`)
				return strings.TrimSpace(is) == "True", is
			})
		}
		defined.names[module] = names
	}
}

// undefine removes the CRDs that define has made.
func undefine() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	defined.Lock()
	defer defined.Unlock()
	names := slices.Concat(slices.Collect(maps.Values(defined.names))...)
	if len(names) == 0 {
		return nil
	}
	clear(defined.names)
	_, err := cluster.command(ctx, "kubectl", append([]string{"delete", "customresourcedefinition", "--ignore-not-found"}, names...)...)
	return err
}

// moduleFolder is where a module's files lie, in the version of addons/go.mod.
func moduleFolder(t *testing.T, module string) string {
	t.Helper()
	var answer struct{ Dir, Error string }
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", module)
	cmd.Dir = "addons"
	out, err := cmd.Output()
	if err := errors.Join(err, json.Unmarshal(out, &answer)); err != nil || answer.Dir == "" {
		t.Fatalf("find module %s: %v %s", module, err, answer.Error)
	}
	return answer.Dir
}

// TestOthersTakeTheChartsObjects gives a cluster with cert-manager, the Prometheus
// operator and the Gateway API everything that the chart makes for them: none has a
// field that the others do not know, or a value that they refuse.
func TestOthersTakeTheChartsObjects(t *testing.T) {
	installations.enter(t)
	define(t, certManager, prometheusOperator, gatewayAPI)
	r := &release{name: "others", namespace: "e2e-others", files: []string{"values-production.yaml"}}
	r.values = map[string]any{
		"global": map[string]any{"depsNamespace": r.namespace},
		"uns": map[string]any{
			"http": map[string]any{"tlsSecretName": "page"},
			"mqtt": map[string]any{
				"embedded": map[string]any{"webSocket": map[string]any{"enabled": true}, "tls": map[string]any{"secretName": "mqtt-tls"}},
				"gateway": map[string]any{"enabled": true, "parentRefs": []any{map[string]any{"name": "plant", "namespace": "gateways"}},
					"listeners": map[string]any{"mqtt": "mqtt", "mqtts": "mqtts", "websocket": "websocket"}, "tlsHostnames": []any{"mqtt.e2e.test"}},
			},
		},
		"nats":   map[string]any{"promExporter": map[string]any{"enabled": true, "podMonitor": map[string]any{"enabled": true}}},
		"alerts": map[string]any{"dashboardURL": "https://grafana.e2e.test/d/uns", "ruleLabels": map[string]any{"team": "plant"}},
		"monitoring": map[string]any{"podMonitor": map[string]any{
			"tlsConfig":         map[string]any{"insecureSkipVerify": true},
			"relabelings":       []any{map[string]any{"action": "labeldrop", "regex": "x"}},
			"metricRelabelings": []any{map[string]any{"action": "keep", "sourceLabels": []any{"__name__"}, "regex": "maestrohub_.*"}},
		}},
		"certManager": map[string]any{"enabled": true, "issuerRef": map[string]any{"name": "plant"},
			"mqtt": map[string]any{"enabled": true, "dnsNames": []any{"mqtt.e2e.test"}, "ipAddresses": []any{"192.0.2.1"}}},
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := cluster.deleteNamespaces(ctx, r.namespace); err != nil {
			t.Error(err)
		}
	})
	if err := cluster.makeNamespace(t.Context(), r.namespace); err != nil {
		t.Fatal(err)
	}
	taken := map[string]int{}
	for _, version := range []string{"", "v1alpha2"} { // of routes: the newest that the cluster has, and the first
		values := merge(r.values, map[string]any{"uns": map[string]any{"mqtt": map[string]any{"gateway": map[string]any{"apiVersion": version}}}})
		var theirs []manifest
		for _, o := range r.template(t, values) {
			var head struct{ APIVersion, Kind string }
			o.decode(t, &head)
			group, _, _ := strings.Cut(head.APIVersion, "/")
			if slices.Contains([]string{"cert-manager.io", "monitoring.coreos.com", "gateway.networking.k8s.io"}, group) {
				theirs = append(theirs, o)
				taken[head.Kind]++
			}
		}
		said, err := apply(t, theirs, "--dry-run=server", "--validate=strict")
		if n := strings.Count(said, " created (server dry run)"); err != nil || n != len(theirs) {
			t.Errorf("of %d objects %d were taken: %v; kubectl said\n%s", len(theirs), n, err, said)
		}
	}
	for kind, least := range map[string]int{"Certificate": 10, "Issuer": 4, "PodMonitor": 4, "PrometheusRule": 2, "TCPRoute": 4, "TLSRoute": 2} {
		if taken[kind] < least {
			t.Errorf("%d objects of kind %s were taken, want %d at least; of all: %v", taken[kind], kind, least, taken)
		}
	}
	row(t, "objects for cert-manager, Prometheus operator and Gateway API", "taken by their definitions", fmt.Sprint(taken))
}
