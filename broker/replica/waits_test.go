package replica_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"maestrohub.io/uns/broker/cluster"
	"maestrohub.io/uns/broker/config"
	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/tests/harness"
	"maestrohub.io/uns/tests/mqtttest"
	"maestrohub.io/uns/tests/site"
	"maestrohub.io/uns/tools/localcluster/natsserver"
)

// ofConnects says whether a request may be a CONNECT's: it is not if it is one of
// those a replica makes by itself, again and again. What is not known to be that
// counts.
func ofConnects(client, subject string, payload []byte) bool {
	switch {
	case strings.HasSuffix(client, " lease"):
		return false
	case strings.Contains(subject, "."+state.Locks+"."), strings.Contains(subject, "."+state.Members+"."):
		return false // renewals
	case strings.HasSuffix(subject, state.Locks), strings.HasSuffix(subject, state.Members):
		return false
	case strings.Contains(subject, state.SessionState+"."+strings.TrimSuffix(state.ProbeKeys, "/")+"."):
		return false
	case strings.HasPrefix(subject, "$JS.API.DIRECT.GET.") && bytes.Contains(payload, []byte(`"batch":1000`)):
		return false // what follows the last message known
	case strings.HasPrefix(subject, "$JS.API.STREAM.LIST"), strings.HasPrefix(subject, "$JS.API.STREAM.NAMES"),
		strings.HasPrefix(subject, "$JS.API.STREAM.INFO."+state.BucketStream): // whose buckets are there, and the same
		return false
	}
	return true
}

// TestAConnectWaitsForNATSAsOftenAsItMust counts the round trips of a CONNECT that
// follow one another, with every reply of NATS held until all that were asked for are
// there. The credential check is one of them.
func TestAConnectWaitsForNATSAsOftenAsItMust(t *testing.T) {
	s := site.Start(t)
	waves, err := natsserver.OpenWaves(s.Servers[0], ofConnects)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(waves.Close)
	through := func(c *config.Config) { c.NATS.Servers = []string{"nats://" + waves.Address} }
	a, b := s.Replica(t, "a", through), s.Replica(t, "b", nil)
	awaitLinks(t, a, 1)
	owners := s.Bucket(t, state.Sessions)

	with := func(p *mqtt.Connect) {
		p.Will = &mqtt.Will{Topic: mqtttest.Inbox("dev-a", "will/x"), QoS: 1, Payload: []byte(`"gone"`), Delay: 60}
	}
	clean := func(p *mqtt.Connect) { p.CleanStart = true }
	// The first session of the workspace makes its log.
	first := a.Connect(t, mqtt.V5, "dev-a", persistent("first"))
	first.Subscribe("waits/#", 1)
	first.Disconnect()
	awaitEnded(t, owners, "first")
	// A value that nobody wants, in a workspace without a log, is acknowledged once the
	// index is proven fresh.
	a.Connect(t, mqtt.V5, "other").Publish("nobody/x", 1, "1")

	// left lets a session of the name be known and offline, left at a replica.
	left := func(at *mqtttest.Broker) func(t *testing.T, id string) {
		return func(t *testing.T, id string) {
			c := at.Connect(t, mqtt.V5, "dev-a", persistent(id))
			c.Subscribe("waits/#", 1)
			c.Publish("waits/x", 1, "1")
			c.Ack(c.ExpectPublish("waits/x", "1"))
			c.Disconnect()
			awaitEnded(t, owners, id)
		}
	}
	const credential = 1
	for _, k := range []struct {
		name   string
		before func(t *testing.T, id string)
		change []func(*mqtt.Connect)

		present bool
		want    int // without the credential check
	}{
		{"clean, a name never seen", nil, []func(*mqtt.Connect){clean}, false, 1},
		{"clean, a name that was here before", func(t *testing.T, id string) {
			a.Connect(t, mqtt.V5, "dev-a", named(id)).Disconnect()
			awaitEnded(t, owners, id)
		}, []func(*mqtt.Connect){clean}, false, 1},
		{"clean, with a will", nil, []func(*mqtt.Connect){clean, with}, false, 2},
		{"resumed where it was", left(a), []func(*mqtt.Connect){persistent("")}, true, 2},
		{"resumed from another replica", left(b), []func(*mqtt.Connect){persistent("")}, true, 2},
		{"resumed, with a will", left(b), []func(*mqtt.Connect){persistent(""), with}, true, 2},
		{"new", nil, []func(*mqtt.Connect){persistent("")}, false, 3},
		{"new, with a will", nil, []func(*mqtt.Connect){persistent(""), with}, false, 3},
		{"new over an old session", left(b), []func(*mqtt.Connect){persistent(""), clean}, false, 4},
		{"clean over an old session", left(b), []func(*mqtt.Connect){clean}, false, 2},
		{"taken over from a connection at another replica", func(t *testing.T, id string) {
			b.Connect(t, mqtt.V5, "dev-a", persistent(id)).Subscribe("waits/#", 1)
		}, []func(*mqtt.Connect){persistent("")}, true, 3},
	} {
		t.Run(k.name, func(t *testing.T) {
			least, asked := 1<<10, []string(nil)
			// The least of several: a machine that is busy can only make it more.
			for n := range 12 {
				id := fmt.Sprintf("%s %d", k.name, n)
				if k.before != nil {
					k.before(t, id)
				}
				changes := append([]func(*mqtt.Connect){func(p *mqtt.Connect) { p.ClientID = id }}, k.change...)
				changes = append(changes, func(p *mqtt.Connect) { p.ClientID = id })
				c := a.Dial(t, mqtt.V5, "tcp")
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				counted, requests := waves.Count(ctx, func() {
					if ack := c.Connect(a.Credentials("dev-a", changes...)); ack.Code != mqtt.Success || ack.SessionPresent != k.present {
						t.Errorf("CONNACK %v, session present %v, want %v", ack.Code, ack.SessionPresent, k.present)
					}
				})
				cancel()
				c.Disconnect()
				if counted < least {
					least, asked = counted, requests
				}
				if least <= k.want+credential {
					break
				}
			}
			t.Logf("%d waits, %d requests, the credential check among both", least, len(asked))
			if least != k.want+credential {
				t.Errorf("%d waits, want %d and %d for the credential check; asked for:\n%s", least, k.want, credential, strings.Join(asked, "\n"))
			}
		})
	}
}

// awaitLinks waits until a replica has so many links.
func awaitLinks(t *testing.T, b *mqtttest.Broker, n int) {
	t.Helper()
	harness.Eventually(t, "the mesh to be linked", func() (bool, string) {
		logged := b.Logged()
		return strings.Count(logged, "mesh: link up") >= n, logged
	})
}

// awaitEnded waits until the end of a client's connection is written.
func awaitEnded(t *testing.T, owners state.Bucket, id string) {
	t.Helper()
	harness.Eventually(t, "the end of "+id+"'s connection to be written", func() (bool, string) {
		r, err := owners.Get(t.Context(), id)
		if err != nil {
			return false, err.Error()
		}
		o, err := cluster.DecodeOwner(r.Value)
		return err == nil && o.Ending != cluster.Held, fmt.Sprintf("%+v, error %v", o, err)
	})
}
