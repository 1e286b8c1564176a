package conformance

import (
	"fmt"
	"strings"
	"testing"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/mqtttest"
)

// retainedTopic is a topic whose last value the model retains.
func retainedTopic() string { return "retained/" + broker.Name() }

// expectRetained is what a new subscriber to the topic gets: payload, or nothing if
// it is "".
func expectRetained(t *testing.T, v mqtt.Version, topic, payload string) {
	t.Helper()
	c := broker.Connect(t, v, "dev-b")
	c.Subscribe(topic, 2)
	if payload != "" {
		p := c.ExpectPublish(topic, payload)
		if !p.Retain {
			c.Fatalf("RETAIN 0 on a message sent because of a new subscription")
		}
		c.Ack(p)
	}
	c.ExpectNothing()
}

func TestTheLastRetainedMessageGoesToNewSubscriptions(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.3.1-5", "5 MQTT-3.3.1-9", "3.1.1 MQTT-3.3.1-5", "3.1.1 MQTT-3.3.1-6", "3.1.1 MQTT-3.3.1-7", "3.1.1 MQTT-3.3.1-8")
	each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
		topic := retainedTopic()
		pub := broker.Connect(t, v, "dev-a")
		expectRetained(t, v, topic, "")
		retain := func(p *mqtt.Publish) { p.Retain = true }
		for i, payload := range []string{"1", "2", "3"} {
			pub.Publish(topic, byte(i), payload, retain)
			if i == 0 {
				pub.Publish(retainedTopic(), 1, "0") // in the same lane, so the QoS 0 one is done
			}
			expectRetained(t, v, topic, payload)
		}
		// QoS is kept, and lowered to the subscription's.
		sub := broker.Connect(t, v, "dev-b")
		sub.Subscribe(topic, 2)
		if p := sub.ExpectPublish(topic, "3"); p.QoS != 2 {
			sub.Fatalf("QoS %d, want the 2 it was stored with", p.QoS)
		}
		low := broker.Connect(t, v, "dev-b")
		low.Subscribe(topic, 0)
		if p := low.ExpectPublish(topic, "3"); p.QoS != 0 {
			low.Fatalf("QoS %d, want the 0 granted", p.QoS)
		}
	})
}

func TestAnEmptyRetainedMessageRemovesAndIsForwarded(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.3.1-6", "5 MQTT-3.3.1-7", "3.1.1 MQTT-3.3.1-10", "3.1.1 MQTT-3.3.1-11")
	each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
		name := broker.Name()
		for _, topic := range []string{"retained/" + name, "raw/retained/" + name} {
			sub := broker.Connect(t, v, "dev-b")
			sub.AutoAck = true
			sub.Subscribe(topic, 1)
			pub := broker.Connect(t, v, "dev-a")
			pub.Publish(topic, 1, "1")
			sub.ExpectPublish(topic, "1")
			for range 2 { // also where there is nothing left to remove
				pub.Publish(topic, 1, "")
				if p := sub.ExpectPublish(topic, ""); p.Retain {
					sub.Fatalf("RETAIN 1 to an established subscription")
				}
				expectRetained(t, v, topic, "")
			}
		}
	})
}

// A client's RETAIN flag says nothing here: the model does.
func TestTheModelSaysWhatIsRetained(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.3.1-5", "5 MQTT-3.3.1-8", "3.1.1 MQTT-3.3.1-12")
	each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
		kept, other := retainedTopic(), topicOf()
		pub := broker.Connect(t, v, "dev-a")
		pub.Publish(kept, 1, "1")
		pub.Publish(other, 1, "1", func(p *mqtt.Publish) { p.Retain = true })
		pub.Publish(other, 1, "2")
		expectRetained(t, v, kept, "1")
		expectRetained(t, v, other, "")
	})
}

