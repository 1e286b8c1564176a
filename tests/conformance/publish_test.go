package conformance

import (
	"bytes"
	"fmt"
	"testing"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/mqtttest"
)

func TestPublishesAreAnsweredAsTheirQoSAsks(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-2.2.1-5", "5 MQTT-3.3.4-1", "5 MQTT-4.3.2-4", "5 MQTT-4.3.3-8", "5 MQTT-4.3.3-11", "5 MQTT-3.4.2-1", "5 MQTT-3.5.2-1", "5 MQTT-3.7.2-1",
		"3.1.1 MQTT-2.3.1-6", "3.1.1 MQTT-3.3.4-1", "3.1.1 MQTT-4.3.2-2", "3.1.1 MQTT-4.3.3-2")
	each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
		topic := topicOf()
		sub := broker.Connect(t, mqtt.V5, "dev-b")
		sub.Subscribe(topic, 2)
		c := broker.Connect(t, v, "dev-a")
		for _, id := range []uint16{1, 2, 255, 256, 65535} {
			c.Send(c.PublishPacket(topic, 1, "one", func(p *mqtt.Publish) { p.PacketID = id }))
			c.ExpectAck(mqtt.PUBACK, id, mqtt.Success)
			c.Send(c.PublishPacket(topic, 2, "two", func(p *mqtt.Publish) { p.PacketID = id }))
			c.ExpectAck(mqtt.PUBREC, id, mqtt.Success)
			c.Send(&mqtt.Ack{Type: mqtt.PUBREL, PacketID: id})
			c.ExpectAck(mqtt.PUBCOMP, id, mqtt.Success)
			c.Send(c.PublishPacket(topic, 0, "zero"))
			c.ExpectNothing()
			for _, payload := range []string{"one", "two", "zero"} {
				sub.Ack(sub.ExpectPublish(topic, payload))
			}
		}
	})
}

func TestAQoS2PublishIsTakenOnceUntilItsPUBREL(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-4.3.3-10", "5 MQTT-4.3.3-12", "3.1.1 MQTT-4.3.3-2")
	each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
		topic := topicOf()
		sub := broker.Connect(t, v, "dev-b")
		sub.AutoAck = true
		sub.Subscribe(topic, 1)
		c := broker.Connect(t, v, "dev-a", persistent)
		publish := func(c *mqtttest.Client, payload string, dup bool) {
			c.Send(c.PublishPacket(topic, 2, payload, func(p *mqtt.Publish) { p.PacketID, p.Dup = 7, dup }))
			c.ExpectAck(mqtt.PUBREC, 7, mqtt.Success)
		}
		publish(c, "first", false)
		publish(c, "first", true)
		publish(c, "another", false) // the identifier is what counts
		c.Drop()
		c = c.Again(persistent)
		publish(c, "first", true)
		c.Send(&mqtt.Ack{Type: mqtt.PUBREL, PacketID: 7})
		c.ExpectAck(mqtt.PUBCOMP, 7, mqtt.Success)
		publish(c, "second", true) // a new message whatever DUP says
		c.Send(&mqtt.Ack{Type: mqtt.PUBREL, PacketID: 7})
		c.ExpectAck(mqtt.PUBCOMP, 7, mqtt.Success)
		sub.ExpectPublish(topic, "first")
		sub.ExpectPublish(topic, "second")
		publisher(t).Publish(topic, 1, "end")
		sub.ExpectPublish(topic, "end")
	})
}

// Both PUBLISHes are on the wire before the first has its answer.
func TestAQoS2RepetitionBeforeThePUBRECIsTakenOnce(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-4.3.3-10", "3.1.1 MQTT-4.3.3-2")
	each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
		topic := topicOf()
		sub := broker.Connect(t, v, "dev-b")
		sub.AutoAck = true
		sub.Subscribe(topic, 1)
		c := broker.Connect(t, v, "dev-a")
		first := c.PublishPacket(topic, 2, "once").Append(nil, v)
		again := bytes.Clone(first)
		again[0] |= 8 // DUP
		c.SendRaw(append(first, again...))
		c.ExpectAck(mqtt.PUBREC, 1, mqtt.Success)
		c.ExpectAck(mqtt.PUBREC, 1, mqtt.Success)
		c.Publish(topic, 1, "end")
		sub.ExpectPublish(topic, "once")
		sub.ExpectPublish(topic, "end")
	})
}

