package kubernetes_test

import (
	"fmt"
	"testing"
	"time"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/harness"
)

// cut drops everything between two ends until heal is called, or the test ends.
func (s *site) cut(t *testing.T, a, b string) (heal func()) {
	t.Helper()
	cluster.lab(t, "cut", a, b)
	s.cuts = append(s.cuts, [2]string{a, b})
	return func() {
		t.Helper()
		cluster.lab(t, "heal", a, b)
		for i, c := range s.cuts {
			if c == [2]string{a, b} {
				s.cuts = append(s.cuts[:i], s.cuts[i+1:]...)
				break
			}
		}
	}
}

// natsAddresses are the addresses of NATS's pods.
func (s *site) natsAddresses(t *testing.T) (all []string) {
	t.Helper()
	pods, err := cluster.pods(t.Context(), s.release.deps(), "nats")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods {
		all = append(all, p.Status.PodIP)
	}
	return all
}

// fenced waits until a replica is not ready, which is when Kubernetes sends devices
// elsewhere.
func (s *site) unready(t *testing.T, i int, within time.Duration) time.Duration {
	t.Helper()
	return until(t, within, s.podName(i)+" not to be ready", func() (bool, string) {
		pod := s.pod(t, i)
		return !isReady(pod), "it is ready"
	})
}

func TestRowReplicaCutFromNATS(t *testing.T) {
	cluster.needLab(t)
	s := start(t)
	l := s.load(t)
	before := s.pod(t, 0)
	witness := s.replica(t, 0).Client(t, "device", "cut-nats-witness")
	var heals []func()
	for _, address := range s.natsAddresses(t) {
		heals = append(heals, s.cut(t, before.Status.PodIP, address))
	}
	cut := time.Now()
	if code := closedWithin(t, witness, ttl*7/6+generous); code != mqtt.ServerShuttingDown {
		t.Errorf("the fence closed with %v, want 0x8B", code)
	}
	fenced := time.Now()
	row(t, "replica cut from NATS: it fences, from the cut", fmt.Sprintf("%v from its last write", ttl*7/6), fenced.Sub(cut))
	s.unready(t, 0, generous)
	row(t, "replica cut from NATS: everything flows, from the fence", "2 s after the reconnect", l.flows(t, fenced))
	for _, heal := range heals {
		heal()
	}
	healed := time.Now()
	s.whole(t)
	row(t, "replica cut from NATS: it serves again, from the healing", "once a write lands", time.Since(healed))
	if after := s.pod(t, 0); restarts(after) != restarts(before) || after.UID != before.UID {
		t.Error("the replica was restarted for its fence")
	}
	row(t, "replica cut from NATS: in all", "no false will, nothing lost", l.finish(t))
}

func TestRowReplicaCutFromTheOther(t *testing.T) {
	cluster.needLab(t)
	s := start(t)
	l := s.load(t)
	a, b := s.replica(t, 0), s.replica(t, 1)
	live := b.Client(t, "device", "cut-mesh-live")
	live.Subscribe(harness.Data("cut-mesh/#"), 1)
	publisher := a.Client(t, "device", "cut-mesh-publisher")
	heal := s.cut(t, s.pod(t, 0).Status.PodIP, s.pod(t, 1).Status.PodIP)
	cut := time.Now()
	until(t, 3*time.Second+generous, "both replicas to see that the mesh is cut", func() (bool, string) {
		x, errX := s.status(t, a)
		y, errY := s.status(t, b)
		return errX == nil && errY == nil && x.Links == 0 && y.Links == 0, fmt.Sprintf("%+v %v, %+v %v", x, errX, y, errY)
	})
	row(t, "mesh cut: seen by both replicas, from the cut", "3 s of silence", time.Since(cut))
	const count = 20
	for n := range count {
		if code := publisher.Publish(harness.Inbox("device", "cut-mesh/x"), 1, fmt.Sprint(n)); code != mqtt.Success {
			t.Fatalf("PUBACK %v while the mesh is cut", code)
		}
	}
	row(t, "mesh cut: every persistent session gets values", "not affected", l.flows(t, time.Now()))
	if n := l.lost(cut); n > 0 {
		t.Errorf("%d connections of devices were lost by a cut between replicas", n)
	}
	heal()
	healed := time.Now()
	for n := range count {
		if p := live.Receive(); string(p.Payload) != fmt.Sprint(n) {
			t.Fatalf("received %q, want %d: what was buffered, in order", p.Payload, n)
		}
	}
	row(t, "mesh healed: a live subscriber has what was buffered", "sent when the link is back", time.Since(healed))
	row(t, "mesh cut: in all", "nothing lost", l.finish(t))
}

func TestRowReplicaCutFromEverything(t *testing.T) {
	cluster.needLab(t)
	s := start(t)
	l := s.load(t)
	before := s.pod(t, 0)
	heal := s.cut(t, before.Status.PodIP, "all")
	cut := time.Now()
	s.unready(t, 0, ttl*7/6+generous)
	row(t, "replica cut from everything: not ready, from the cut", fmt.Sprintf("%v from its last write", ttl*7/6), time.Since(cut))
	// Its devices hear nothing: they come back when they notice, the others go on.
	row(t, "replica cut from everything: everything flows, from the cut", "once devices notice", l.flows(t, cut))
	heal()
	healed := time.Now()
	s.whole(t)
	row(t, "replica cut from everything: it serves again, from the healing", "-", time.Since(healed))
	if after := s.pod(t, 0); restarts(after) != restarts(before) || after.UID != before.UID {
		t.Error("the replica was restarted for being cut off")
	}
	row(t, "replica cut from everything: everything flows, once it does", "-", l.flows(t, time.Now()))
	row(t, "replica cut from everything: in all", "nothing lost", l.finish(t))
}

// closedWithin waits for a connection's end and returns the reason of the DISCONNECT
// before it.
func closedWithin(t *testing.T, c *harness.Conn, within time.Duration) (code mqtt.ReasonCode) {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		p, err := c.Next(time.Until(deadline))
		if err != nil {
			if time.Now().After(deadline) {
				t.Fatalf("the connection is still open after %v", within)
			}
			return code
		}
		var d mqtt.Disconnect
		if p.Type == mqtt.DISCONNECT && d.Decode(mqtt.V5, p.Header, p.Body) == nil {
			code = d.Code
		}
	}
}
