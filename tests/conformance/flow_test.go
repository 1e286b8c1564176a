package conformance

import (
	"fmt"
	"strings"
	"testing"

	"maestrohub.io/uns/broker/config"
	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/mqtttest"
)

func receiveMaximum(n uint16) func(*mqtt.Connect) {
	return func(p *mqtt.Connect) { p.ReceiveMaximum = n }
}

func TestTheBrokerStaysWithinTheClientsReceiveMaximum(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.3.4-9", "5 MQTT-3.3.4-10", "5 MQTT-4.9.0-1", "5 MQTT-4.9.0-2", "5 MQTT-4.9.0-3")
	for name, o := range map[string]func(*mqtt.Connect){"clean": all(), "persistent": persistent} {
		for qos := byte(1); qos < 3; qos++ {
			t.Run(fmt.Sprintf("%s QoS %d", name, qos), func(t *testing.T) {
				t.Parallel()
				topic := topicOf()
				sub := broker.Connect(t, mqtt.V5, "dev-b", all(o, receiveMaximum(2)))
				sub.Subscribe(topic+"/counted", 2)
				pub := publisher(t)
				for i := range 5 {
					pub.Publish(topic+"/counted", qos, fmt.Sprint(i))
				}
				first, second := sub.ExpectPublish(topic+"/counted", "0"), sub.ExpectPublish(topic+"/counted", "1")
				// Nothing else is held back: answers, PUBRELs, QoS 0.
				sub.Subscribe(topic+"/zero", 0)
				pub.Publish(topic+"/zero", 1, "z")
				sub.ExpectPublish(topic+"/zero", "z")
				sub.Publish(topic+"/other", 2, "own")
				sub.ExpectNothing()
				if qos == 2 { // a PUBREC gives nothing back, the PUBCOMP does
					sub.Send(&mqtt.Ack{Type: mqtt.PUBREC, PacketID: first.PacketID})
					sub.ExpectAck(mqtt.PUBREL, first.PacketID, mqtt.Success)
					sub.ExpectNothing()
					sub.Send(&mqtt.Ack{Type: mqtt.PUBCOMP, PacketID: first.PacketID})
				} else {
					sub.Ack(first)
				}
				third := sub.ExpectPublish(topic+"/counted", "2")
				sub.ExpectNothing()
				if qos == 2 { // a refusing PUBREC does
					sub.Send(&mqtt.Ack{Type: mqtt.PUBREC, PacketID: second.PacketID, Code: mqtt.UnspecifiedError})
				} else {
					sub.Send(&mqtt.Ack{Type: mqtt.PUBACK, PacketID: second.PacketID, Code: mqtt.UnspecifiedError})
				}
				fourth := sub.ExpectPublish(topic+"/counted", "3")
				// An acknowledgment of nothing gives nothing.
				sub.Send(&mqtt.Ack{Type: mqtt.PUBACK, PacketID: 4000})
				sub.Send(&mqtt.Ack{Type: mqtt.PUBCOMP, PacketID: 4001, Code: mqtt.PacketIdentifierNotFound})
				sub.ExpectNothing()
				sub.Ack(third)
				sub.Ack(sub.ExpectPublish(topic+"/counted", "4"))
				sub.Ack(fourth)
				sub.ExpectNothing()
			})
		}
	}
}

// Also what is sent again counts.
func TestTheReceiveMaximumHoldsOnResume(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.3.4-9", "5 MQTT-4.9.0-1")
	topic := topicOf()
	sub := broker.Connect(t, mqtt.V5, "dev-b", persistent)
	sub.Subscribe(topic, 1)
	pub := publisher(t)
	for i := range 4 {
		pub.Publish(topic, 1, fmt.Sprint(i))
		sub.ExpectPublish(topic, fmt.Sprint(i))
	}
	sub.Drop()
	sub = sub.Again(all(persistent, receiveMaximum(1)))
	for i := range 4 {
		p := sub.ExpectPublish(topic, fmt.Sprint(i))
		sub.ExpectNothing()
		sub.Ack(p)
	}
	sub.ExpectNothing()
}

func TestAClientBeyondTheReceiveMaximumIsClosed(t *testing.T) {
	t.Parallel()
	shows(t, "5 D5-05")
	b := mqtttest.Start(t, func(c *config.Config) { c.Limits.ReceiveMaximum = 3 })
	c := b.Connect(t, mqtt.V5, "dev-a")
	if c.Connack.ReceiveMaximum != 3 {
		c.Fatalf("Receive Maximum %d announced, want 3", c.Connack.ReceiveMaximum)
	}
	for id := uint16(1); id <= 3; id++ {
		c.Send(c.PublishPacket("x", 2, "1"))
		c.ExpectAck(mqtt.PUBREC, id, mqtt.Success)
	}
	c.Send(c.PublishPacket("x", 0, "1")) // QoS 0 does not count
	c.ExpectNothing()
	c.Send(c.PublishPacket("x", 1, "1"))
	c.ExpectDisconnect(mqtt.ReceiveMaximumExceeded)
	// MQTT 3 knows no such bound: its publishes wait.
	old := b.Connect(t, mqtt.V311, "dev-a")
	for range 5 {
		p := old.PublishPacket("x", 2, "1")
		old.Send(p)
		old.ExpectAck(mqtt.PUBREC, p.PacketID, mqtt.Success)
	}
}

