package conformance

import (
	"fmt"
	"testing"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/mqtttest"
)

// member subscribes to a share.
func member(t *testing.T, v mqtt.Version, share, topic string, qos byte, options ...func(*mqtt.Connect)) *mqtttest.Client {
	t.Helper()
	c := broker.Connect(t, v, "dev-b", options...)
	c.Subscribe("$share/"+share+"/"+topic, qos)
	return c
}

// end shows that a member has nothing more to come: a message on another topic,
// of its own, is the next.
func end(t *testing.T, c *mqtttest.Client, topic string) {
	t.Helper()
	c.Subscribe(topic+"/end/"+c.ID, 0)
	publisher(t).Publish(topic+"/end/"+c.ID, 1, "end")
	c.ExpectPublish(topic+"/end/"+c.ID, "end")
}

func TestEachMessageOfAShareGoesToOneMember(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-4.8.2-1", "5 MQTT-4.8.2-2", "5 MQTT-4.8.2-3")
	for _, o := range []func(*mqtt.Connect){all(), persistent} {
		topic := topicOf()
		members := []*mqtttest.Client{member(t, mqtt.V5, "g", topic, 0, o), member(t, mqtt.V5, "g", topic, 1, o), member(t, mqtt.V5, "g", topic, 2, o)}
		other := member(t, mqtt.V5, "another", topic, 1, o) // another share gets its own copy
		own := broker.Connect(t, mqtt.V5, "dev-b", o)       // and so does a subscription without one
		own.Subscribe(topic, 1)
		other.AutoAck, own.AutoAck = true, true
		pub := publisher(t)
		const n = 12
		for i := range n {
			pub.Publish(topic, 2, fmt.Sprint(i))
			other.ExpectPublish(topic, fmt.Sprint(i))
			own.ExpectPublish(topic, fmt.Sprint(i))
		}
		got := map[string]int{}
		for _, c := range members {
			c.AutoAck = true
			c.Subscribe(topic+"/end", 0)
		}
		pub.Publish(topic+"/end", 2, "end")
		for granted, c := range members {
			for {
				p := mqtttest.Expect[mqtt.Publish](c)
				if string(p.Payload) == "end" {
					break
				}
				got[string(p.Payload)]++
				if p.QoS != byte(granted) {
					c.Fatalf("QoS %d, granted %d", p.QoS, granted)
				}
			}
		}
		if len(got) != n {
			t.Errorf("%d of %d messages arrived: %v", len(got), n, got)
		}
		for payload, times := range got {
			if times != 1 {
				t.Errorf("message %s arrived %d times", payload, times)
			}
		}
	}
}

func TestMalformedShares(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-4.8.2-1", "5 MQTT-4.8.2-2", "5 MQTT-3.8.3-4")
	for _, filter := range []string{"$share//a", "$share/g", "$share/g/", "$share/g+/a", "$share/#/a", "$share/+/a", "$share/"} {
		c := broker.Connect(t, mqtt.V5, "dev-b")
		c.Send(&mqtt.Subscribe{PacketID: 1, Filters: []mqtt.Subscription{{Filter: filter}}})
		d := mqtttest.Expect[mqtt.Disconnect](c)
		if d.Code != mqtt.MalformedPacket && d.Code != mqtt.ProtocolError && d.Code != mqtt.TopicFilterInvalid {
			c.Fatalf("%q: %s", filter, d.Code.Error())
		}
		c.ExpectClosed()
	}
	c := broker.Connect(t, mqtt.V5, "dev-b")
	c.Send(&mqtt.Subscribe{PacketID: 1, Filters: []mqtt.Subscription{{Filter: "$share/g/" + c.Topic("x"), NoLocal: true}}})
	c.ExpectDisconnect(mqtt.ProtocolError)
}

func TestAShareGetsNoRetainedMessages(t *testing.T) {
	t.Parallel()
	shows(t, "5 D5-13")
	topic := retainedTopic()
	publisher(t).Publish(topic, 1, "1")
	for handling := range byte(3) {
		c := broker.Connect(t, mqtt.V5, "dev-b")
		c.Subscribe("$share/g/"+topic, 1, func(p *mqtt.Subscribe) { p.Filters[0].RetainHandling = handling })
		c.ExpectNothing()
	}
}