func TestRetainHandlingSaysWhenRetainedMessagesAreSent(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.3.1-9", "5 MQTT-3.3.1-10", "5 MQTT-3.3.1-11", "5 MQTT-3.8.4-4")
	topic := retainedTopic()
	publisher(t).Publish(topic, 1, "1")
	for handling, sent := range map[byte][2]bool{0: {true, true}, 1: {true, false}, 2: {false, false}} {
		for _, o := range []func(*mqtt.Connect){all(), persistent} {
			c := broker.Connect(t, mqtt.V5, "dev-b", o)
			for again := range 2 {
				c.Subscribe(topic, 0, func(p *mqtt.Subscribe) { p.Filters[0].RetainHandling = handling })
				if sent[again] {
					if p := c.ExpectPublish(topic, "1"); !p.Retain {
						c.Fatalf("RETAIN 0 on a message sent because of a subscription")
					}
				}
				c.ExpectNothing()
			}
			// After the subscription's end it is new again.
			c.Unsubscribe(topic)
			c.Subscribe(topic, 0, func(p *mqtt.Subscribe) { p.Filters[0].RetainHandling = handling })
			if sent[0] {
				c.ExpectPublish(topic, "1")
			}
			c.ExpectNothing()
		}
	}
}

func TestASubscriptionThatIsResumedIsNotNew(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.3.1-10", "5 MQTT-3.1.2-5")
	topic := retainedTopic()
	publisher(t).Publish(topic, 1, "1")
	c := broker.Connect(t, mqtt.V5, "dev-b", persistent)
	one := func(p *mqtt.Subscribe) { p.Filters[0].RetainHandling = 1 }
	c.Subscribe(topic, 0, one)
	c.ExpectPublish(topic, "1")
	c.Drop()
	c = c.Again(persistent)
	c.ExpectNothing()
	c.Subscribe(topic, 0, one)
	c.ExpectNothing()
}

func TestRetainAsPublishedKeepsTheFlag(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.3.1-12", "5 MQTT-3.3.1-13", "3.1.1 MQTT-3.3.1-9")
	kept, other := retainedTopic(), topicOf()
	pub := publisher(t)
	for _, o := range []func(*mqtt.Connect){all(), persistent} {
		for _, asPublished := range []bool{false, true} {
			c := broker.Connect(t, mqtt.V5, "dev-b", o)
			c.AutoAck = true
			option := func(p *mqtt.Subscribe) { p.Filters[0].RetainAsPublished, p.Filters[0].RetainHandling = asPublished, 2 }
			c.Subscribe(kept, 1, option)
			c.Subscribe(other, 1, option)
			pub.Publish(kept, 1, "1")
			if p := c.ExpectPublish(kept, "1"); p.Retain != asPublished {
				c.Fatalf("RETAIN %v with Retain As Published %v", p.Retain, asPublished)
			}
			pub.Publish(other, 1, "1")
			if p := c.ExpectPublish(other, "1"); p.Retain {
				c.Fatalf("RETAIN 1 on a message that is not retained")
			}
		}
	}
	// Before MQTT 5 an established subscription always gets 0.
	for _, v := range oldVersions {
		c := broker.Connect(t, v, "dev-b")
		c.AutoAck = true
		topic := retainedTopic()
		c.Subscribe(topic, 1)
		pub.Publish(topic, 1, "1")
		if p := c.ExpectPublish(topic, "1"); p.Retain {
			c.Fatalf("RETAIN 1 to an established subscription")
		}
	}
}

func TestAReplacedSubscriptionGetsRetainedMessagesAgainAndLosesNothing(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.8.4-3", "5 MQTT-3.8.4-4", "3.1.1 MQTT-3.8.4-3")
	each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
		for _, o := range []func(*mqtt.Connect){all(), persistent} {
			topic := retainedTopic()
			pub := broker.Connect(t, v, "dev-a")
			c := broker.Connect(t, v, "dev-b", o)
			c.AutoAck = true
			c.Subscribe(topic, 1)
			pub.Publish(topic, 1, "1")
			c.ExpectPublish(topic, "1")
			c.Subscribe(topic, 0)
			if p := c.ExpectPublish(topic, "1"); !p.Retain || p.QoS != 0 {
				c.Fatalf("RETAIN %v, QoS %d; want the retained one at the new QoS", p.Retain, p.QoS)
			}
			// One subscription, with the new QoS.
			pub.Publish(topic, 1, "2")
			if p := c.ExpectPublish(topic, "2"); p.QoS != 0 || p.Retain {
				c.Fatalf("QoS %d, RETAIN %v; want 0 and false", p.QoS, p.Retain)
			}
			c.ExpectNothing()
		}
	})
}