func TestAfterPUBACKTheIdentifierIsANewMessage(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-4.3.2-5", "3.1.1 MQTT-4.3.2-2")
	each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
		topic := topicOf()
		sub := broker.Connect(t, v, "dev-b")
		sub.AutoAck = true
		sub.Subscribe(topic, 1)
		c := broker.Connect(t, v, "dev-a")
		for _, x := range []struct {
			payload string
			dup     bool
		}{{"1", false}, {"2", true}, {"3", false}} {
			c.Send(c.PublishPacket(topic, 1, x.payload, func(p *mqtt.Publish) { p.PacketID, p.Dup = 5, x.dup }))
			c.ExpectAck(mqtt.PUBACK, 5, mqtt.Success)
			// DUP of the copy is the broker's own.
			if p := sub.ExpectPublish(topic, x.payload); p.Dup {
				sub.Fatalf("DUP 1 on the first copy")
			}
		}
	})
}

func TestDUPOfACopyIsTheBrokersOwn(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.3.1-3", "3.1.1 MQTT-3.3.1-3", "5 MQTT-4.3.2-2", "5 MQTT-4.3.3-2")
	each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
		topic := topicOf()
		for _, options := range [](func(*mqtt.Connect)){all(), persistent} {
			sub := broker.Connect(t, v, "dev-b", options)
			sub.Subscribe(topic, 2)
			pub := publisher(t)
			for qos := byte(1); qos < 3; qos++ {
				pub.Publish(topic, qos, "x", func(p *mqtt.Publish) { p.Dup = true })
				p := sub.ExpectPublish(topic, "x")
				if p.Dup || p.QoS != qos {
					sub.Fatalf("DUP %v QoS %d, want false and %d", p.Dup, p.QoS, qos)
				}
				sub.Ack(p)
			}
		}
	})
}

// What a PUBLISH to a place not its own gets: MQTT 5 is told, MQTT 3 is
// acknowledged as usual.
func TestRefusedPublishesAreAnsweredAsTheVersionCan(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-4.3.3-9", "5 MQTT-3.4.2-1", "5 MQTT-3.5.2-1", "3.1.1 MQTT-3.3.5-2")
	for _, x := range []struct {
		name, topic, payload string
		code                 mqtt.ReasonCode
	}{
		{"data topic", mqtttest.Data("plant", "x"), "1", mqtt.NotAuthorized},
		{"another's inbox", mqtttest.Inbox("dev-b", "x"), "1", mqtt.NotAuthorized},
		{"another workspace", mqtttest.Inbox("other", "x"), "1", mqtt.NotAuthorized},
		{"$ topic", "$SYS/broker/version", "1", mqtt.NotAuthorized},
		{"not JSON", mqtttest.Inbox("dev-a", "x"), "{", mqtt.PayloadFormatInvalid},
		{"empty", mqtttest.Inbox("dev-a", "x"), "", mqtt.PayloadFormatInvalid},
		{"against the schema", mqtttest.Inbox("dev-a", "level/x"), `"high"`, mqtt.ImplementationSpecificError},
		{"out of range", mqtttest.Inbox("dev-a", "level/x"), `101`, mqtt.ImplementationSpecificError},
		{"too large", mqtttest.Inbox("dev-a", "small/x"), `"0123456789012345678901234567890123456789012345678901234567890123456789"`, mqtt.QuotaExceeded},
	} {
		each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
			t.Log(x.name)
			want := x.code
			if v < mqtt.V5 {
				want = mqtt.Success
			}
			c := broker.Connect(t, v, "dev-a")
			for qos := byte(1); qos < 3; qos++ {
				if got := c.TryPublish("", qos, x.payload, func(p *mqtt.Publish) { p.Topic = []byte(x.topic) }); got != want {
					c.Fatalf("QoS %d: %s, want %s", qos, got.Error(), want.Error())
				}
			}
			// At QoS 0 there is no answer, and the connection goes on.
			c.TryPublish("", 0, x.payload, func(p *mqtt.Publish) { p.Topic = []byte(x.topic) })
			c.ExpectNothing()
		})
	}
	t.Run("the identifier is free after a refusal", func(t *testing.T) {
		t.Parallel()
		topic := topicOf()
		sub := broker.Connect(t, mqtt.V5, "dev-b")
		sub.Subscribe(topic, 0)
		c := broker.Connect(t, mqtt.V5, "dev-a")
		c.Send(c.PublishPacket("level/x", 2, "101", func(p *mqtt.Publish) { p.PacketID = 9 }))
		c.ExpectAck(mqtt.PUBREC, 9, mqtt.ImplementationSpecificError)
		c.Send(c.PublishPacket(topic, 2, "1", func(p *mqtt.Publish) { p.PacketID = 9 }))
		c.ExpectAck(mqtt.PUBREC, 9, mqtt.Success)
		sub.ExpectPublish(topic, "1")
		c.Send(&mqtt.Ack{Type: mqtt.PUBREL, PacketID: 9})
		c.ExpectAck(mqtt.PUBCOMP, 9, mqtt.Success)
	})
}