func TestAMessageTooLargeForAClientIsLeftOutAsIfDelivered(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.1.2-24", "5 MQTT-3.1.2-25")
	limit := func(p *mqtt.Connect) { p.MaximumPacketSize = 100 }
	for name, o := range map[string]func(*mqtt.Connect){"clean": all(), "persistent": persistent} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			topic := topicOf()
			small := broker.Connect(t, mqtt.V5, "dev-b", all(o, limit, receiveMaximum(1)))
			large := broker.Connect(t, mqtt.V5, "dev-b", o)
			small.Subscribe(topic, 2)
			large.Subscribe(topic, 2)
			pub := publisher(t)
			exact := strings.Repeat("x", 100-2-2-len(small.Topic(topic))-2-1)
			for qos := range byte(3) {
				for _, payload := range []string{exact + "x", exact, strings.Repeat("y", 5000)} {
					pub.Publish(topic, qos, payload)
					large.Ack(large.ExpectPublish(topic, payload))
				}
				p := small.ExpectPublish(topic, exact)
				small.Ack(p)
			}
			small.ExpectNothing()
			small.Drop()
			pub.Publish(topic, 1, exact+"x")
			pub.Publish(topic, 1, exact)
			again := small.Again(all(o, limit))
			if name == "persistent" {
				again.Ack(again.ExpectPublish(topic, exact))
			}
			again.ExpectNothing()
		})
	}
}

// The texts an error comes with are given up before the error is.
func TestReasonStringsGiveWayToTheMaximumPacketSize(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.2.2-19", "5 MQTT-3.4.2-2", "5 MQTT-3.5.2-2", "5 MQTT-3.14.2-3", "5 MQTT-3.1.2-24")
	for _, limited := range []bool{false, true} {
		t.Run(fmt.Sprint(limited), func(t *testing.T) {
			t.Parallel()
			size := func(n uint32) func(*mqtt.Connect) {
				return func(p *mqtt.Connect) {
					if limited {
						p.MaximumPacketSize = n
					}
				}
			}
			check := func(c *mqtttest.Client, what, reason string) {
				if (reason == "") != limited {
					c.Fatalf("%s with reason %q, limited %v", what, reason, limited)
				}
			}
			c := broker.Connect(t, mqtt.V5, "dev-a", size(30))
			for qos, kind := range map[byte]mqtt.PacketType{1: mqtt.PUBACK, 2: mqtt.PUBREC} {
				p := c.PublishPacket("level/x", qos, "101")
				c.Send(p)
				check(c, kind.String(), c.ExpectAck(kind, p.PacketID, mqtt.ImplementationSpecificError).ReasonString)
			}
			c.SendWire(`C1 00`)
			check(c, "DISCONNECT", c.ExpectDisconnect(mqtt.MalformedPacket).ReasonString)

			refused := broker.Dial(t, mqtt.V5, "tcp")
			a := refused.Connect(broker.Credentials("dev-a", all(size(10), func(p *mqtt.Connect) {
				p.Will = &mqtt.Will{Topic: "elsewhere", Payload: []byte("1")}
			})))
			if a.Code != mqtt.NotAuthorized {
				refused.Fatalf("%s, want %s", a.Code.Error(), mqtt.NotAuthorized.Error())
			}
			check(refused, "CONNACK", a.ReasonString)
		})
	}
}

// What must not be sent and cannot be made smaller ends the connection: a client
// would wait for it for ever.
func TestAnAnswerTooLargeForTheClientEndsTheConnection(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.1.2-24")
	c := broker.Dial(t, mqtt.V5, "tcp")
	if a := c.Connect(broker.Credentials("dev-a", func(p *mqtt.Connect) { p.MaximumPacketSize = 10 })); a.Code != mqtt.PacketTooLarge {
		c.Fatalf("%s, want %s", a.Code.Error(), mqtt.PacketTooLarge.Error())
	}
	c.ExpectClosed()
	c = broker.Connect(t, mqtt.V5, "dev-a", func(p *mqtt.Connect) { p.MaximumPacketSize = 40 })
	p := &mqtt.Subscribe{PacketID: 1}
	for i := range 50 {
		p.Filters = append(p.Filters, mqtt.Subscription{Filter: c.Topic(fmt.Sprint(i))})
	}
	c.Send(p)
	c.ExpectDisconnect(mqtt.PacketTooLarge)
}

