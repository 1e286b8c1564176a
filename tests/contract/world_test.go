package contract

import (
	"path/filepath"
	"strings"
	"testing"
)

const folder = "../../chart"

// APIs of clusters that have everything the chart can use.
var everyAPI = []string{"monitoring.coreos.com/v1", "monitoring.coreos.com/v1/PodMonitor", "monitoring.coreos.com/v1/ServiceMonitor",
	"monitoring.coreos.com/v1/PrometheusRule", "cert-manager.io/v1", "gateway.networking.k8s.io/v1alpha2"}

// installations are the ways in which the chart is installed that every rule is held
// against: each of its values files, and what no values file has.
func installations(t *testing.T) map[string]map[string]any {
	t.Helper()
	all := map[string]map[string]any{"values.yaml": {}}
	files, err := filepath.Glob(folder + "/values-*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no values files: %v", err)
	}
	for _, file := range files {
		values, err := ValuesFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(file)] = values
	}
	all["OpenShift, every pod there is"] = map[string]any{
		"global": map[string]any{"openShift": true, "natsAuth": map[string]any{"enabled": true}, "natsTLS": map[string]any{"enabled": true, "mutual": true}},
		"uns": map[string]any{"replicas": 2, "http": map[string]any{"ingress": map[string]any{"enabled": true, "hosts": []any{"uns.example.com"}, "tlsSecretName": "page-tls"}},
			"mqtt": map[string]any{"embedded": map[string]any{"webSocket": map[string]any{"enabled": true, "ingress": map[string]any{"enabled": true, "hosts": []any{"mqtt.example.com"}}}}}},
		"storage": map[string]any{"type": "timescale", "timescale": map[string]any{"bundled": map[string]any{"enabled": true}}},
		"backup":  map[string]any{"enabled": true},
		"nats":    map[string]any{"promExporter": map[string]any{"enabled": true, "podMonitor": map[string]any{"enabled": true}}},
	}
	all["another NATS, devices from outside"] = map[string]any{
		"nats": map[string]any{"enabled": false},
		"externalNats": map[string]any{"urls": []any{"tls://nats-1.example.com:4222", "tls://nats-2.example.com:4222"}, "user": "uns-broker", "passwordSecretName": "nats-password",
			"tlsSecretName": "nats-tls", "mutual": true},
		"uns": map[string]any{
			"replicas": 3,
			"mqtt": map[string]any{
				"service":  map[string]any{"type": "LoadBalancer", "externalTrafficPolicy": "Local", "loadBalancerClass": "example.com/lb", "loadBalancerSourceRanges": []any{"10.0.0.0/8"}},
				"gateway":  map[string]any{"enabled": true, "parentRefs": []any{map[string]any{"name": "mqtt"}}, "tlsHostnames": []any{"mqtt.example.com"}},
				"embedded": map[string]any{"tls": map[string]any{"secretName": "mqtt-tls", "clientCA": true, "disablePlaintext": true}, "webSocket": map[string]any{"enabled": true}},
			},
			"http":    map[string]any{"tlsSecretName": "http-tls"},
			"model":   map[string]any{"content": "workspaces: []\n"},
			"clients": map[string]any{"entries": []any{map[string]any{"id": "press-7", "workspace": "plant", "secretHash": "$sha256$ihZIcDxif0KMqJCWC33Kzw$rdptuxSiMeZ7wZuYTMbJ0PM+9EhtMYZWB921u3stH1w"}}},
			"oauth2":  map[string]any{"issuers": []any{map[string]any{"issuer": "https://id.example.com", "audience": "uns"}}},
		},
		"storage":       map[string]any{"type": "timescale", "timescale": map[string]any{"existingSecret": "database", "caSecretName": "database-ca"}},
		"networkPolicy": map[string]any{"enabled": true, "mqttFrom": []any{map[string]any{"ipBlock": map[string]any{"cidr": "10.1.0.0/16"}}}},
		"extraObjects":  []any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "{{ .Release.Name }}-extra", "namespace": "{{ .Release.Namespace }}"}}},
	}
	return all
}

func render(t *testing.T, values map[string]any) *Release {
	t.Helper()
	r, err := Render(Install{Chart: folder, Values: values, APIs: everyAPI})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// each runs f for every installation.
func each(t *testing.T, f func(t *testing.T, values map[string]any, r *Release)) {
	t.Helper()
	for name, values := range installations(t) {
		t.Run(name, func(t *testing.T) { f(t, values, render(t, values)) })
	}
}

// refusal renders values that must be refused and returns the reason.
func refusal(t *testing.T, values map[string]any) string {
	t.Helper()
	_, err := Render(Install{Chart: folder, Values: values, APIs: everyAPI, OnlyGuards: true})
	if err == nil {
		return ""
	}
	return strings.ReplaceAll(err.Error(), "\n", " ")
}
