package cluster_test

import (
	"fmt"
	"testing"
	"time"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/harness"
)

func TestRowUNSPodKilled(t *testing.T) {
	c := start(t)
	l := c.startLoad(t)
	gone := c.gone(t, 1)
	watcher := c.brokers[1].Client(t, "device", "will-watcher")
	watcher.Subscribe(harness.Data("wills/#"), 1)
	for _, who := range []string{"back", "away"} {
		c.brokers[0].Dial(t).Connect(c.withWill(who))
	}
	c.Replicas[0].Kill()
	killed := time.Now()
	row(t, "pod killed: everything flows again, from the kill", "2 s after the reconnect", l.flows(t, killed))
	back := c.brokers[1].Dial(t)
	back.Connect(c.withWill("back"))
	until(t, 17*ttl/10+generous, "the other replica to find it gone", func() (bool, string) {
		return c.gone(t, 1) > gone, "not gone"
	})
	took := time.Since(killed)
	row(t, "pod killed: taken for gone, from the kill", fmt.Sprintf("%v to %v from its last write", ttl*15/10, ttl*17/10), took)
	if took < ttl*14/10 { // its last write is up to T/10 old
		t.Errorf("taken for gone %v after the kill, before 1.5 T", took)
	}
	will := watcher.Receive()
	row(t, "pod killed: will of a device that stays away, from the kill", fmt.Sprintf("gone and %v", grace), time.Since(killed))
	if string(will.Topic) != harness.Data("wills/away") {
		t.Errorf("the will on %s was sent: its device is back", will.Topic)
	}
	if since := time.Since(killed); since < took+grace-time.Second {
		t.Errorf("the will was sent %v after the kill: before the grace was over", since)
	}
	if err := c.Replicas[0].Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.awaitLinked(t)
	watcher.ExpectNothing() // once, and none of the device that is back
	back.ExpectNothing()
	l.finish(t)
}

func TestQoS2IsOnceWhicheverReplicaIsKilled(t *testing.T) {
	// The replicas are killed in turn, before anybody can find them gone, and
	// started again: as a crash of a container does it.
	c := start(t)
	l := c.startLoad(t)
	for n := range *kills {
		r := c.Replicas[n%len(c.Replicas)]
		r.Kill()
		killed := time.Now()
		row(t, "pod killed: everything flows again, from the kill", "2 s after the reconnect", l.flows(t, killed))
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		row(t, "pod killed: it serves again, from the kill", "-", time.Since(killed))
		c.awaitLinked(t)
		l.flows(t, time.Now())
	}
	l.finish(t)
}

// gone is how many members a replica has taken for gone.
func (c *cluster) gone(t *testing.T, i int) float64 {
	t.Helper()
	return c.brokers[i].Metric(t, "maestrohub_uns_broker_cluster_members_gone_total")
}

// withWill is a CONNECT of a device that has a will.
func (c *cluster) withWill(who string) mqtt.Connect {
	connect := c.brokers[0].ConnectAs("device", "will-"+who)
	connect.CleanStart, connect.SessionExpiry = false, 600
	connect.Will = &mqtt.Will{QoS: 1, Topic: harness.Inbox("device", "wills/"+who), Payload: []byte(`"gone"`)}
	return connect
}

func TestRowUNSPodStopped(t *testing.T) {
	c := start(t)
	l := c.startLoad(t)
	for _, r := range c.Replicas {
		asked := time.Now()
		if err := r.Stop(30 * time.Second); err != nil {
			t.Errorf("%s: %v", r.ID, err)
		}
		took := time.Since(asked)
		row(t, "pod stopped: from SIGTERM to its end", "hands over within 5 s", took)
		if took > 5*time.Second+generous {
			t.Errorf("the stop took %v", took)
		}
		row(t, "pod stopped: everything flows again, from SIGTERM", "-", l.flows(t, asked.Add(took)))
		said := 0
		for _, e := range l.events(asked, "lost") {
			if e.Code == mqtt.ServerShuttingDown {
				said++
			}
		}
		if said == 0 {
			t.Error("no MQTT 5 device was told with 0x8B")
		}
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.awaitLinked(t)
	}
	l.finish(t)
}

func TestRowMeshCut(t *testing.T) {
	c := start(t)
	l := c.startLoad(t)
	live := c.brokers[1].Client(t, "device", "cut-live")
	live.Subscribe(harness.Data("cut/#"), 1)
	publisher := c.brokers[0].Client(t, "device", "cut-publisher")
	c.Mesh().Freeze() // a network that swallows packets
	cut := time.Now()
	until(t, 3*time.Second+generous, "the replicas to see it", func() (bool, string) {
		a, b := status1(t, c.brokers[0]), status1(t, c.brokers[1])
		return a.Links == 0 && b.Links == 0, fmt.Sprintf("%+v %+v", a, b)
	})
	row(t, "mesh cut: seen by both replicas", "3 s of silence", time.Since(cut))
	const count = 20
	began := time.Now()
	for n := range count {
		if code := publisher.Publish(harness.Inbox("device", "cut/x"), 1, fmt.Sprint(n)); code != mqtt.Success {
			t.Fatalf("PUBACK %v while the mesh is cut", code)
		}
	}
	row(t, "mesh cut: one publish, from then on", "not affected", time.Since(began)/count)
	live.ExpectNothing()
	row(t, "mesh cut: every persistent session gets values", "not affected", l.flows(t, time.Now()))
	if lost := l.events(cut, "lost"); len(lost) > 0 {
		t.Errorf("%d connections were lost: %+v", len(lost), lost[0])
	}
	healed := time.Now()
	c.Mesh().Heal()
	for n := range count {
		if p := live.Receive(); string(p.Payload) != fmt.Sprint(n) {
			t.Fatalf("received %q, want %d: what was buffered, in order", p.Payload, n)
		}
	}
	row(t, "mesh healed: a live subscriber has what was buffered", "sent when the link is back", time.Since(healed))
	l.finish(t)
}
