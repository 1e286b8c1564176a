package conformance

import (
	"testing"
	"time"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/broker/value"
	"maestrohub.io/uns/tests/mqtttest"
)

// will is a Last Will of dev-a into its inbox.
func will(topic, payload string, options ...func(*mqtt.Will)) func(*mqtt.Connect) {
	return func(p *mqtt.Connect) {
		p.Will = &mqtt.Will{QoS: 1, Topic: mqtttest.Inbox("dev-a", topic), Payload: []byte(payload)}
		for _, o := range options {
			o(p.Will)
		}
	}
}

func delay(seconds uint32) func(*mqtt.Will) { return func(w *mqtt.Will) { w.Delay = seconds } }

// watcher is subscribed to the topic of a will.
func watcher(t *testing.T, topic string, qos byte) *mqtttest.Client {
	t.Helper()
	c := broker.Connect(t, mqtt.V5, "dev-b")
	c.Subscribe(topic, qos)
	c.AutoAck = true
	return c
}

func TestAWillGoesOutWhenTheConnectionIsLost(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.1.2-7", "5 MQTT-3.1.2-8", "5 MQTT-3.1.2-9", "3.1.1 MQTT-3.1.2-8", "3.1.1 MQTT-3.1.2-9")
	for name, how := range map[string]func(c *mqtttest.Client){
		"cut":              func(c *mqtttest.Client) { c.Drop() },
		"a malformed byte": func(c *mqtttest.Client) { c.SendWire(`C1 00`); c.ExpectRefusal(mqtt.MalformedPacket) },
		"a second CONNECT": func(c *mqtttest.Client) {
			c.Send(broker.Credentials("dev-a"))
			c.ExpectRefusal(mqtt.ProtocolError)
		},
	} {
		each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
			for qos := range byte(3) {
				topic := topicOf()
				sub := watcher(t, topic, 2)
				c := broker.Connect(t, v, "dev-a", will(topic, `"gone"`, func(w *mqtt.Will) { w.QoS = qos }))
				how(c)
				p := sub.ExpectPublish(topic, `"gone"`)
				if want := max(qos, 1); p.QoS != want { // liveMirror.qos is 1
					t.Errorf("%s: QoS %d, want %d", name, p.QoS, want)
				}
				sub.ExpectNothing()
			}
		})
	}
}

func TestDISCONNECTDropsTheWill(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.1.2-10", "5 MQTT-3.14.4-3", "3.1.1 MQTT-3.1.2-10", "3.1.1 MQTT-3.1.2-12", "3.1.1 MQTT-3.14.4-3")
	each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
		topic := topicOf()
		sub := watcher(t, topic, 1)
		c := broker.Connect(t, v, "dev-a", all(persistent, will(topic, `"gone"`)))
		c.Disconnect()
		// Nor does the next connection of the session have it, which brings none.
		next := c.Again(persistent)
		next.Drop()
		// Once sent it is sent no more.
		last := c.Again(all(persistent, will(topic, `"once"`)))
		last.Drop()
		sub.ExpectPublish(topic, `"once"`)
		c.Again(persistent).Drop()
		publisher(t).Publish(topic, 1, `"end"`)
		sub.ExpectPublish(topic, `"end"`)
	})
}

func TestDISCONNECTWithWillSendsIt(t *testing.T) {
	t.Parallel()
	shows(t, "5 D5-12")
	for _, code := range []mqtt.ReasonCode{mqtt.DisconnectWithWill, mqtt.UnspecifiedError} {
		topic := topicOf()
		sub := watcher(t, topic, 1)
		c := broker.Connect(t, mqtt.V5, "dev-a", will(topic, `"gone"`))
		c.Send(&mqtt.Disconnect{Code: code})
		c.ExpectClosed()
		sub.ExpectPublish(topic, `"gone"`)
	}
}