func TestWithoutProblemInformationOnlySomePacketsExplainThemselves(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.1.2-29")
	c := broker.Connect(t, mqtt.V5, "dev-a", func(p *mqtt.Connect) { p.RequestProblemInformation = false })
	for qos, kind := range map[byte]mqtt.PacketType{1: mqtt.PUBACK, 2: mqtt.PUBREC} {
		p := c.PublishPacket("level/x", qos, "101")
		c.Send(p)
		if a := c.ExpectAck(kind, p.PacketID, mqtt.ImplementationSpecificError); a.ReasonString != "" || len(a.User) > 0 {
			c.Fatalf("%s explains itself: %q", kind, a.ReasonString)
		}
	}
	c.Subscribe(topicOf(), 0)
	c.Unsubscribe(topicOf())
	viewer := broker.Connect(t, mqtt.V5, "viewer", func(p *mqtt.Connect) { p.RequestProblemInformation = false })
	viewer.Send(&mqtt.Subscribe{PacketID: 1, Filters: []mqtt.Subscription{{Filter: mqtttest.Data("plant", "x")}}})
	if a := mqtttest.Expect[mqtt.Suback](viewer); a.Codes[0] != mqtt.NotAuthorized || a.ReasonString != "" || len(a.User) > 0 {
		viewer.Fatalf("SUBACK %+v, want a refusal without words", a)
	}
	// PUBLISH and DISCONNECT may.
	topic := topicOf()
	c.Subscribe(topic, 0)
	publisher(t).Publish(topic, 1, "x", func(p *mqtt.Publish) { p.Properties = sampleProperties() })
	expectProperties(t, c.ExpectPublish(topic, "x"), sampleProperties())
}

func TestAPacketAboveTheBrokersMaximumIsRefused(t *testing.T) {
	t.Parallel()
	shows(t, "5 D5-06")
	b := mqtttest.Start(t, func(c *config.Config) { c.Broker.MaxPacketBytes = 65536 })
	for _, v := range everyVersion {
		c := b.Connect(t, v, "dev-a")
		if v >= mqtt.V5 && c.Connack.MaximumPacketSize != 65536 {
			c.Fatalf("Maximum Packet Size %d announced, want 65536", c.Connack.MaximumPacketSize)
		}
		whole := func(size int) []byte {
			fit := c.PublishPacket("raw/x", 0, "")
			fit.Payload = make([]byte, size-len(fit.Append(nil, v))-2) // two more bytes of length
			return fit.Append(nil, v)
		}
		fits := whole(65536)
		if len(fits) != 65536 {
			t.Fatalf("the test's packet has %d bytes", len(fits))
		}
		c.SendRaw(fits)
		c.ExpectNothing()
		// Only the header of the larger one: it is enough to know.
		c.SendRaw(whole(65537)[:10])
		c.ExpectRefusal(mqtt.PacketTooLarge)
	}
}

func TestResponseInformationIsReturnedOnRequestOnly(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.1.2-28")
	if c := broker.Connect(t, mqtt.V5, "dev-a"); c.Connack.ResponseInformation != "" {
		c.Fatalf("response information %q, not asked for", c.Connack.ResponseInformation)
	}
	c := broker.Connect(t, mqtt.V5, "dev-a", func(p *mqtt.Connect) { p.RequestResponseInformation = true })
	if want := mqtttest.Data("plant", ""); c.Connack.ResponseInformation != want {
		c.Fatalf("response information %q, want %q, the place its responses may be read", c.Connack.ResponseInformation, want)
	}
}

func TestTheCONNACKAnnouncesWhatIsOffered(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.3.2-12", "5 MQTT-3.2.2-9")
	off := mqtttest.Start(t, func(c *config.Config) { c.Broker.Features = config.Features{} })
	for _, x := range []struct {
		b  *mqtttest.Broker
		on bool
	}{{broker, true}, {off, false}} {
		c := x.b.Connect(t, mqtt.V5, "dev-a", func(p *mqtt.Connect) { p.TopicAliasMaximum = 10 })
		a := c.Connack
		if available(a.SharedAvailable) != x.on || available(a.SubscriptionIDsAvailable) != x.on || (a.TopicAliasMaximum > 0) != x.on || !available(a.WildcardAvailable) {
			c.Fatalf("CONNACK %+v, features on: %v", a, x.on)
		}
		wantShared, wantID := mqtt.GrantedQoS0, mqtt.GrantedQoS0
		if !x.on {
			wantShared, wantID = mqtt.SharedSubscriptionsNotSupported, mqtt.SubscriptionIdentifiersNotSupported
		}
		if got := c.TrySubscribe("$share/g/x", 0); got != wantShared {
			c.Fatalf("shared subscription: %s, want %s", got.Error(), wantShared.Error())
		}
		if got := c.TrySubscribe("x", 0, func(p *mqtt.Subscribe) { p.SubscriptionID = 3 }); got != wantID {
			c.Fatalf("subscription identifier: %s, want %s", got.Error(), wantID.Error())
		}
		if !x.on {
			c.Subscribe("y", 0)
			c.Publish("y", 1, "1")
			if p := c.ExpectPublish("y", "1"); p.HasAlias {
				c.Fatalf("alias %d although aliases are off", p.TopicAlias)
			}
			c.Send(c.PublishPacket("y", 0, "1", func(p *mqtt.Publish) { p.HasAlias, p.TopicAlias = true, 1 }))
			c.ExpectDisconnect(mqtt.TopicAliasInvalid)
		}
	}
}

// available reads an availability of a CONNACK, of which absent means yes.
func available(b *bool) bool { return b == nil || *b }
