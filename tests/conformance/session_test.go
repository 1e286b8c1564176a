package conformance

import (
	"fmt"
	"testing"
	"time"

	"maestrohub.io/uns/broker/config"
	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/mqtttest"
)

// present is Session Present as the version can say it; want is checked where it
// can.
func expectPresent(c *mqtttest.Client, want bool) {
	if c.Version >= mqtt.V311 && c.Connack.SessionPresent != want {
		c.Fatalf("session present %v, want %v", c.Connack.SessionPresent, want)
	}
}

func TestASessionIsResumedWithWhatItIsOwed(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.1.2-5", "5 MQTT-3.1.2-23", "5 MQTT-3.1.3-2", "5 MQTT-3.2.0-1", "5 MQTT-3.2.2-3", "5 MQTT-4.1.0-1", "5 MQTT-4.5.0-1",
		"3.1.1 MQTT-3.1.2-4", "3.1.1 MQTT-3.1.2-5", "3.1.1 MQTT-3.1.3-2", "3.1.1 MQTT-3.2.2-2", "3.1.1 MQTT-4.1.0-1", "3.1.1 MQTT-4.5.0-1")
	each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
		topic := topicOf()
		c := broker.Connect(t, v, "dev-b", persistent)
		expectPresent(c, false)
		c.Subscribe(topic+"/+", 2)
		c.Disconnect()
		pub := publisher(t)
		for qos := range byte(3) {
			pub.Publish(topic+"/x", qos, fmt.Sprint(qos))
		}
		// A clean client of another identifier gets nothing of it.
		broker.Connect(t, v, "dev-b").ExpectNothing()
		again := c.Again(persistent) // its first packet is the CONNACK
		expectPresent(again, true)
		for qos := range byte(3) {
			p := again.ExpectPublish(topic+"/x", fmt.Sprint(qos))
			again.Ack(p)
		}
		pub.Publish(topic+"/x", 1, "live")
		again.Ack(again.ExpectPublish(topic+"/x", "live"))
		again.ExpectNothing()
	})
}

func TestACleanStartThrowsTheOldSessionAway(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.1.2-4", "5 MQTT-3.1.4-4", "5 MQTT-3.2.2-2", "3.1.1 MQTT-3.1.2-6", "3.1.1 MQTT-3.1.4-3", "3.1.1 MQTT-3.2.2-1")
	each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
		for _, connected := range []bool{false, true} {
			topic := topicOf()
			c := broker.Connect(t, v, "dev-b", persistent)
			c.Subscribe(topic+"/old", 1)
			if !connected {
				c.Disconnect()
			}
			pub := publisher(t)
			pub.Publish(topic+"/old", 1, "before")
			fresh := c.Again(func(p *mqtt.Connect) { p.CleanStart = true })
			expectPresent(fresh, false)
			fresh.Subscribe(topic+"/new", 1)
			pub.Publish(topic+"/old", 1, "after")
			pub.Publish(topic+"/new", 1, "new")
			fresh.Ack(fresh.ExpectPublish(topic+"/new", "new"))
			fresh.Disconnect()
			// The session of a clean start ends with its connection.
			expectPresent(c.Again(persistent), false)
		}
	})
}

func TestNoSessionMakesANewOne(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.1.2-6", "5 MQTT-3.2.2-3", "3.1.1 MQTT-3.1.2-4", "3.1.1 MQTT-3.2.2-3")
	each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
		c := broker.Connect(t, v, "dev-b", persistent)
		expectPresent(c, false)
		c.Disconnect()
		expectPresent(c.Again(persistent), true)
	})
}

func TestASessionLivesAsLongAsItsConnection(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-4.1.0-2", "3.1.1 MQTT-4.1.0-2", "3.1.1 MQTT-3.1.2-6")
	each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
		topic := topicOf()
		c := broker.Connect(t, v, "dev-b")
		c.Subscribe(topic, 1)
		publisher(t).Publish(topic, 1, "1")
		c.Ack(c.ExpectPublish(topic, "1"))
		c.Drop()
		again := c.Again()
		expectPresent(again, false)
	})
}

func TestASessionEndsAtItsExpiry(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-4.1.0-2", "5 MQTT-3.1.2-23")
	topic := topicOf()
	short := func(p *mqtt.Connect) { p.CleanStart, p.SessionExpiry = false, 2 }
	c := broker.Connect(t, mqtt.V5, "dev-b", short)
	c.Subscribe(topic, 1)
	pass(2200 * time.Millisecond) // the interval runs from the close, not from the CONNECT
	publisher(t).Publish(topic, 1, "1")
	c.Ack(c.ExpectPublish(topic, "1"))
	c.Drop()
	back := c.Again(short)
	expectPresent(back, true)
	back.Drop()
	pass(3 * time.Second)
	expectPresent(c.Again(short), false)
}