// Also what waits for room in the window, where the subscription in its place would not
// have it.
func TestReplacingASubscriptionLosesNothingThatWaits(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.8.4-4", "3.1.1 MQTT-3.8.4-3")
	with := func(qos byte, noLocal bool) mqtt.Subscription { return mqtt.Subscription{QoS: qos, NoLocal: noLocal} }
	for name, by := range map[string][]mqtt.Subscription{
		"a lower QoS":              {with(1, false)},
		"QoS 0":                    {with(0, false)},
		"no local":                 {with(2, true)},
		"QoS 0 and no local":       {with(0, false), with(0, true)},
		"others and itself again":  {with(0, true), with(1, true), with(2, false)},
		"others in one SUBSCRIBE":  {with(1, false), with(0, true)},
		"itself in one SUBSCRIBE":  {with(0, true), with(2, false)},
		"itself with other values": {with(2, false)},
	} {
		for kind, o := range map[string]func(*mqtt.Connect){"clean": all(), "persistent": persistent} {
			for _, share := range []string{"", "$share/g/"} {
				t.Run(name+", "+kind+" "+share, func(t *testing.T) {
					t.Parallel()
					topic := topicOf()
					c := broker.Connect(t, mqtt.V5, "dev-a", all(o, receiveMaximum(1)))
					c.Subscribe(share+topic, 2)
					const n = 5
					for i := range n {
						c.Publish(topic, 2, fmt.Sprint(i))
					}
					p := c.ExpectPublish(topic, "0")
					together := strings.HasSuffix(name, "in one SUBSCRIBE")
					s := &mqtt.Subscribe{PacketID: c.NextID()}
					for _, f := range by {
						if share != "" {
							f.NoLocal = false // [MQTT-3.8.3-4]
						}
						f.Filter = c.Filter(share + topic)
						s.Filters = append(s.Filters, f)
						if !together {
							c.SubscribeAll(s)
							s = &mqtt.Subscribe{PacketID: c.NextID()}
						}
					}
					if together {
						c.SubscribeAll(s)
					}
					last := by[len(by)-1]
					publisher(t).Publish(topic, 2, "after")
					if last.QoS == 0 { // which does not wait for room
						c.ExpectPublish(topic, "after")
					}
					for i := range n {
						if i > 0 {
							p = c.ExpectPublish(topic, fmt.Sprint(i))
						}
						c.Ack(p)
					}
					if last.QoS > 0 {
						c.Ack(c.ExpectPublish(topic, "after"))
					}
					c.Publish(topic+"/x", 1, "not its")
					c.ExpectNothing()
				})
			}
		}
	}
}

// Values published while a subscription is replaced again and again arrive all.
func TestReplacingASubscriptionInterruptsNothing(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.8.4-4", "3.1.1 MQTT-3.8.4-3")
	each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
		for _, o := range []func(*mqtt.Connect){all(), persistent} {
			topic := topicOf()
			c := broker.Connect(t, v, "dev-b", o)
			c.AutoAck = true
			c.Subscribe(topic, 1)
			pub := broker.Connect(t, v, "dev-a")
			const n = 40
			var batch []byte
			for i := range n {
				batch = pub.PublishPacket(topic, 1, string(rune('A'+i))).Append(batch, v)
			}
			pub.SendRaw(batch)
			for range 10 {
				c.Subscribe(topic, 1)
			}
			for i := range n {
				c.ExpectPublish(topic, string(rune('A'+i)))
			}
			c.ExpectNothing()
		}
	})
}

func TestRetainedMessagesAreOfTheirWorkspace(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.3.2-3", "3.1.1 MQTT-3.3.2-3")
	each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
		topic := retainedTopic()
		broker.Connect(t, v, "dev-a").Publish(topic, 1, `"plant's"`)
		other := broker.Connect(t, v, "other")
		if v == mqtt.V31 { // has no way to say no
			other.Send(&mqtt.Subscribe{PacketID: 1, Filters: []mqtt.Subscription{{Filter: mqtttest.Data("plant", topic)}}})
			other.ExpectClosed()
			return
		}
		if code := other.TrySubscribe(mqtttest.Data("plant", topic), 0); code < mqtt.UnspecifiedError {
			other.Fatalf("granted another workspace's topic: %s", code.Error())
		}
		other.Subscribe("#", 0) // the own workspace's
		other.ExpectNothing()
	})
}
