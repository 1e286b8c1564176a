package conformance

import (
	"fmt"
	"testing"
	"time"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/mqtttest"
)

func TestACopyHasTheLowerOfPublishedAndGrantedQoS(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.8.4-8", "5 MQTT-2.2.1-2", "5 MQTT-4.3.1-1", "5 MQTT-3.3.1-2", "3.1.1 MQTT-3.8.4-6", "3.1.1 MQTT-2.3.1-5", "3.1.1 MQTT-4.3.1-1", "3.1.1 MQTT-3.3.1-2")
	each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
		for _, o := range []func(*mqtt.Connect){all(), persistent} {
			for granted := range byte(3) {
				topic := topicOf()
				sub := broker.Connect(t, v, "dev-b", o)
				if code := sub.Subscribe(topic, granted); code != mqtt.ReasonCode(granted) {
					sub.Fatalf("granted %s, want QoS %d", code.Error(), granted)
				}
				pub := broker.Connect(t, v, "dev-a")
				for published := range byte(3) {
					pub.Publish(topic, published, fmt.Sprint(published))
					p := sub.ExpectPublish(topic, fmt.Sprint(published))
					// The live copy of a QoS 0 value has QoS 1 (liveMirror.qos).
					if want := min(granted, max(published, 1)); p.QoS != want || p.Dup || (p.PacketID == 0) != (want == 0) {
						sub.Fatalf("published %d, granted %d: QoS %d, DUP %v, id %d", published, granted, p.QoS, p.Dup, p.PacketID)
					}
					sub.Ack(p)
				}
			}
		}
	})
}

func TestAnUnacknowledgedQoS1DeliveryIsSentAgainOnResumeAndOnlyThen(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.3.1-1", "5 MQTT-4.3.2-1", "5 MQTT-4.3.2-2", "5 MQTT-4.3.2-3", "5 MQTT-4.4.0-1", "5 MQTT-2.2.1-4",
		"3.1.1 MQTT-3.3.1-1", "3.1.1 MQTT-2.3.1-4", "3.1.1 MQTT-4.3.2-1", "3.1.1 MQTT-4.4.0-1", "3.1.1 MQTT-4.6.0-1")
	each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
		topic := topicOf()
		sub := broker.Connect(t, v, "dev-b", persistent)
		sub.Subscribe(topic, 1)
		pub := publisher(t)
		var ids []uint16
		for i := range 4 {
			pub.Publish(topic, 1, fmt.Sprint(i))
			p := sub.ExpectPublish(topic, fmt.Sprint(i))
			if p.Dup || p.PacketID == 0 {
				sub.Fatalf("first copy with DUP %v, id %d", p.Dup, p.PacketID)
			}
			for _, id := range ids {
				if id == p.PacketID {
					sub.Fatalf("id %d is in use", id)
				}
			}
			ids = append(ids, p.PacketID)
		}
		sub.ExpectNothing()
		sub.Send(&mqtt.Ack{Type: mqtt.PUBACK, PacketID: ids[1]}) // out of order, and only this
		sub.ExpectNothing()
		lose(sub)
		pub.Publish(topic, 1, "away")
		again := sub.Again(persistent)
		for _, i := range []int{0, 2, 3} {
			p := again.ExpectPublish(topic, fmt.Sprint(i))
			if !p.Dup || p.PacketID != ids[i] {
				again.Fatalf("DUP %v, id %d; want true and %d", p.Dup, p.PacketID, ids[i])
			}
			again.Ack(p)
		}
		p := again.ExpectPublish(topic, "away")
		if p.Dup {
			again.Fatalf("DUP 1 on a first copy")
		}
		again.Ack(p)
		again.ExpectNothing()
		again.Disconnect()
		sub.Again(persistent).ExpectNothing()
	})
}