func TestAWillWaitsForItsDelay(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.1.2-8", "5 MQTT-3.1.3-9", "5 D5-10")
	t.Run("sent after it", func(t *testing.T) {
		t.Parallel()
		topic := topicOf()
		sub := watcher(t, topic, 1)
		c := broker.Connect(t, mqtt.V5, "dev-a", all(persistent, will(topic, `"gone"`, delay(3))))
		began := time.Now()
		lose(c)
		publisher(t).Publish(topic, 1, `"not yet"`)
		sub.ExpectPublish(topic, `"not yet"`)
		sub.ExpectPublish(topic, `"gone"`)
		if after := time.Since(began); after < 3*time.Second {
			t.Errorf("sent after %v, want 3 s at least", after)
		}
	})
	t.Run("not sent when the client is back", func(t *testing.T) {
		t.Parallel()
		topic := topicOf()
		sub := watcher(t, topic, 1)
		c := broker.Connect(t, mqtt.V5, "dev-a", all(persistent, will(topic, `"gone"`, delay(3))))
		lose(c)
		back := c.Again(persistent)
		expectPresent(back, true)
		pass(3500 * time.Millisecond)
		back.Publish(topic, 1, `"here"`)
		sub.ExpectPublish(topic, `"here"`)
	})
	t.Run("sent at the session's end", func(t *testing.T) {
		t.Parallel()
		topic := topicOf()
		sub := watcher(t, topic, 1)
		short := func(p *mqtt.Connect) { p.CleanStart, p.SessionExpiry = false, 1 }
		c := broker.Connect(t, mqtt.V5, "dev-a", all(short, will(topic, `"gone"`, delay(600))))
		lose(c)
		sub.ExpectPublish(topic, `"gone"`)
		expectPresent(c.Again(), false)
	})
	t.Run("sent at once where the session ends with the connection", func(t *testing.T) {
		t.Parallel()
		topic := topicOf()
		sub := watcher(t, topic, 1)
		broker.Connect(t, mqtt.V5, "dev-a", will(topic, `"gone"`, delay(600))).Drop()
		sub.ExpectPublish(topic, `"gone"`)
	})
	// A clean start ends the session the will belongs to, and with it the delay.
	t.Run("sent when the client is back with a clean start", func(t *testing.T) {
		t.Parallel()
		topic := topicOf()
		sub := watcher(t, topic, 1)
		c := broker.Connect(t, mqtt.V5, "dev-a", all(persistent, will(topic, `"gone"`, delay(600))))
		lose(c)
		back := c.Again(func(p *mqtt.Connect) { p.CleanStart = true })
		expectPresent(back, false)
		sub.ExpectPublish(topic, `"gone"`)
	})
}

func TestAWillOfAConnectionTakenOver(t *testing.T) {
	t.Parallel()
	shows(t, "5 D5-10", "5 D5-11", "5 MQTT-3.1.3-9", "3.1.1 MQTT-3.1.2-8")
	clean := func(p *mqtt.Connect) { p.CleanStart = true }
	for _, x := range []struct {
		name  string
		v     mqtt.Version
		delay uint32
		next  func(*mqtt.Connect)
		sent  bool
	}{
		{"no delay", mqtt.V5, 0, persistent, true},
		{"a delay", mqtt.V5, 600, persistent, false},
		{"a delay and a clean start", mqtt.V5, 600, clean, true},
		{"before MQTT 5", mqtt.V311, 0, persistent, true},
		{"before MQTT 5, clean", mqtt.V311, 0, clean, true},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			topic := topicOf()
			sub := watcher(t, topic, 1)
			c := broker.Connect(t, x.v, "dev-a", all(persistent, will(topic, `"gone"`, delay(x.delay))))
			next := c.Again(x.next)
			c.ExpectRefusal(mqtt.SessionTakenOver)
			if x.sent {
				sub.ExpectPublish(topic, `"gone"`)
			}
			next.Publish(topic, 1, `"here"`)
			sub.ExpectPublish(topic, `"here"`)
		})
	}
}

// Whether a will is retained is its topic's to say, like everything in an inbox.
func TestAWillIsRetainedWhereItsTopicIs(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.1.2-14", "5 MQTT-3.1.2-15", "3.1.1 MQTT-3.1.2-16", "3.1.1 MQTT-3.1.2-17")
	each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
		name := broker.Name()
		for topic, retained := range map[string]bool{"retained/" + name: true, "topic/" + name: false} {
			sub := watcher(t, topic, 1)
			broker.Connect(t, v, "dev-a", will(topic, `"gone"`, func(w *mqtt.Will) { w.Retain = true })).Drop()
			sub.ExpectPublish(topic, `"gone"`)
			publisher(t).Publish(retainedTopic(), 1, "1") // behind the will on its way into the retained store
			late := broker.Connect(t, v, "dev-b")
			late.Subscribe(topic, 0)
			if retained {
				if p := late.ExpectPublish(topic, `"gone"`); !p.Retain {
					late.Fatalf("RETAIN 0 on a retained message")
				}
			}
			late.ExpectNothing()
		}
	})
}

