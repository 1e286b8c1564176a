package cluster_test

import (
	"fmt"
	"testing"
	"time"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/harness"
)

func TestRowUNSPodCutOffFromNATS(t *testing.T) {
	c := start(t)
	l := c.startLoad(t)
	for i, way := range []string{"refuses", "swallows"} {
		r := c.Replicas[i]
		witness := c.brokers[i].Client(t, "device", "cut-off-"+way)
		if way == "refuses" {
			r.NATS.Cut()
		} else {
			r.NATS.Freeze()
		}
		cut := time.Now()
		refused := make(chan mqtt.Connack, 1)
		under := c.brokers[i].Dial(t)
		under.Send(connectOf(c.brokers[i].ConnectAs("device", "under-way-"+way)))
		go func() {
			packet, err := under.Next(*connectBudget + generous)
			var ack mqtt.Connack
			if err == nil && packet.Type == mqtt.CONNACK && ack.Decode(mqtt.V5, packet.Header, packet.Body) == nil {
				refused <- ack
			}
			close(refused)
		}()
		last := c.lastWrite(t, i)
		if code := expectFence(t, witness); code != mqtt.ServerShuttingDown {
			t.Errorf("the fence closed with %v, want 0x8B", code)
		}
		fenced := time.Now()
		took := fenced.Sub(last)
		cutFence.took(t, took)
		if took < cutAfter-ttl/10 || took > cutAfter+generous {
			t.Errorf("the network %s: fenced %v after the last write", way, took)
		}
		ack, answered := <-refused
		took = time.Since(cut)
		cutRefused.took(t, took)
		if !answered || ack.Code != mqtt.ServerUnavailable || took > cutAfter+generous {
			t.Errorf("the network %s: a CONNECT under way was answered (%v) with %v after %v, want 0x88 at the fence", way, answered, ack.Code, took)
		}
		if c.isGone(t, i) {
			t.Error("it was taken for gone before it had fenced")
		}
		cutFlows.took(t, l.flows(t, fenced))
		took = c.awaitGone(t, i).Sub(last)
		cutGone.took(t, took)
		if took < ttl*15/10 || took > ttl*17/10+generous {
			t.Errorf("the network %s: taken for gone %v after its last write", way, took)
		}
		r.NATS.Heal()
		healed := time.Now()
		c.awaitReady(t)
		cutBack.took(t, time.Since(healed))
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
		var all []status
		down := true
		for _, b := range c.brokers {
			s := status1(t, b)
			down = down && s.Links == 0
			all = append(all, s)
		}
		return down, fmt.Sprintf("%+v", all)
	})
	meshSeen.took(t, time.Since(cut))
	const count = 20
	began := time.Now()
	for n := range count {
		if code := publisher.Publish(harness.Inbox("device", "cut/x"), 1, fmt.Sprint(n)); code != mqtt.Success {
			t.Fatalf("PUBACK %v while the mesh is cut", code)
		}
	}
	meshPublish.took(t, time.Since(began)/count)
	live.ExpectNothing()
	meshSessions.took(t, l.flows(t, time.Now()))
	lost := l.events(cut, "lost")
	meshDevices.was(t, len(lost))
	if len(lost) > 0 {
		t.Errorf("%d connections were lost: %+v", len(lost), lost[0])
	}
	healed := time.Now()
	c.Mesh().Heal()
	for n := range count {
		if p := live.Receive(); string(p.Payload) != fmt.Sprint(n) {
			t.Fatalf("received %q, want %d: what was buffered, in order", p.Payload, n)
		}
	}
	meshHealed.took(t, time.Since(healed))
	l.finish(t)
}

// connectOf is the packet of a CONNECT.
func connectOf(p mqtt.Connect) []byte { return p.Append(nil, mqtt.V5) }
