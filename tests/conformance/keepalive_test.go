package conformance

import (
	"testing"
	"time"

	"maestrohub.io/uns/broker/config"
	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/mqtttest"
)

func TestASilentClientIsClosedAfterOneAndAHalfKeepAlives(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.1.2-22", "5 MQTT-3.2.2-22", "3.1.1 MQTT-3.1.2-24", "3.1.1 MQTT-3.1.2-8")
	for _, transport := range []string{"tcp", "ws"} {
		each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
			topic := topicOf()
			sub := watcher(t, topic, 1)
			began := time.Now()
			c := broker.ConnectOver(t, transport, v, "dev-a", all(will(topic, "silent"), func(p *mqtt.Connect) { p.KeepAlive = 1 }))
			if c.Connack.ServerKeepAlive != nil {
				c.Fatalf("Server Keep Alive %d, want the client's own to count", *c.Connack.ServerKeepAlive)
			}
			c.ExpectRefusal(mqtt.KeepAliveTimeout)
			if silent := time.Since(began); silent < 1500*time.Millisecond || silent > 10*time.Second {
				t.Errorf("%s: closed after %v, want 1.5 s", transport, silent)
			}
			sub.ExpectPublish(topic, "silent") // as if the network had failed
		})
	}
}

func TestAnyPacketKeepsTheConnectionAlive(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.12.4-1", "5 MQTT-3.1.2-22", "3.1.1 MQTT-3.12.4-1", "3.1.1 MQTT-3.1.2-24")
	each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
		topic := topicOf()
		ping := broker.Connect(t, v, "dev-a", func(p *mqtt.Connect) { p.KeepAlive = 3 })
		talk := broker.Connect(t, v, "dev-a", func(p *mqtt.Connect) { p.KeepAlive = 3 })
		for range 3 { // longer than it may be silent
			pass(2 * time.Second)
			ping.ExpectNothing()
			talk.Publish(topic, 1, "x")
		}
	})
}

func TestNoKeepAliveMeansNoTimeoutBeforeMQTT5(t *testing.T) {
	t.Parallel()
	shows(t, "3.1.1 MQTT-3.1.2-24")
	c := broker.Connect(t, mqtt.V311, "dev-a")
	pass(2 * time.Second)
	c.ExpectNothing()
}

func TestTheServerKeepAliveReplacesTheClients(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.1.2-21", "5 MQTT-3.1.2-22")
	b := mqtttest.Start(t, func(c *config.Config) { c.Limits.MaxKeepAlive = time.Second })
	for _, asked := range []uint16{0, 2, 65535} {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			c := b.Connect(t, mqtt.V5, "dev-a", func(p *mqtt.Connect) { p.KeepAlive = asked })
			if s := c.Connack.ServerKeepAlive; s == nil || *s != 1 {
				c.Fatalf("asked for %d: Server Keep Alive %v, want 1", asked, s)
			}
			c.ExpectDisconnect(mqtt.KeepAliveTimeout)
			if silent := time.Since(began); silent < 1500*time.Millisecond {
				t.Errorf("closed after %v, want 1.5 s", silent)
			}
		})
	}
}