func TestAQoS2DeliveryTakesEachStepOnceAndResumesAtItsStep(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-4.3.3-1", "5 MQTT-4.3.3-2", "5 MQTT-4.3.3-3", "5 MQTT-4.3.3-4", "5 MQTT-4.3.3-5", "5 MQTT-4.3.3-6", "5 MQTT-4.4.0-1", "5 MQTT-3.6.2-1", "5 MQTT-2.2.1-5",
		"3.1.1 MQTT-4.3.3-1", "3.1.1 MQTT-4.4.0-1", "3.1.1 MQTT-2.3.1-6", "3.1.1 MQTT-3.3.1-1")
	each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
		topic := topicOf()
		sub := broker.Connect(t, v, "dev-b", persistent)
		sub.Subscribe(topic, 2)
		pub := publisher(t)
		pub.Publish(topic, 2, "a")
		pub.Publish(topic, 2, "b")
		a, b := sub.ExpectPublish(topic, "a"), sub.ExpectPublish(topic, "b")
		if a.Dup || b.Dup || a.PacketID == b.PacketID || a.PacketID == 0 {
			sub.Fatalf("first copies with DUP %v %v, ids %d %d", a.Dup, b.Dup, a.PacketID, b.PacketID)
		}
		sub.Send(&mqtt.Ack{Type: mqtt.PUBREC, PacketID: a.PacketID})
		sub.ExpectAck(mqtt.PUBREL, a.PacketID, mqtt.Success)
		sub.ExpectNothing()
		for range 2 { // the PUBREL is unacknowledged until the PUBCOMP, however often the client is back
			sub.Drop()
			sub = sub.Again(persistent)
			sub.ExpectAck(mqtt.PUBREL, a.PacketID, mqtt.Success)
			if p := sub.ExpectPublish(topic, "b"); !p.Dup || p.PacketID != b.PacketID {
				sub.Fatalf("DUP %v, id %d; want true and %d", p.Dup, p.PacketID, b.PacketID)
			}
			sub.ExpectNothing()
		}
		sub.Send(&mqtt.Ack{Type: mqtt.PUBCOMP, PacketID: a.PacketID})
		sub.Send(&mqtt.Ack{Type: mqtt.PUBREC, PacketID: b.PacketID})
		sub.ExpectAck(mqtt.PUBREL, b.PacketID, mqtt.Success)
		sub.Drop()
		sub = sub.Again(persistent)
		sub.ExpectAck(mqtt.PUBREL, b.PacketID, mqtt.Success)
		sub.Send(&mqtt.Ack{Type: mqtt.PUBCOMP, PacketID: b.PacketID})
		sub.ExpectNothing()
		sub.Drop()
		sub.Again(persistent).ExpectNothing()
	})
}

func TestPUBRELsLeaveInTheOrderOfThePUBRECs(t *testing.T) {
	t.Parallel()
	shows(t, "3.1.1 MQTT-4.6.0-4", "3.1.1 MQTT-4.6.0-1")
	each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
		topic := topicOf()
		sub := broker.Connect(t, v, "dev-b", persistent)
		sub.Subscribe(topic, 2)
		pub := publisher(t)
		var ids []uint16
		for i := range 6 {
			pub.Publish(topic, 2, fmt.Sprint(i))
			ids = append(ids, sub.ExpectPublish(topic, fmt.Sprint(i)).PacketID)
		}
		var batch []byte
		for _, id := range ids[:3] {
			batch = mqtt.AppendAck(batch, v, mqtt.PUBREC, id, mqtt.Success)
		}
		sub.SendRaw(batch)
		for _, id := range ids[:3] {
			sub.ExpectAck(mqtt.PUBREL, id, mqtt.Success)
		}
		sub.Drop()
		// The order of the first sending is the order of the repetition.
		sub = sub.Again(persistent)
		for _, id := range ids[:3] {
			sub.ExpectAck(mqtt.PUBREL, id, mqtt.Success)
		}
		for i := 3; i < 6; i++ {
			if p := sub.ExpectPublish(topic, fmt.Sprint(i)); p.PacketID != ids[i] {
				sub.Fatalf("id %d, want %d", p.PacketID, ids[i])
			}
		}
	})
}

func TestANegativeAcknowledgmentEndsADelivery(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-4.4.0-2", "5 MQTT-4.3.3-4")
	topic := topicOf()
	sub := broker.Connect(t, mqtt.V5, "dev-b", persistent)
	sub.Subscribe(topic, 2)
	pub := publisher(t)
	pub.Publish(topic, 1, "one")
	pub.Publish(topic, 2, "two")
	one, two := sub.ExpectPublish(topic, "one"), sub.ExpectPublish(topic, "two")
	sub.Send(&mqtt.Ack{Type: mqtt.PUBACK, PacketID: one.PacketID, Code: mqtt.UnspecifiedError})
	sub.Send(&mqtt.Ack{Type: mqtt.PUBREC, PacketID: two.PacketID, Code: mqtt.QuotaExceeded})
	sub.ExpectNothing()
	sub.Drop()
	sub.Again(persistent).ExpectNothing()
}

// PUBREC 0x10 and the other codes below 0x80 are successes.
func TestAPUBRECBelow80IsAnsweredWithPUBREL(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-4.3.3-4", "5 MQTT-3.6.2-1")
	topic := topicOf()
	sub := broker.Connect(t, mqtt.V5, "dev-b")
	sub.Subscribe(topic, 2)
	publisher(t).Publish(topic, 2, "x")
	p := sub.ExpectPublish(topic, "x")
	sub.Send(&mqtt.Ack{Type: mqtt.PUBREC, PacketID: p.PacketID, Code: mqtt.NoMatchingSubscribers})
	sub.ExpectAck(mqtt.PUBREL, p.PacketID, mqtt.Success)
	sub.Send(&mqtt.Ack{Type: mqtt.PUBCOMP, PacketID: p.PacketID})
	// A PUBREC for nothing is told so.
	sub.Send(&mqtt.Ack{Type: mqtt.PUBREC, PacketID: 999})
	sub.ExpectAck(mqtt.PUBREL, 999, mqtt.PacketIdentifierNotFound)
	sub.ExpectNothing()
}