func TestAQoS2MessageOfAShareStaysWithTheMemberThatHasIt(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-4.8.2-4")
	for _, received := range []bool{false, true} {
		topic := topicOf()
		first := member(t, mqtt.V5, "g", topic, 2, persistent)
		pub := publisher(t)
		pub.Publish(topic, 2, "x")
		p := first.ExpectPublish(topic, "x")
		second := member(t, mqtt.V5, "g", topic, 2, persistent)
		if received {
			first.Send(&mqtt.Ack{Type: mqtt.PUBREC, PacketID: p.PacketID})
			first.ExpectAck(mqtt.PUBREL, p.PacketID, mqtt.Success)
		}
		first.Drop()
		end(t, second, topic)
		first = first.Again(persistent)
		if received {
			first.ExpectAck(mqtt.PUBREL, p.PacketID, mqtt.Success)
			first.Send(&mqtt.Ack{Type: mqtt.PUBCOMP, PacketID: p.PacketID})
		} else {
			again := first.ExpectPublish(topic, "x")
			if again.PacketID != p.PacketID || !again.Dup {
				first.Fatalf("id %d, DUP %v; want %d and true", again.PacketID, again.Dup, p.PacketID)
			}
			first.Ack(again)
		}
		first.ExpectNothing()
	}
}

func TestAQoS2MessageOfAShareEndsWithItsMembersSession(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-4.8.2-5")
	for _, o := range []func(*mqtt.Connect){all(), persistent} {
		topic := topicOf()
		first := member(t, mqtt.V5, "g", topic, 2, o)
		publisher(t).Publish(topic, 2, "x")
		first.ExpectPublish(topic, "x")
		second := member(t, mqtt.V5, "g", topic, 2, o)
		first.Drop()
		first.Again(func(p *mqtt.Connect) { p.CleanStart = true })
		end(t, second, topic)
	}
}

// The standard allows it (MAY) and the broker does it: what was not acknowledged at
// QoS 1 goes to another member once its member is gone for good.
func TestAQoS1MessageOfAShareGoesOnWhenItsMembersSessionEnds(t *testing.T) {
	t.Parallel()
	for _, o := range []func(*mqtt.Connect){all(), persistent} {
		topic := topicOf()
		first := member(t, mqtt.V5, "g", topic, 1, o)
		publisher(t).Publish(topic, 1, "x")
		first.ExpectPublish(topic, "x")
		second := member(t, mqtt.V5, "g", topic, 1, o)
		first.Drop()
		first.Again(func(p *mqtt.Connect) { p.CleanStart = true })
		second.Ack(second.ExpectPublish(topic, "x"))
	}
}

func TestAMessageAMemberRefusesIsNotPassedOn(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-4.8.2-6")
	for _, o := range []func(*mqtt.Connect){all(), persistent} {
		for qos := byte(1); qos < 3; qos++ {
			topic := topicOf()
			first := member(t, mqtt.V5, "g", topic, qos, o)
			publisher(t).Publish(topic, qos, "x")
			p := first.ExpectPublish(topic, "x")
			second := member(t, mqtt.V5, "g", topic, qos, o)
			kind := mqtt.PUBACK
			if qos == 2 {
				kind = mqtt.PUBREC
			}
			first.Send(&mqtt.Ack{Type: kind, PacketID: p.PacketID, Code: mqtt.UnspecifiedError})
			first.ExpectNothing()
			first.Drop()
			first.Again(func(p *mqtt.Connect) { p.CleanStart = true }).Drop()
			end(t, second, topic)
		}
	}
}

func TestUnsubscribingLeavesAShare(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.10.4-1", "5 MQTT-3.10.4-2")
	topic := topicOf()
	first, second := member(t, mqtt.V5, "g", topic, 1), member(t, mqtt.V5, "g", topic, 1)
	if a := first.Unsubscribe("$share/g/" + topic); a.Codes[0] != mqtt.Success {
		first.Fatalf("UNSUBACK %v", a.Codes)
	}
	pub := publisher(t)
	for i := range 4 {
		pub.Publish(topic, 1, fmt.Sprint(i))
		second.Ack(second.ExpectPublish(topic, fmt.Sprint(i)))
	}
	first.ExpectNothing()
}
