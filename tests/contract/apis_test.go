package contract

import (
	"slices"
	"strings"
	"testing"
)

// aCluster is what any cluster says it has: helm template, which asks none, knows groups and no kinds.
var aCluster = []string{"apps/v1/StatefulSet"}

// Production on a cluster without the Prometheus operator is refused by the values that ask for it, all at once, and
// not by Helm's "no matches for kind". Where no cluster is asked, what the values say is rendered: leaving it out would
// leave GitOps without alerts, in silence.
func TestWhatTheClusterLacksIsRefusedByTheValueThatAsksForIt(t *testing.T) {
	production := installations(t)["values-production.yaml"]
	gateway := At("uns.mqtt.gateway", map[string]any{"enabled": true, "parentRefs": []any{map[string]any{"name": "g"}}})
	sni := Merged(gateway, At("uns.mqtt", map[string]any{
		"gateway":  map[string]any{"tlsHostnames": []any{"a.example"}},
		"embedded": map[string]any{"tls": map[string]any{"secretName": "s"}},
	}))
	operator := []string{"monitoring.coreos.com/v1/PrometheusRule", "monitoring.coreos.com/v1/PodMonitor"}
	for name, c := range map[string]struct {
		values map[string]any
		apis   []string
		want   string // "": rendered
	}{
		"production":              {production, nil, "ERROR: alerts.enabled, monitoring.podMonitor.enabled (true) must be false on this cluster, which has no PrometheusRule.monitoring.coreos.com and no PodMonitor.monitoring.coreos.com: install the Prometheus operator first, or --set alerts.enabled=false,monitoring.podMonitor.enabled=false"},
		"production, half of it":  {production, operator[:1], "ERROR: monitoring.podMonitor.enabled (true) must be false on this cluster, which has no PodMonitor.monitoring.coreos.com:"},
		"production, operator":    {production, operator, ""},
		"NATS's exporter":         {At("nats.promExporter", map[string]any{"enabled": true, "podMonitor": map[string]any{"enabled": true}}), nil, "ERROR: nats.promExporter.podMonitor.enabled (true) must be false on this cluster"},
		"no NATS, no exporter":    {Merged(At("nats.enabled", false), At("nats.promExporter", map[string]any{"enabled": true, "podMonitor": map[string]any{"enabled": true}})), nil, ""},
		"cert-manager":            {At("certManager.enabled", true), nil, "ERROR: certManager.enabled (true) must be false on this cluster, which has no Certificate.cert-manager.io: install cert-manager first, or --set certManager.enabled=false"},
		"cert-manager, there":     {At("certManager.enabled", true), []string{"cert-manager.io/v1/Certificate"}, ""},
		"Gateway API":             {gateway, nil, "ERROR: uns.mqtt.gateway.enabled (true) must be false on this cluster, which has no TCPRoute.gateway.networking.k8s.io: install the Gateway API (experimental channel) first"},
		"Gateway API, no TLS":     {sni, []string{"gateway.networking.k8s.io/v1alpha2/TCPRoute"}, "which has no TLSRoute.gateway.networking.k8s.io:"},
		"Gateway API, both":       {sni, []string{"gateway.networking.k8s.io/v1alpha2/TCPRoute", "gateway.networking.k8s.io/v1/TLSRoute"}, ""},
		"nothing beyond the core": {nil, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Render(Install{Chart: folder, Values: c.values, APIs: append(slices.Clone(aCluster), c.apis...)})
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if _, err := Render(Install{Chart: folder, Values: c.values}); err != nil {
				t.Errorf("where no cluster is asked: %v", err)
			}
		})
	}
}

// Routes are made in the newest version that the cluster has, or in the one that the values name.
func TestRoutesAreInAVersionTheClusterHas(t *testing.T) {
	values := map[string]any{"uns": map[string]any{"mqtt": map[string]any{
		"gateway":  map[string]any{"enabled": true, "parentRefs": []any{map[string]any{"name": "g"}}, "tlsHostnames": []any{"a.example"}},
		"embedded": map[string]any{"tls": map[string]any{"secretName": "s"}},
	}}}
	for name, c := range map[string]struct {
		apis     []string
		version  string // of the values
		tcp, tls string
	}{
		"no cluster": {nil, "", "v1alpha2", "v1alpha2"},
		"named":      {nil, "v1", "v1", "v1"},
		"1.5":        {[]string{"gateway.networking.k8s.io/v1alpha2/TCPRoute", "gateway.networking.k8s.io/v1alpha3/TLSRoute", "gateway.networking.k8s.io/v1/TLSRoute"}, "", "v1alpha2", "v1"},
		"1.6":        {[]string{"gateway.networking.k8s.io/v1/TCPRoute", "gateway.networking.k8s.io/v1/TLSRoute"}, "", "v1", "v1"},
	} {
		r, err := Render(Install{Chart: folder, Values: Merged(values, At("uns.mqtt.gateway.apiVersion", c.version)), APIs: c.apis})
		if err != nil {
			t.Fatal(err)
		}
		for kind, want := range map[string]string{"TCPRoute": c.tcp, "TLSRoute": c.tls} {
			routes := r.Of(kind)
			if len(routes) != 1 || routes[0].Text("apiVersion") != "gateway.networking.k8s.io/"+want {
				t.Errorf("%s: %d of %s, %v; want one of %s", name, len(routes), kind, routes, want)
			}
		}
	}
}
