package contract

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// guards are installations that cannot work, with what the chart says of each.
var guards = []struct {
	name   string
	values string // YAML
	want   string
}{
	{"durations beyond the broker's", `uns: {mqtt: {embedded: {memberTTL: 3m}}}`, `ERROR: uns.mqtt.embedded.memberTTL (3m) must be 5s to 2m`},
	{"sizes beyond the broker's", `uns: {mqtt: {embedded: {sessionLogMaxBytes: 2TiB}}}`, `ERROR: uns.mqtt.embedded.sessionLogMaxBytes (2TiB) must be 1MiB to 1TiB`},
	{"a setting beside its value", `uns: {config: {brokerMemberTTL: 20s}}`, `ERROR: uns.config.brokerMemberTTL (20s) must not be set: the chart sets it itself`},
	{"two NATS", `externalNats: {urls: ["nats://n:4222"]}`, `ERROR: externalNats.urls ([nats://n:4222]) must be empty with nats.enabled`},
	{"replicas without NATS", `{nats: {enabled: false}, uns: {replicas: 2}, storage: {type: timescale, timescale: {existingSecret: s}}}`, `ERROR: uns.replicas (2) must be 1 without NATS`},
	{"a password without a user", `{nats: {enabled: false}, externalNats: {urls: ["nats://n:4222"], passwordSecretName: s}}`, `ERROR: externalNats.user () must be set with externalNats.passwordSecretName`},
	{"mutual TLS without certificates", `{nats: {enabled: false}, externalNats: {urls: ["tls://n:4222"], mutual: true}}`, `ERROR: externalNats.mutual (true) must be false without externalNats.tlsSecretName`},
	{"mutual TLS without TLS", `{nats: {enabled: false}, global: {natsTLS: {mutual: true}}}`, `ERROR: global.natsTLS.mutual (true) must be false without global.natsTLS.enabled`},
	{"replicas on an embedded historian", `uns: {replicas: 2}`, `ERROR: storage.type (embedded) must be timescale with uns.replicas 2`},
	{"timescale without a database", `storage: {type: timescale}`, `ERROR: storage.timescale.existingSecret () must name the Secret`},
	{"a bundled database for nobody", `storage: {timescale: {bundled: {enabled: true}}}`, `ERROR: storage.timescale.bundled.enabled (true) must be false with storage.type embedded`},
	{"a retry shorter than a write", `storage: {retryBudget: 5s}`, `ERROR: storage.retryBudget (5s) must be at least storage.hungWriteTimeout (10s)`},
	{"TLS only without a certificate", `uns: {mqtt: {embedded: {tls: {disablePlaintext: true}}}}`, `ERROR: uns.mqtt.embedded.tls.secretName () must be set with uns.mqtt.embedded.tls.disablePlaintext`},
	{"mutual TLS without a certificate", `uns: {mqtt: {embedded: {tls: {clientCA: true}}}}`, `ERROR: uns.mqtt.embedded.tls.secretName () must be set with uns.mqtt.embedded.tls.clientCA`},
	{"a longest hold-off below the first", `uns: {mqtt: {embedded: {limits: {authFailureBackoffMax: 10s}}}}`, `ERROR: uns.mqtt.embedded.limits.authFailureBackoffMax (10s) must be at least authFailureBackoff (30s)`},
	{"packets smaller than a CONNECT", `uns: {mqtt: {embedded: {maxPacketBytes: 32KiB}}}`, `ERROR: uns.mqtt.embedded.maxPacketBytes (32KiB) must be at least limits.maxConnectPacketBytes (64KiB)`},
	{"a log smaller than a packet", `uns: {mqtt: {embedded: {sessionLogMaxBytes: 1MiB}}}`, `ERROR: uns.mqtt.embedded.sessionLogMaxBytes (1MiB) must be at least 256KiB more than maxPacketBytes (1MiB)`},
	{"two listeners on one port", `uns: {mqtt: {embedded: {tcpPort: 8080}}}`, `ERROR: uns.mqtt.embedded.tcpPort (8080) must not be the port of uns.http.port`},
	{"a policy for traffic from outside without any", `uns: {mqtt: {service: {externalTrafficPolicy: Local}}}`, `ERROR: uns.mqtt.service.externalTrafficPolicy (Local) must be null with uns.mqtt.service.type ClusterIP`},
	{"a node port without one", `uns: {mqtt: {service: {nodePorts: {mqtt: 31883}}}}`, `ERROR: uns.mqtt.service.nodePorts.mqtt (31883) must be null with uns.mqtt.service.type ClusterIP`},
	{"a class of no load balancer", `uns: {mqtt: {service: {type: NodePort, loadBalancerClass: a/b}}}`, `ERROR: uns.mqtt.service.loadBalancerClass (a/b) must be empty unless uns.mqtt.service.type is LoadBalancer`},
	{"sources of no load balancer", `uns: {mqtt: {service: {loadBalancerSourceRanges: [10.0.0.0/8]}}}`, `ERROR: uns.mqtt.service.loadBalancerSourceRanges ([10.0.0.0/8]) must be empty unless`},
	{"a route of no gateway", `uns: {mqtt: {gateway: {enabled: true}}}`, `ERROR: uns.mqtt.gateway.parentRefs ([]) must name a Gateway`},
	{"two models", `uns: {model: {content: "workspaces: []", existingConfigMap: m}}`, `ERROR: uns.model.existingConfigMap (m) must be empty with uns.model.content`},
	{"two clients files", `uns: {clients: {existingSecret: s, entries: [{id: a, workspace: b, secret: "12345678"}]}}`, `ERROR: uns.clients.existingSecret (s) must be empty with uns.clients.entries`},
	{"no time to stop", `uns: {terminationGracePeriodSeconds: 34}`, `ERROR: uns.terminationGracePeriodSeconds (34) must be at least 35: preStopSeconds (5), 25 for the hand-over, 5 to end`},
	{"memory in a unit nobody knows", `uns: {resources: {limits: {memory: 1Zi}}}`, `ERROR: uns.resources.limits.memory (1Zi) must be a number of bytes, or end in`},
}

func TestWhatDoesNotFitTogetherIsRefusedByName(t *testing.T) {
	for _, g := range guards {
		t.Run(g.name, func(t *testing.T) {
			if got := refusal(t, parsed(t, g.values)); !strings.Contains(got, g.want) {
				t.Errorf("%q, want %s", got, g.want)
			}
		})
	}
}

// A guard that no case provokes may never work.
func TestEveryGuardHasACase(t *testing.T) {
	key := regexp.MustCompile(`"maestrohub\.refuse" \(dict "key" (?:"([^"]+)"|\(printf "([^"]+)")`)
	text, err := os.ReadFile(filepath.Join(folder, "templates/_validate.tpl"))
	if err != nil {
		t.Fatal(err)
	}
	found := key.FindAllStringSubmatch(string(text), -1)
	if len(found) < 20 {
		t.Fatalf("found %d guards: is the pattern right?", len(found))
	}
	for _, g := range found {
		name := strings.TrimSuffix(g[1]+g[2], "%s")
		if name == "the release's name" {
			continue // TestALongReleaseNameStillFitsAndALongerIsRefused
		}
		has := false
		for _, c := range guards {
			has = has || strings.Contains(c.want, "ERROR: "+name)
		}
		if !has {
			t.Errorf("the guard of %s is tried by no case", name)
		}
	}
}

func parsed(t *testing.T, text string) map[string]any {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	values, err := ValuesFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return values
}
