package sessions

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"maestrohub.io/uns/broker/config"
	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/mqtttest"
	"maestrohub.io/uns/tests/site"
	"maestrohub.io/uns/tools/localcluster/natsserver"
)

// A retained value that was acknowledged elsewhere before a SUBSCRIBE comes to who
// subscribes, also where this replica's NATS is so slow that neither the value nor the
// subscription is known everywhere when the SUBACK leaves; what it had already does not
// come twice.
func TestARetainedValueComesToASubscriptionThatIsLate(t *testing.T) {
	s := site.Start(t)
	way, err := natsserver.Hold(s.Servers[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(way.Close)
	a := s.Replica(t, "a", nil)
	b := s.Replica(t, "b", func(c *config.Config) { c.NATS.Servers = []string{"nats://" + way.Address} })
	pub := connect(t, a, "dev-a")
	for qos, session := range []func(*testing.T) *mqtttest.Client{
		func(t *testing.T) *mqtttest.Client { return connect(t, b, "dev-b", lasting) },
		func(t *testing.T) *mqtttest.Client { return connect(t, b, "dev-b") },
		func(t *testing.T) *mqtttest.Client { return connect(t, b, "dev-b", lasting) },
	} {
		base := "retained/late" + string(rune('0'+qos))
		sub := session(t)
		pub.Publish(base+"/same", 1, "1")
		pub.Publish(base+"/newer", 1, "1")
		sub.Subscribe(base+"/+", byte(qos)) // b knows them both
		first := []string{payload(t, sub), payload(t, sub)}
		slices.Sort(first)
		if !slices.Equal(first, []string{"newer 1", "same 1"}) {
			t.Fatalf("QoS %d: retained are %q", qos, first)
		}
		sub.Unsubscribe(base + "/+")
		sub.ExpectNothing()

		way.Set(3 * time.Second)
		pub.Publish(base+"/newer", 1, "2")
		pub.Publish(base+"/fresh", 1, "1")
		sub.Subscribe(base+"/+", byte(qos))
		got := map[string]int{}
		for got["newer 2"] == 0 || got["fresh 1"] == 0 || got["same 1"] == 0 {
			got[payload(t, sub)]++
		}
		way.Release() // b is stopped at the end, and would wait for what is held
		sub.ExpectNothing()
		if got["same 1"] != 1 || got["newer 2"] != 1 || got["fresh 1"] != 1 || got["newer 1"] > 1 || len(got) > 4 {
			t.Errorf("QoS %d: %v", qos, got)
		}
	}
}

// payload is the next delivery, acknowledged: the last level of its topic, and the value.
func payload(t *testing.T, c *mqtttest.Client) string {
	t.Helper()
	p := mqtttest.Expect[mqtt.Publish](c)
	c.Ack(p)
	level := string(p.Topic[bytes.LastIndexByte(p.Topic, '/')+1:])
	return level + " " + string(p.Payload)
}