func TestDISCONNECTSetsTheSessionExpiry(t *testing.T) {
	t.Parallel()
	shows(t, "5 D5-01", "5 MQTT-3.14.2-2")
	t.Run("to zero", func(t *testing.T) {
		t.Parallel()
		c := broker.Connect(t, mqtt.V5, "dev-b", persistent)
		c.Send(&mqtt.Disconnect{HasSessionExpiry: true, SessionExpiry: 0})
		c.ExpectClosed()
		expectPresent(c.Again(persistent), false)
	})
	t.Run("to a second", func(t *testing.T) {
		t.Parallel()
		c := broker.Connect(t, mqtt.V5, "dev-b", persistent)
		c.Send(&mqtt.Disconnect{HasSessionExpiry: true, SessionExpiry: 1})
		c.ExpectClosed()
		pass(2500 * time.Millisecond)
		expectPresent(c.Again(persistent), false)
	})
	t.Run("to longer", func(t *testing.T) {
		t.Parallel()
		c := broker.Connect(t, mqtt.V5, "dev-b", func(p *mqtt.Connect) { p.CleanStart, p.SessionExpiry = false, 1 })
		c.Send(&mqtt.Disconnect{HasSessionExpiry: true, SessionExpiry: 600})
		c.ExpectClosed()
		pass(1500 * time.Millisecond)
		expectPresent(c.Again(persistent), true)
	})
	t.Run("raised from zero", func(t *testing.T) {
		t.Parallel()
		c := broker.Connect(t, mqtt.V5, "dev-b")
		c.Send(&mqtt.Disconnect{HasSessionExpiry: true, SessionExpiry: 1})
		if d := c.ExpectDisconnect(mqtt.ProtocolError); d.HasSessionExpiry {
			c.Fatalf("the broker's DISCONNECT has a Session Expiry")
		}
		expectPresent(c.Again(persistent), false)
	})
	t.Run("zero stays zero", func(t *testing.T) {
		t.Parallel()
		c := broker.Connect(t, mqtt.V5, "dev-b")
		c.Send(&mqtt.Disconnect{HasSessionExpiry: true, SessionExpiry: 0})
		c.ExpectClosed()
	})
}

func TestTheSessionExpiryInForceIsAnswered(t *testing.T) {
	t.Parallel()
	shows(t, "5 D5-02", "5 D5-03")
	b := mqtttest.Start(t, func(c *config.Config) { c.Limits.MaxSessionExpiry = 100 * time.Second })
	for asked, answered := range map[uint32]uint32{0: 0, 1: 0, 100: 0, 101: 100, 0xFFFFFFFF: 100} {
		c := b.Connect(t, mqtt.V5, "dev-a", func(p *mqtt.Connect) { p.SessionExpiry = asked })
		switch got := c.Connack.SessionExpiry; {
		case answered == 0 && got != nil:
			c.Fatalf("asked for %d, answered %d, want no answer: it is what was asked", asked, *got)
		case answered != 0 && (got == nil || *got != answered):
			c.Fatalf("asked for %d, want %d answered", asked, answered)
		}
		c.Drop()
		expectPresent(c.Again(), asked > 0)
	}
}

func TestAResumeSetsTheExpiryAnew(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.1.2-23", "5 MQTT-4.1.0-2")
	c := broker.Connect(t, mqtt.V5, "dev-b", persistent)
	c.Drop()
	again := c.Again() // Session Expiry 0: the session ends with this connection
	expectPresent(again, true)
	again.Drop()
	expectPresent(c.Again(persistent), false)
}

// A QoS 0 subscription of a session that is away gets nothing; the session's other
// messages are in order.
func TestASessionKeepsSubscriptionsOfEveryKind(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-4.1.0-1", "3.1.1 MQTT-4.1.0-1")
	each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
		topic := topicOf()
		c := broker.Connect(t, v, "dev-b", persistent)
		c.Subscribe(topic+"/zero", 0)
		c.Subscribe(topic+"/one", 1)
		lose(c)
		pub := publisher(t)
		pub.Publish(topic+"/zero", 1, "1")
		pub.Publish(topic+"/one", 1, "2")
		again := c.Again(persistent)
		again.Ack(again.ExpectPublish(topic+"/one", "2"))
		for {
			pub.Publish(topic+"/zero", 1, "3")
			if *replicas > 1 { // which learn of what no log brings after the CONNACK
				again.SendRaw(mqtt.AppendPingreq(nil))
				if p, is := again.Next().Content.(*mqtt.Publish); !is || string(p.Topic) != again.Topic(topic+"/zero") {
					continue
				}
				break
			}
			if p := again.ExpectPublish(topic+"/zero", "3"); p.QoS != 0 {
				again.Fatalf("QoS %d, want 0", p.QoS)
			}
			break
		}
	})
}

func TestRetainedMessagesSurviveTheSession(t *testing.T) {
	t.Parallel()
	shows(t, "3.1.1 MQTT-3.1.2-7")
	each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
		topic := "retained/" + broker.Name()
		c := broker.Connect(t, v, "dev-a")
		c.Publish(topic, 1, "1")
		c.Disconnect()
		sub := broker.Connect(t, v, "dev-b")
		sub.Subscribe(topic, 0)
		sub.ExpectPublish(topic, "1")
	})
}