func TestAPUBRELOfNoMessageIsCompleted(t *testing.T) {
	t.Parallel()
	shows(t, "5 D5-15", "5 MQTT-3.7.2-1", "5 MQTT-4.3.3-11")
	each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
		want := mqtt.PacketIdentifierNotFound
		if v < mqtt.V5 {
			want = mqtt.Success
		}
		c := broker.Connect(t, v, "dev-a")
		c.Send(&mqtt.Ack{Type: mqtt.PUBREL, PacketID: 77})
		c.ExpectAck(mqtt.PUBCOMP, 77, want)
		c.ExpectNothing()
	})
}

func TestAcknowledgmentsLeaveInTheOrderOfThePublishes(t *testing.T) {
	t.Parallel()
	shows(t, "3.1.1 MQTT-4.6.0-2", "3.1.1 MQTT-4.6.0-3")
	each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
		c := broker.Connect(t, v, "dev-a")
		var batch []byte
		const n = 60
		for id := uint16(1); id <= n; id++ {
			// Refused ones are known at once, stored ones after the disk.
			payload, topic := "1", "level/"+fmt.Sprint(id)
			if id%3 == 0 {
				payload = "101"
			}
			batch = c.PublishPacket(topic, byte(1+id%2), payload, func(p *mqtt.Publish) { p.PacketID = id }).Append(batch, v)
		}
		c.SendRaw(batch)
		for id := uint16(1); id <= n; id++ {
			kind, code := mqtt.PUBACK, mqtt.Success
			if id%2 == 1 {
				kind = mqtt.PUBREC
			}
			if id%3 == 0 && v >= mqtt.V5 {
				code = mqtt.ImplementationSpecificError
			}
			c.ExpectAck(kind, id, code)
		}
	})
}