func TestAWillKeepsItsProperties(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.1.3-10", "5 MQTT-3.1.2-7")
	topic := topicOf()
	sub := watcher(t, topic, 1)
	properties := sampleProperties()
	broker.Connect(t, mqtt.V5, "dev-a", will(topic, `"gone"`, func(w *mqtt.Will) {
		w.Properties, w.MessageExpiry, w.HasExpiry = properties, 600, true
	})).Drop()
	p := sub.ExpectPublish(topic, `"gone"`)
	expectProperties(t, p, properties)
	if !p.HasExpiry || p.MessageExpiry > 600 || p.MessageExpiry < 590 {
		t.Errorf("message expiry %d %v, want what is left of 600", p.MessageExpiry, p.HasExpiry)
	}
}

// A will obeys the rules of every publish, and is judged at CONNECT.
func TestAWillOutsideTheInboxIsRefusedAtCONNECT(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.1.4-2", "5 MQTT-3.2.2-7")
	each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
		for _, topic := range []string{mqtttest.Data("plant", "x"), mqtttest.Inbox("dev-b", "x"), mqtttest.Inbox("other", "x"), "x"} {
			c := broker.Dial(t, v, "tcp")
			a := c.Connect(broker.Credentials("dev-a", func(p *mqtt.Connect) { p.Will = &mqtt.Will{Topic: topic, Payload: []byte("1")} }))
			if a.Code != mqtt.NotAuthorized {
				c.Fatalf("will to %q: %s, want %s", topic, a.Code.Error(), mqtt.NotAuthorized.Error())
			}
			c.ExpectClosed()
		}
	})
}

func TestQoS2AndRetainAreOfferedSoNoWillIsRefusedForThem(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.2.2-9", "5 MQTT-3.2.2-10", "5 MQTT-3.2.2-12", "5 MQTT-3.2.2-13")
	c := broker.Connect(t, mqtt.V5, "dev-a", will(topicOf(), "1", func(w *mqtt.Will) { w.QoS, w.Retain = 2, true }))
	if a := c.Connack; a.MaximumQoS != nil || a.RetainAvailable != nil && !*a.RetainAvailable {
		c.Fatalf("CONNACK takes back QoS 2 or retained messages: %+v", a)
	}
	for qos := range byte(3) {
		if got := c.Subscribe(topicOf(), qos); got != mqtt.ReasonCode(qos) {
			c.Fatalf("granted %v, want %d", got, qos)
		}
	}
}

// sampleProperties has every property of a PUBLISH that is forwarded.
func sampleProperties() value.Properties {
	return value.Properties{
		PayloadFormat: 1, HasPayloadFormat: true, ContentType: "application/json; charset=\"ü\"", HasContentType: true,
		ResponseTopic: "reply/to/\ufeffthis", CorrelationData: []byte{0, 1, 0xFF},
		User: []value.UserProperty{{Key: "b", Value: "2"}, {Key: "a", Value: "1"}, {Key: "b", Value: "3"}, {Key: "", Value: ""}, {Key: "\ufeffbom", Value: "x\ufeff"}, {Key: "a", Value: "1"}},
	}
}

func expectProperties(t *testing.T, p *mqtt.Publish, want value.Properties) {
	t.Helper()
	got := p.Properties
	if got.PayloadFormat != want.PayloadFormat || got.HasPayloadFormat != want.HasPayloadFormat || got.ContentType != want.ContentType || got.HasContentType != want.HasContentType || got.ResponseTopic != want.ResponseTopic || string(got.CorrelationData) != string(want.CorrelationData) {
		t.Errorf("properties %+v, want %+v", got, want)
	}
	if len(got.User) != len(want.User) {
		t.Fatalf("user properties %q, want %q", got.User, want.User)
	}
	for i := range got.User {
		if got.User[i] != want.User[i] {
			t.Errorf("user property %d is %q, want %q", i, got.User[i], want.User[i])
		}
	}
}
