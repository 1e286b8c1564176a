package conformance

import (
	"fmt"
	"testing"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/mqtttest"
)

// alias sets a topic alias; bare leaves the topic name out.
func alias(n uint16, bare bool) func(*mqtt.Publish) {
	return func(p *mqtt.Publish) {
		p.HasAlias, p.TopicAlias = true, n
		if bare {
			p.Topic = nil
		}
	}
}

func TestEveryAliasUpToTheMaximumIsTaken(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.3.2-12")
	topic := topicOf()
	sub := broker.Connect(t, mqtt.V5, "dev-b")
	sub.AutoAck = true
	sub.Subscribe(topic+"/+", 1)
	c := broker.Connect(t, mqtt.V5, "dev-a")
	most := c.Connack.TopicAliasMaximum
	if most == 0 {
		c.Fatalf("no topic aliases are announced")
	}
	for n := uint16(1); n <= most; n++ {
		c.Publish(fmt.Sprintf("%s/%d", topic, n), byte(n%3), "set", alias(n, false))
		sub.ExpectPublish(fmt.Sprintf("%s/%d", topic, n), "set")
	}
	for n := most; n > 0; n-- {
		c.Publish("", byte(n%3), "used", alias(n, true))
		sub.ExpectPublish(fmt.Sprintf("%s/%d", topic, n), "used")
	}
	c.Publish(topic+"/new", 1, "moved", alias(1, false))
	sub.ExpectPublish(topic+"/new", "moved")
	c.Publish("", 1, "moved", alias(1, true))
	sub.ExpectPublish(topic+"/new", "moved")
}

func TestAliasesAreOfOneConnection(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.3.2-7", "5 D5-07")
	topic := topicOf()
	c := broker.Connect(t, mqtt.V5, "dev-a", persistent)
	c.Publish(topic, 1, "set", alias(1, false))
	c.Drop()
	again := c.Again(persistent)
	again.Send(again.PublishPacket(topic, 1, "used", alias(1, true)))
	again.ExpectDisconnect(mqtt.ProtocolError)

	// Nor do the broker's outlive it: the first copy on a connection names its topic.
	sub := broker.Connect(t, mqtt.V5, "dev-b", all(persistent, func(p *mqtt.Connect) { p.TopicAliasMaximum = 5 }))
	sub.AutoAck = true
	sub.Subscribe(topic, 1)
	for range 2 {
		publisher(t).Publish(topic, 1, "x")
		if p := mqtttest.Expect[mqtt.Publish](sub); string(p.Topic) != sub.Topic(topic) {
			sub.Fatalf("the first copy has the topic %q", p.Topic)
		}
		sub.ExpectNothing()
		sub.Drop()
		sub = sub.Again(all(persistent, func(p *mqtt.Connect) { p.TopicAliasMaximum = 5 }))
		sub.AutoAck = true
	}
}

func TestAliasesOutsideTheirRangeCloseTheConnection(t *testing.T) {
	t.Parallel()
	shows(t, "5 D5-07", "5 MQTT-3.3.2-8")
	c := broker.Connect(t, mqtt.V5, "dev-a")
	most := c.Connack.TopicAliasMaximum
	for _, x := range []struct {
		name  string
		alias func(*mqtt.Publish)
		code  mqtt.ReasonCode
	}{
		{"above the maximum", alias(most+1, false), mqtt.TopicAliasInvalid},
		{"65535 without a topic", alias(65535, true), mqtt.TopicAliasInvalid},
		{"unknown without a topic", alias(most, true), mqtt.ProtocolError},
		{"neither topic nor alias", func(p *mqtt.Publish) { p.Topic = nil }, mqtt.ProtocolError},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			for qos := range byte(2) {
				c := broker.Connect(t, mqtt.V5, "dev-a")
				c.Send(c.PublishPacket(topicOf(), qos, "x", x.alias))
				c.ExpectDisconnect(x.code)
			}
		})
	}
}

func TestAliasZeroClosesTheConnection(t *testing.T) {
	t.Parallel()
	shows(t, "5 D5-07", "5 MQTT-3.3.2-8")
	for _, wire := range []string{`30 ("a" (23 0000) 'x')`, `32 ("a" 0001 (23 0000) 'x')`, `30 ("" (23 0000) 'x')`} {
		c := broker.Connect(t, mqtt.V5, "dev-a")
		c.SendWire(wire)
		c.ExpectDisconnect(mqtt.TopicAliasInvalid)
	}
}

func TestTheBrokersAliasesStayWithinTheClientsMaximum(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.1.2-26", "5 MQTT-3.1.2-27", "5 MQTT-3.3.2-8", "5 MQTT-3.3.2-11")
	for _, most := range []uint16{0, 1, 2, 65535} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			t.Parallel()
			topic := topicOf()
			sub := broker.Connect(t, mqtt.V5, "dev-b", func(p *mqtt.Connect) { p.TopicAliasMaximum = most })
			sub.AutoAck = true
			sub.Subscribe(topic+"/+", 1)
			pub := publisher(t)
			meaning := map[uint16]string{}
			omitted := 0
			for i := range 12 {
				full := sub.Topic(fmt.Sprintf("%s/%d", topic, i%4))
				pub.Publish(fmt.Sprintf("%s/%d", topic, i%4), 1, "x")
				p := mqtttest.Expect[mqtt.Publish](sub)
				name := string(p.Topic)
				if p.HasAlias {
					if p.TopicAlias == 0 || p.TopicAlias > most {
						sub.Fatalf("alias %d, the client takes 1 to %d", p.TopicAlias, most)
					}
					if name != "" {
						meaning[p.TopicAlias] = name
					} else {
						omitted++
					}
					name = meaning[p.TopicAlias]
				}
				if name != full {
					sub.Fatalf("the copy is on %q (alias %d), want %q", name, p.TopicAlias, full)
				}
			}
			if most > 0 && omitted == 0 {
				sub.Fatalf("no topic name was ever left out")
			}
		})
	}
}