func TestValuesOfATopicArriveInTheOrderSent(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-4.6.0-5", "5 MQTT-4.6.0-6", "3.1.1 MQTT-4.6.0-5", "3.1.1 MQTT-4.6.0-6")
	each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
		topic := topicOf()
		var subs []*mqtttest.Client
		for qos := range byte(3) {
			for _, o := range []func(*mqtt.Connect){all(), persistent} {
				sub := broker.Connect(t, v, "dev-b", o)
				sub.AutoAck = true
				sub.Subscribe(topic, qos)
				subs = append(subs, sub)
			}
		}
		c := broker.Connect(t, v, "dev-a")
		c.AutoAck = true
		const n = 100
		for qos := byte(1); qos < 3; qos++ {
			var batch []byte
			for i := uint16(1); i <= n; i++ {
				batch = c.PublishPacket(topic, qos, fmt.Sprint(i), func(p *mqtt.Publish) { p.PacketID = i }).Append(batch, v)
			}
			c.SendRaw(batch)
			var releases []byte
			for i := uint16(1); i <= n; i++ {
				if qos == 1 {
					c.ExpectAck(mqtt.PUBACK, i, mqtt.Success)
					continue
				}
				c.ExpectAck(mqtt.PUBREC, i, mqtt.Success)
				releases = mqtt.AppendAck(releases, v, mqtt.PUBREL, i, mqtt.Success)
			}
			c.SendRaw(releases)
			for i := uint16(1); qos == 2 && i <= n; i++ {
				c.ExpectAck(mqtt.PUBCOMP, i, mqtt.Success)
			}
			for _, sub := range subs {
				for i := 1; i <= n; i++ {
					sub.ExpectPublish(topic, fmt.Sprint(i))
				}
			}
		}
	})
}

func TestPropertiesAreForwardedUnchanged(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.3.2-4", "5 MQTT-3.3.2-15", "5 MQTT-3.3.2-16", "5 MQTT-3.3.2-17", "5 MQTT-3.3.2-18", "5 MQTT-3.3.2-20", "5 MQTT-1.5.4-3")
	topic := topicOf()
	clean, saved := broker.Connect(t, mqtt.V5, "dev-b"), broker.Connect(t, mqtt.V5, "dev-b", persistent)
	old := broker.Connect(t, mqtt.V311, "dev-b")
	for _, c := range []*mqtttest.Client{clean, saved, old} {
		c.AutoAck = true
		c.Subscribe(topic, 1)
	}
	saved.Disconnect()
	want := sampleProperties()
	pub := publisher(t)
	pub.Publish(topic, 1, "x", func(p *mqtt.Publish) { p.Properties = want })
	pub.Publish(topic, 1, "bare")
	saved = saved.Again(persistent)
	saved.AutoAck = true
	for _, c := range []*mqtttest.Client{clean, saved} {
		expectProperties(t, c.ExpectPublish(topic, "x"), want)
		p := c.ExpectPublish(topic, "bare")
		expectProperties(t, p, mqtt.Publish{}.Properties)
		if p.HasExpiry || p.HasAlias || len(p.SubscriptionIDs) > 0 {
			t.Errorf("properties nobody set: %+v", p)
		}
	}
	old.ExpectPublish(topic, "x")
}

func TestABOMIsKept(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-1.5.4-3", "3.1.1 MQTT-1.5.3-3")
	each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
		base := topicOf()
		sub := broker.Connect(t, v, "dev-b")
		sub.AutoAck = true
		sub.Subscribe(base+"/\ufeffx", 1)
		pub := broker.Connect(t, v, "dev-a")
		pub.Publish(base+"/x", 1, "without")
		pub.Publish(base+"/\ufeffx", 1, "with")
		sub.ExpectPublish(base+"/\ufeffx", "with")
		sub.ExpectNothing()
	})
}

func TestTheCorpusOfPayloadsArrivesByteForByte(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.3.2-1", "5 MQTT-4.2-1", "3.1.1 MQTT-3.3.2-1", "3.1.1 MQTT-7.1.1-1")
	each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
		topic := topicOf()
		sub := broker.Connect(t, v, "dev-b")
		sub.AutoAck = true
		sub.Subscribe(topic, 1)
		pub := broker.Connect(t, v, "dev-a")
		for _, n := range []int{0, 1, 127 - 30, 128, 16383, 16384, 200_000, 900_000} {
			payload := make([]byte, n)
			for i := range payload {
				payload[i] = byte(i * 7)
			}
			pub.Publish(topic, 1, string(payload))
			if p := sub.ExpectPublish(topic, string(payload)); !bytes.Equal(p.Payload, payload) {
				sub.Fatalf("payload of %d bytes is not what was sent", n)
			}
		}
	})
}
