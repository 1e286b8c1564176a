package cluster_test

import (
	"fmt"
	"testing"
	"time"

	membership "maestrohub.io/uns/broker/cluster"
	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/harness"
)

func TestRowUNSPodKilled(t *testing.T) {
	c := start(t)
	l := c.startLoad(t)
	w := c.newWills(t)
	w.watch(t, 1)
	w.connect(t, 0, "back", "away")
	swept := c.sweeps(t, 0)
	c.Replicas[0].Kill()
	killed := time.Now()
	last := c.lastWrite(t, 0)
	killFlows.took(t, l.flows(t, killed))
	back := c.brokers[1].Dial(t)
	back.Connect(w.device("back"))
	gone := c.awaitGone(t, 0)
	took := gone.Sub(last)
	killGone.took(t, took)
	if took < ttl*15/10 || took > ttl*17/10+generous {
		t.Errorf("taken for gone %v after its last write, want %v to %v", took, ttl*15/10, ttl*17/10)
	}
	took = w.expect(t, "away", grace+generous).Sub(gone)
	killWill.took(t, took)
	if swept {
		sweeperWill.took(t, took)
	}
	if took < grace-time.Second || took > grace+4*time.Second {
		t.Errorf("the will was sent %v after its replica was taken for gone, want %v", took, grace)
	}
	if err := c.Replicas[0].Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.awaitLinked(t)
	w.ExpectNothing() // once, and none of the device that is back
	killNoWill.was(t, 0)
	back.ExpectNothing()
	l.finish(t)
}

// TestRowTheSweeperIsKilled is the same for the one replica whose loss the others could
// notice later: the one that sends the wills of lost replicas.
func TestRowTheSweeperIsKilled(t *testing.T) {
	c := start(t)
	sweeper := -1
	until(t, time.Minute, "a replica to be elected", func() (bool, string) {
		for i := range c.Replicas {
			if c.sweeps(t, i) {
				sweeper = i
			}
		}
		return sweeper >= 0, "nobody has said so"
	})
	other := (sweeper + 1) % len(c.Replicas)
	w := c.newWills(t)
	w.watch(t, other)
	w.connect(t, sweeper, "swept")
	c.Replicas[sweeper].Kill()
	gone := c.awaitGone(t, sweeper)
	took := w.expect(t, "swept", grace+20*time.Second+generous).Sub(gone)
	sweeperWill.took(t, took)
	if took < grace-time.Second || took > grace+4*time.Second {
		t.Errorf("the will was sent %v after its replica was taken for gone, want %v", took, grace)
	}
	w.ExpectNothing()
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
		killFlows.took(t, l.flows(t, killed))
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		killAgain.took(t, time.Since(killed))
		c.awaitLinked(t)
		l.flows(t, time.Now())
	}
	l.finish(t)
}

func TestRowUNSPodStopped(t *testing.T) {
	c := start(t)
	l := c.startLoad(t)
	for i, r := range c.Replicas {
		other := (i + 1) % len(c.Replicas)
		w := c.newWills(t)
		w.watch(t, other)
		w.connect(t, i, "back", "away")
		asked := time.Now()
		if err := r.Stop(30 * time.Second); err != nil {
			t.Errorf("%s: %v", r.ID, err)
		}
		took := time.Since(asked)
		stopTakes.took(t, took)
		if took > 5*time.Second+generous {
			t.Errorf("the stop took %v", took)
		}
		back := c.brokers[other].Dial(t)
		back.Connect(w.device("back"))
		stopFlows.took(t, l.flows(t, asked.Add(took)))
		said := 0
		for _, e := range l.events(asked, "lost") {
			if e.Code == mqtt.ServerShuttingDown {
				said++
			}
		}
		if said == 0 {
			t.Error("no MQTT 5 device was told with 0x8B")
		}
		took = w.expect(t, "away", grace+generous).Sub(asked)
		stopWill.took(t, took)
		if took < grace-time.Second || took > grace+4*time.Second {
			t.Errorf("the will was sent %v after SIGTERM, want %v", took, grace)
		}
		w.ExpectNothing()
		stopNoWill.was(t, 0)
		back.Send((&mqtt.Disconnect{}).Append(nil, mqtt.V5))
		w.Close()
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.awaitLinked(t)
	}
	l.finish(t)
	stopLive.was(t, 0) // finish has failed otherwise
}

// wills are devices with wills, and who receives those.
type wills struct {
	*harness.Conn
	c *cluster
	n int64
}

// newWills returns wills on topics of their own, once none waits because of an earlier
// failure: for a connectBudget after the last CONNECT refused, graces stand still.
func (c *cluster) newWills(t *testing.T) *wills {
	t.Helper()
	for i := range c.Replicas {
		c.entry(t, i, *connectBudget+generous, "to refuse nobody", func(e membership.Entry) bool { return !e.Refusing })
	}
	return &wills{c: c, n: runs.Add(1)}
}

// device is a CONNECT with a will, over a session that outlives connections.
func (w *wills) device(who string) mqtt.Connect {
	connect := w.c.brokers[0].ConnectAs("device", fmt.Sprintf("will-%d-%s", w.n, who))
	connect.CleanStart, connect.SessionExpiry = false, 600
	connect.Will = &mqtt.Will{QoS: 1, Topic: harness.Inbox("device", w.topic(who)), Payload: []byte(`"gone"`)}
	return connect
}

func (w *wills) topic(who string) string { return fmt.Sprintf("wills/%d/%s", w.n, who) }

// connect connects devices to a replica.
func (w *wills) connect(t *testing.T, replica int, who ...string) {
	t.Helper()
	for _, one := range who {
		w.c.brokers[replica].Dial(t).Connect(w.device(one))
	}
}

// watch subscribes to the wills, at a replica.
func (w *wills) watch(t *testing.T, replica int) {
	t.Helper()
	w.Conn = w.c.brokers[replica].Client(t, "device", fmt.Sprintf("will-watcher-%d", w.n))
	w.Subscribe(harness.Data(w.topic("#")), 1)
}

// expect waits for the will of a device, which is to be the first that comes, and
// returns when it came.
func (w *wills) expect(t *testing.T, who string, within time.Duration) time.Time {
	t.Helper()
	packet, err := w.Next(within)
	if err != nil {
		t.Fatalf("the will of %s, which stays away: %v", who, err)
	}
	came := time.Now()
	var p mqtt.Publish
	if packet.Type != mqtt.PUBLISH || p.Decode(mqtt.V5, packet.Header, packet.Body) != nil || string(p.Topic) != harness.Data(w.topic(who)) {
		t.Fatalf("received %v on %q, want the will of %s", packet.Type, p.Topic, who)
	}
	w.Send(mqtt.AppendAck(nil, mqtt.V5, mqtt.PUBACK, p.PacketID, mqtt.Success))
	return came
}