func TestADeliveryOnceStartedIsCompletedAlthoughExpired(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-4.3.3-7", "5 MQTT-4.3.3-13")
	topic := topicOf()
	sub := broker.Connect(t, mqtt.V5, "dev-b", persistent)
	sub.Subscribe(topic, 2)
	pub := publisher(t)
	expiring := func(p *mqtt.Publish) { p.MessageExpiry, p.HasExpiry = 2, true }
	pub.Publish(topic, 2, "sent", expiring)
	pub.Publish(topic, 2, "received", expiring)
	sent, received := sub.ExpectPublish(topic, "sent"), sub.ExpectPublish(topic, "received")
	sub.Send(&mqtt.Ack{Type: mqtt.PUBREC, PacketID: received.PacketID})
	sub.ExpectAck(mqtt.PUBREL, received.PacketID, mqtt.Success)
	pass(2200 * time.Millisecond)
	sub.Drop()
	sub = sub.Again(persistent)
	if p := sub.ExpectPublish(topic, "sent"); !p.Dup || p.PacketID != sent.PacketID {
		sub.Fatalf("DUP %v, id %d; want true and %d", p.Dup, p.PacketID, sent.PacketID)
	}
	sub.ExpectAck(mqtt.PUBREL, received.PacketID, mqtt.Success)
	sub.Send(&mqtt.Ack{Type: mqtt.PUBCOMP, PacketID: received.PacketID})
	sub.Ack(sent)
	sub.ExpectNothing()
}

func TestAnExpiredMessageIsNotDeliveredAndALiveOneSaysWhatIsLeft(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.3.2-5", "5 MQTT-3.3.2-6")
	expiry := func(seconds uint32) func(*mqtt.Publish) {
		return func(p *mqtt.Publish) { p.MessageExpiry, p.HasExpiry = seconds, true }
	}
	t.Run("kept for a session that is away", func(t *testing.T) {
		t.Parallel()
		topic := topicOf()
		sub := broker.Connect(t, mqtt.V5, "dev-b", persistent)
		sub.Subscribe(topic, 1)
		lose(sub)
		pub := publisher(t)
		pub.Publish(topic, 1, "short", expiry(1))
		pub.Publish(topic, 1, "long", expiry(100))
		pub.Publish(topic, 1, "none")
		pass(1200 * time.Millisecond)
		again := sub.Again(persistent)
		expectLeft(again, again.ExpectPublish(topic, "long"), 90, 99)
		if p := again.ExpectPublish(topic, "none"); p.HasExpiry {
			again.Fatalf("expiry %d on a message without", p.MessageExpiry)
		}
		again.ExpectNothing()
	})
	t.Run("waiting for the receive maximum", func(t *testing.T) {
		t.Parallel()
		for _, o := range []func(*mqtt.Connect){all(), persistent} {
			topic := topicOf()
			sub := broker.Connect(t, mqtt.V5, "dev-b", all(o, func(p *mqtt.Connect) { p.ReceiveMaximum = 1 }))
			sub.Subscribe(topic, 1)
			pub := publisher(t)
			pub.Publish(topic, 1, "first")
			pub.Publish(topic, 1, "short", expiry(1))
			pub.Publish(topic, 1, "long", expiry(100))
			first := sub.ExpectPublish(topic, "first")
			pass(1200 * time.Millisecond)
			sub.Ack(first)
			expectLeft(sub, sub.ExpectPublish(topic, "long"), 90, 99)
		}
	})
	t.Run("at once", func(t *testing.T) {
		t.Parallel()
		topic := topicOf()
		sub := broker.Connect(t, mqtt.V5, "dev-b")
		sub.Subscribe(topic, 0)
		publisher(t).Publish(topic, 1, "x", expiry(100))
		expectLeft(sub, sub.ExpectPublish(topic, "x"), 90, 100)
	})
	t.Run("retained", func(t *testing.T) {
		t.Parallel()
		shows(t, "5 D5-09")
		topic := "retained/" + broker.Name()
		pub := publisher(t)
		pub.Publish(topic+"/short", 1, "1", expiry(1))
		pub.Publish(topic+"/long", 1, "2", expiry(100))
		pass(1200 * time.Millisecond)
		sub := broker.Connect(t, mqtt.V5, "dev-b")
		sub.Subscribe(topic+"/#", 1)
		expectLeft(sub, sub.ExpectPublish(topic+"/long", "2"), 90, 99)
		sub.ExpectNothing()
	})
}

func expectLeft(c *mqtttest.Client, p *mqtt.Publish, low, high uint32) {
	if !p.HasExpiry || p.MessageExpiry < low || p.MessageExpiry > high {
		c.Fatalf("message expiry %d (%v), want %d to %d", p.MessageExpiry, p.HasExpiry, low, high)
	}
}
