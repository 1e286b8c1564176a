package nats_test

import (
	"fmt"
	"strings"
	"testing"

	"maestrohub.io/uns/tests/contract"
)

// TestNATSReadsTheRenderedConfiguration: nats-server's own parser, which refuses what it
// does not know, on every combination and on pod names that look like numbers.
func TestNATSReadsTheRenderedConfiguration(t *testing.T) {
	on := func(auth, tls, mutual bool) map[string]any {
		return map[string]any{"natsAuth": map[string]any{"enabled": auth}, "natsTLS": map[string]any{"enabled": tls, "mutual": mutual}}
	}
	cases := map[string]map[string]any{
		"defaults":          {"global": on(false, false, false)},
		"accounts":          {"global": on(true, false, false)},
		"TLS":               {"global": on(false, true, false)},
		"accounts, mutual":  {"global": on(true, true, true)},
		"one server":        {"global": contract.Merged(on(true, true, true), map[string]any{"natsReplicas": 1})},
		"five servers":      {"global": contract.Merged(on(true, true, true), map[string]any{"natsReplicas": 5})},
		"full names":        {"nats": map[string]any{"config": map[string]any{"cluster": map[string]any{"routeURLs": map[string]any{"useFQDN": true}}}}},
		"sync every second": {"nats": map[string]any{"config": map[string]any{"jetstream": map[string]any{"syncInterval": "1s"}}}},
		"merged": {"nats": map[string]any{"config": map[string]any{"merge": map[string]any{
			"ping_interval": "<< 20s >>", "logtime": true, "max_connections": 1000, "cluster": map[string]any{"compression": "s2_fast"}, "server_tags": []any{"az:<a&b>"}}}}},
	}
	for name, v := range cases {
		t.Run(name, func(t *testing.T) {
			i := install(t, v, nil)
			p := i.pods(t, 1)[0]
			if out, err := p.exec(t.Context(), "nats-server", "-t", "--config", "/etc/nats/nats.conf"); err != nil {
				t.Errorf("%v: %s\n%s", err, out, i.files(t)["nats.conf"])
			}
		})
	}
	p := install(t, nil, nil).pods(t, 1)[0]
	for _, release := range []string{"5k", "1e5", "0x1", "true", "12", "on", "10gi", "a.b"} {
		p.name = release + "-nats-0"
		out, err := p.exec(t.Context(), "nats-server", "-t", "--config", "/etc/nats/nats.conf")
		if err != nil {
			t.Errorf("a pod named %s: %v: %s", p.name, err, out)
		}
	}
}

// TestPasswordsAreTextToNATS: whatever a generated password and its hash hold, no part of
// the configuration can take it for a number, a switch or a variable.
func TestPasswordsAreTextToNATS(t *testing.T) {
	for range 3 {
		i := install(t, nil, nil)
		for _, s := range []struct{ namespace, name string }{{"maestrohub", "maestrohub-nats-auth-uns"}, {"maestrohub-deps", "maestrohub-nats-auth-sys"}} {
			for key, password := range i.secret(t, s.namespace, s.name) {
				if first := password[0]; len(password) < 24 || first >= '0' && first <= '9' || strings.ContainsAny(string(password), "$\"'\\ ,;{}#=") {
					t.Errorf("the password %s has %d characters, or one that nats.conf reads in its own way", key, len(password))
				}
			}
		}
		accounts := string(i.secret(t, "maestrohub-deps", "maestrohub-nats-auth")["accounts.conf"])
		for _, want := range []string{"BROKER", "APP", "SYS", `user: "uns-broker", password: "$2`, `user: "uns", password: "$2`, `user: "sys", password: "$2`} {
			if !strings.Contains(accounts, want) {
				t.Errorf("accounts.conf lacks %s:\n%s", want, accounts)
			}
		}
	}
}

// TestWhatCannotWorkIsRefused: by the key, the value and what is allowed.
func TestWhatCannotWorkIsRefused(t *testing.T) {
	for _, c := range []struct{ path, want string }{
		{"config.cluster.replicas=2", "'/config/cluster/replicas': value must be one of 1, 3, 5"},
		{"config.jetstream.syncInterval=2m", "'/config/jetstream/syncInterval'"},
		{"config.jetstream.fileStore.maxSize=20Gi", "maxSize (20Gi) must be at most 95 % of fileStore.pvc.size (20Gi)"},
		{"config.jetstream.fileStore.pvc.size=20GB", "'/config/jetstream/fileStore/pvc/size'"},
		{"config.lameDuck.duration=29", "minimum: got 29, want 30"},
		{"config.lameDuck.duration=60", "terminationGracePeriodSeconds (60) must be at least config.lameDuck.duration (60) + 20"},
		{"config.maxPayload=1", "minimum: got 1"},
		{"config.clustre=1", "additional properties 'clustre' not allowed"},
		{"container.resources.limits.memory=1GB", "is no quantity of bytes"},
		{"podTemplate.antiAffinity=maybe", "'/podTemplate/antiAffinity'"},
	} {
		key, text, _ := strings.Cut(c.path, "=")
		var value any = text
		if n := 0; len(text) < 3 {
			if _, err := fmt.Sscan(text, &n); err == nil {
				value = n
			}
		}
		_, err := contract.Render(contract.Install{Chart: whole, Values: map[string]any{"nats": contract.At(key, value)}})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("nats.%s: %v, want %q", c.path, err, c.want)
		}
	}
}

// TestMemoryAndSpaceAreWithinTheirLimits: the server's own bounds follow from the pod's.
func TestMemoryAndSpaceAreWithinTheirLimits(t *testing.T) {
	i := install(t, map[string]any{"nats": map[string]any{
		"config":    map[string]any{"jetstream": map[string]any{"fileStore": map[string]any{"pvc": map[string]any{"size": "50Gi"}}}},
		"container": map[string]any{"resources": map[string]any{"requests": map[string]any{"memory": "2Gi"}, "limits": map[string]any{"memory": "2Gi"}}},
	}}, nil)
	if conf := string(i.files(t)["nats.conf"]); !strings.Contains(conf, fmt.Sprintf(`"max_file_store": %d`, 40<<30)) {
		t.Errorf("80 %% of 50 GiB is not in\n%s", conf)
	}
	for _, e := range i.set.Spec.Template.Spec.Containers[0].Env {
		if e.Name == "GOMEMLIMIT" && e.Value != "1638MiB" {
			t.Errorf("GOMEMLIMIT is %s, want 80 %% of 2 GiB", e.Value)
		}
	}
}
