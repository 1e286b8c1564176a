package contract

import "testing"

// What may stand in a list: the schema and the broker agree on every case.
func TestTheSchemaOfListsIsTheBrokers(t *testing.T) {
	cases := map[string]struct{ taken, refused []any }{
		"externalNats.urls":                              {[]any{"nats://n:4222", "tls://n.example:4222", "nats://[fd00::1]:4222", "nats://n"}, []any{"n:4222", "http://n:4222", "nats://", "nats://user:word@n:4222"}},
		"uns.mqtt.embedded.webSocket.allowedOrigins":     {[]any{"*", "https://plant.example", "http://10.0.0.1:3000", "http://[fd00::1]:3000"}, []any{"plant.example", "https://", "https://plant.example/page", "https://a@plant.example"}},
		"uns.mqtt.embedded.proxyProtocol.trustedProxies": {[]any{"10.0.0.0/8", "fd00::/8", "192.0.2.7", "::ffff:192.0.2.8"}, []any{"plant.example", "10.0.0.0/", "10.0.0.0/1000"}},
	}
	for _, v := range values(t).Settings() {
		c, known := cases[v.Path]
		if !known {
			if v.Config.Form.List && len(v.Config.Elements) == 0 {
				t.Errorf("%s is a list that no case tries", v.Path)
			}
			continue
		}
		around := map[string]any{}
		if v.Path == "externalNats.urls" {
			around = At("nats.enabled", false)
		}
		for want, list := range map[bool][]any{true: c.taken, false: c.refused} {
			for _, value := range list {
				got := refusal(t, Merged(around, At(v.Path, []any{value})))
				if (got == "") != want {
					t.Errorf("%s: %v is to be taken: %v; the chart says %q", v.Path, value, want, got)
				}
				agree(t, v, []any{value}, want)
			}
		}
	}
}
