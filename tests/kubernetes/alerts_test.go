package kubernetes_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/harness"
)

// large is a value near the largest packet.
var large = `"` + strings.Repeat("x", 900<<10) + `"`

// TestAlertsFireUnderTheirFaultAndResolve lets a Prometheus load the chart's rules and
// scrape the replicas, then does to them what four of the alerts are for.
func TestAlertsFireUnderTheirFaultAndResolve(t *testing.T) {
	cluster.needLab(t)
	s := start(t)
	p := startPrometheus(t, s.release.uns()+"-headless."+s.release.namespace+".svc.cluster.local")
	until(t, time.Minute, "both replicas to be scraped", func() (bool, string) {
		n, err := p.query(t.Context(), `up{job="uns"} == 1`)
		return n == 2 && err == nil, fmt.Sprintf("%d are, %v", n, err)
	})
	until(t, time.Minute, "every rule to be evaluated", func() (bool, string) {
		loaded, broken, err := p.rules(t.Context())
		return err == nil && loaded == 24 && len(broken) == 0, fmt.Sprintf("%d rules, %q, %v", loaded, broken, err)
	})
	row(t, "Prometheus: scrapes every replica and evaluates the twelve rules", "-", "and a tenth of their spans")
	// Rows before may have left something that is still within a span.
	p.await(t, 2*time.Minute, true)

	// A session that stays away while more comes than its log holds.
	a, b := s.replica(t, 0), s.replica(t, 1)
	session := b.ConnectAs("device", fmt.Sprintf("alerts-session-%d", time.Now().Unix()))
	session.CleanStart, session.SessionExpiry = false, 3600
	away := b.Dial(t)
	away.Connect(session)
	away.Subscribe(harness.Data("alerts/log"), 1)
	away.Send((&mqtt.Disconnect{}).Append(nil, mqtt.V5))
	away.ExpectClosed()
	live := b.Client(t, "device", "alerts-live")
	live.Subscribe(harness.Data("alerts/mesh"), 1)
	publisher := a.Client(t, "device", "alerts-publisher")
	publish := func(topic string, count int) {
		for range count {
			if code := publisher.Publish(harness.Inbox("device", topic), 1, large); code != mqtt.Success {
				t.Fatalf("PUBACK %v on %s", code, topic)
			}
		}
	}
	publish("alerts/log", 2*logCap/len(large))
	away = b.Dial(t)
	away.Connect(session)
	began := time.Now()
	p.await(t, generous, true, "BrokerSessionLogValuesMissed")
	row(t, "alert SessionLogValuesMissed fires, from the resume", "a session behind its log", time.Since(began))

	// The replicas do not reach each other, and more waits than a replica buffers.
	heal := s.cut(t, s.pod(t, 0).Status.PodIP, s.pod(t, 1).Status.PodIP)
	cut := time.Now()
	publish("alerts/mesh", (64<<20)/len(large)+10)
	p.await(t, 30*time.Second+generous, true, "BrokerMeshLinksDown")
	row(t, "alert MeshLinksDown fires, from the cut (its 5 m are 30 s here)", "-", time.Since(cut))
	heal()
	p.await(t, generous, true, "BrokerMeshValuesLost")
	row(t, "alert MeshValuesLost fires, from the cut", "more than 64 MiB waited", time.Since(cut))

	// The database hangs.
	database := s.release.namespace + "/" + s.release.name + "-timescale-0"
	cluster.lab(t, "pause", database)
	hung := time.Now()
	resume := func() { cluster.lab(t, "resume", database) }
	defer func() {
		if resume != nil {
			resume()
		}
	}()
	publisher.Send((&mqtt.Publish{QoS: 1, PacketID: 60000, Topic: []byte(harness.Inbox("device", "alerts/hung")), Payload: []byte("1")}).Append(nil, mqtt.V5))
	p.await(t, 30*time.Second+generous, true, "IngestStoreUnavailable")
	row(t, "alert IngestStoreUnavailable fires, from the hang of the database", "10 s a write", time.Since(hung))
	resume()
	resume = nil
	if code := ack(t, publisher); code != mqtt.Success {
		t.Errorf("the value that waited for the database was answered %v", code)
	}
	// As they are, the rules fire too: those without a delay.
	real, err := p.firing(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"BrokerSessionLogValuesMissed", "BrokerMeshValuesLost", "IngestStoreUnavailable"} {
		if !real[name] {
			t.Errorf("%s does not fire with the spans as they are; those that do: %v", name, slices.Sorted(maps.Keys(real)))
		}
	}
	over := time.Now()
	p.await(t, 3*time.Minute+generous, true)
	row(t, "every alert has resolved, from the last fault's end", "its span, a tenth here", time.Since(over))
}

// await waits until exactly the named alerts, or at least they if others linger, fire;
// with none named, until no alert does.
func (p *prometheus) await(t *testing.T, within time.Duration, scaled bool, names ...string) {
	t.Helper()
	until(t, within, fmt.Sprintf("alerts %q", names), func() (bool, string) {
		firing, err := p.firing(t.Context(), scaled)
		all := len(names) > 0 || len(firing) == 0
		for _, n := range names {
			all = all && firing[n]
		}
		return err == nil && all, fmt.Sprintf("firing %q, %v", slices.Sorted(maps.Keys(firing)), err)
	})
}

// ack reads the PUBACK that a publish of one's own making gets.
func ack(t *testing.T, c *harness.Conn) mqtt.ReasonCode {
	t.Helper()
	p, err := c.Next(2 * time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	var a mqtt.Ack
	if err := a.Decode(mqtt.V5, p.Header, p.Body); err != nil {
		t.Fatal(err)
	}
	return a.Code
}
