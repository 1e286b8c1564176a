package conformance

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"maestrohub.io/uns/broker/config"
	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/broker/value"
	"maestrohub.io/uns/tests/mqtttest"
)

// connectCodes are those of table 3-1 of MQTT 5.
var connectCodes = []byte{0x00, 0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8A, 0x8C, 0x90, 0x95, 0x97, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9F}

func TestARefusedCONNECTHasAListedCode(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.2.2-8", "5 MQTT-3.2.2-6", "5 MQTT-3.2.2-7")
	full := mqtttest.Start(t, func(c *config.Config) { c.Limits.MaxClients, c.Limits.MaxConnectionsPerCredential = 3, 2 })
	full.Connect(t, mqtt.V5, "dev-a")
	full.Connect(t, mqtt.V5, "dev-a")
	for _, x := range []struct {
		name   string
		b      *mqtttest.Broker
		change func(*mqtt.Connect)
		code   mqtt.ReasonCode
	}{
		{"success", broker, all(), mqtt.Success},
		{"wrong secret", broker, func(p *mqtt.Connect) { p.Password = []byte("wrong") }, mqtt.BadUserNameOrPassword},
		{"unknown user", broker, func(p *mqtt.Connect) { p.Username = "nobody" }, mqtt.BadUserNameOrPassword},
		{"no user name", broker, func(p *mqtt.Connect) { p.HasUsername = false }, mqtt.BadUserNameOrPassword},
		{"nothing", broker, func(p *mqtt.Connect) { p.HasUsername, p.HasPassword = false, false }, mqtt.BadUserNameOrPassword},
		{"a will elsewhere", broker, func(p *mqtt.Connect) { p.Will = &mqtt.Will{Topic: "x"} }, mqtt.NotAuthorized},
		{"a method", broker, func(p *mqtt.Connect) { p.HasAuthMethod, p.AuthMethod = true, "x" }, mqtt.BadAuthenticationMethod},
		{"too large", broker, func(p *mqtt.Connect) { p.Will = &mqtt.Will{Topic: "x", Payload: make([]byte, 65535)} }, mqtt.PacketTooLarge},
		{"too small a maximum", broker, func(p *mqtt.Connect) { p.MaximumPacketSize = 6 }, mqtt.PacketTooLarge},
		{"too many of the credential", full, all(), mqtt.QuotaExceeded},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := x.b.Dial(t, mqtt.V5, "tcp")
			c.Send(x.b.Credentials("dev-a", x.change))
			p := c.Next()
			if p.Header.Type != mqtt.CONNACK || !slices.Contains(connectCodes, p.Raw[3]) || p.Raw[3] != byte(x.code) {
				c.Fatalf("got %x, want a CONNACK with %s", p.Raw, x.code.Error())
			}
			if x.code != mqtt.Success {
				c.ExpectClosed()
			}
		})
	}
	full.Connect(t, mqtt.V5, "dev-b")
	c := full.Dial(t, mqtt.V5, "tcp")
	if a := c.Connect(full.Credentials("other")); a.Code != mqtt.ServerBusy {
		c.Fatalf("%s, want %s", a.Code.Error(), mqtt.ServerBusy.Error())
	}
}

// A session that has a topic twice, of its own and by a share, gets a copy for each.
func TestSeveralCopiesEachCarryTheirOwnIdentifier(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.3.4-5", "5 MQTT-3.3.4-3")
	for _, o := range []func(*mqtt.Connect){all(), persistent} {
		topic := topicOf()
		c := broker.Connect(t, mqtt.V5, "dev-b", o)
		c.AutoAck = true
		for i, filter := range []string{topic, topic + "/#", "$share/g/" + topic, "$share/h/" + topic + "/#"} {
			c.Subscribe(filter, 1, func(p *mqtt.Subscribe) { p.SubscriptionID = uint32(i + 1) })
		}
		publisher(t).Publish(topic, 1, "x")
		var copies []string
		for range 3 {
			p := c.ExpectPublish(topic, "x")
			copies = append(copies, fmt.Sprint(slices.Sorted(slices.Values(p.SubscriptionIDs))))
		}
		slices.Sort(copies)
		if want := []string{"[1 2]", "[3]", "[4]"}; !slices.Equal(copies, want) {
			c.Fatalf("copies with %v, want %v", copies, want)
		}
		c.ExpectNothing()
	}
}

// The identifier alone says that a PUBLISH is a repetition, DUP or not.
func TestAnyPUBLISHUnderAnOpenQoS2IdentifierIsARepetition(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-4.3.3-10", "3.1.1 MQTT-4.3.3-2")
	each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
		for _, dup := range []bool{false, true} {
			topic := topicOf()
			sub := broker.Connect(t, v, "dev-b")
			sub.AutoAck = true
			sub.Subscribe(topic, 1)
			c := broker.Connect(t, v, "dev-a")
			batch := c.PublishPacket(topic, 2, "first").Append(nil, v)
			for range 3 {
				batch = c.PublishPacket(topic, 2, "another", func(p *mqtt.Publish) { p.PacketID, p.Dup = 1, dup }).Append(batch, v)
			}
			c.SendRaw(batch)
			for range 4 {
				c.ExpectAck(mqtt.PUBREC, 1, mqtt.Success)
			}
			c.Send(&mqtt.Ack{Type: mqtt.PUBREL, PacketID: 1})
			c.ExpectAck(mqtt.PUBCOMP, 1, mqtt.Success)
			c.Publish(topic, 1, "end")
			sub.ExpectPublish(topic, "first")
			sub.ExpectPublish(topic, "end")
		}
	})
}

// The repetition of a PUBLISH that is refused is refused with it: a PUBREC that says
// otherwise would make the client forget a value that is not stored.
func TestARepetitionOfARefusedPublishIsRefused(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-4.3.3-10", "5 MQTT-4.3.3-9")
	for _, dup := range []bool{false, true} {
		c := broker.Connect(t, mqtt.V5, "dev-a")
		// The first goes to the disk, so that the refused ones wait for their turn.
		batch := c.PublishPacket("x", 1, "1").Append(nil, mqtt.V5)
		for i := range 3 {
			batch = c.PublishPacket("level/x", 2, "101", func(p *mqtt.Publish) { p.PacketID, p.Dup = 7, dup && i > 0 }).Append(batch, mqtt.V5)
		}
		c.SendRaw(batch)
		c.ExpectAck(mqtt.PUBACK, 1, mqtt.Success)
		for range 3 {
			c.ExpectAck(mqtt.PUBREC, 7, mqtt.ImplementationSpecificError)
		}
		c.Send(&mqtt.Ack{Type: mqtt.PUBREL, PacketID: 7})
		c.ExpectAck(mqtt.PUBCOMP, 7, mqtt.PacketIdentifierNotFound)
	}
}

func TestNoLocalHoldsForRetainedMessages(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.8.3-3")
	topic := retainedTopic()
	c := broker.Connect(t, mqtt.V5, "dev-a")
	c.Publish(topic, 1, "1")
	c.Subscribe(topic, 1, func(p *mqtt.Subscribe) { p.Filters[0].NoLocal = true })
	c.ExpectNothing()
	broker.Connect(t, mqtt.V5, "dev-a").Publish(topic, 1, "2")
	c.Ack(c.ExpectPublish(topic, "2"))
	c.Subscribe(topic, 1, func(p *mqtt.Subscribe) { p.Filters[0].NoLocal = true })
	c.Ack(c.ExpectPublish(topic, "2"))
}

func TestSubscriptionOptionsAreSessionState(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-4.1.0-1", "5 MQTT-3.8.3-3", "5 MQTT-3.3.1-13")
	kept, own := retainedTopic(), topicOf()
	c := broker.Connect(t, mqtt.V5, "dev-a", persistent)
	c.Subscribe(kept, 1, func(p *mqtt.Subscribe) { p.Filters[0].RetainAsPublished, p.SubscriptionID = true, 77 })
	c.Subscribe(own, 1, func(p *mqtt.Subscribe) { p.Filters[0].NoLocal = true })
	c.Drop()
	c = c.Again(persistent)
	c.AutoAck = true
	c.Publish(own, 1, "own")
	publisher(t).Publish(own, 1, "other")
	c.ExpectPublish(own, "other")
	publisher(t).Publish(kept, 1, "1")
	if p := c.ExpectPublish(kept, "1"); !p.Retain || !slices.Equal(p.SubscriptionIDs, []uint32{77}) {
		c.Fatalf("RETAIN %v, identifiers %v; want true and 77", p.Retain, p.SubscriptionIDs)
	}
}

// An alias the client never saw, as its message was too large, means nothing.
func TestAMessageLeftOutGivesNoAlias(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.1.2-25", "5 MQTT-3.1.2-26")
	topic := topicOf()
	c := broker.Connect(t, mqtt.V5, "dev-b", func(p *mqtt.Connect) { p.MaximumPacketSize, p.TopicAliasMaximum = 100, 1 })
	c.AutoAck = true
	c.Subscribe(topic+"/+", 1)
	pub := publisher(t)
	for _, below := range []string{"/a", "/b"} {
		pub.Publish(topic+below, 1, string(make([]byte, 200)))
		pub.Publish(topic+below, 1, "x")
		if p := mqtttest.Expect[mqtt.Publish](c); string(p.Topic) != c.Topic(topic+below) {
			c.Fatalf("the first copy on %s has the topic %q, alias %d", below, p.Topic, p.TopicAlias)
		}
	}
}

func TestEveryPropertyAClientMaySendIsTaken(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.1.4-1", "5 MQTT-1.5.7-1", "5 MQTT-2.2.2-1")
	user := []value.UserProperty{{Key: "k", Value: "v"}, {Key: "k", Value: ""}}
	c := broker.Connect(t, mqtt.V5, "dev-a", func(p *mqtt.Connect) {
		p.SessionExpiry, p.ReceiveMaximum, p.MaximumPacketSize, p.TopicAliasMaximum = 10, 5, 100_000, 3
		p.RequestResponseInformation, p.RequestProblemInformation, p.User = true, false, user
	})
	topic := topicOf()
	c.Subscribe(topic, 2, func(p *mqtt.Subscribe) { p.SubscriptionID, p.User = 5, user })
	for qos := byte(1); qos < 3; qos++ {
		p := c.PublishPacket(topic, qos, "x")
		c.Send(p)
		kinds := []mqtt.PacketType{mqtt.PUBACK, mqtt.PUBREC}
		var delivered *mqtt.Publish
		for range 2 { // the answer and the copy, in either order
			switch got := c.Next().Content.(type) {
			case *mqtt.Publish:
				delivered = got
			case *mqtt.Ack:
				if got.Type != kinds[qos-1] || got.Code != mqtt.Success {
					c.Fatalf("got %s with %s", got.Type, got.Code.Error())
				}
			}
		}
		c.Send(&mqtt.Ack{Type: kinds[qos-1], PacketID: delivered.PacketID, ReasonString: "taken", User: user})
		if qos == 2 {
			c.ExpectAck(mqtt.PUBREL, delivered.PacketID, mqtt.Success)
			c.Send(&mqtt.Ack{Type: mqtt.PUBCOMP, PacketID: delivered.PacketID, ReasonString: "done", User: user})
			c.Send(&mqtt.Ack{Type: mqtt.PUBREL, PacketID: p.PacketID, ReasonString: "go", User: user})
			c.ExpectAck(mqtt.PUBCOMP, p.PacketID, mqtt.Success)
		}
	}
	c.Send(&mqtt.Unsubscribe{PacketID: 9, User: user, Filters: []string{c.Topic(topic)}})
	mqtttest.Expect[mqtt.Unsuback](c)
	c.Send(&mqtt.Disconnect{ReasonString: "bye", User: user, HasSessionExpiry: true, SessionExpiry: 1})
	c.ExpectClosed()
}

// Of many connections with one identifier at the same moment one remains.
func TestOneConnectionServesAClientIdentifier(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.1.4-3", "3.1.1 MQTT-3.1.4-2", "5 MQTT-3.1.3-2")
	each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
		topic := topicOf()
		first := broker.Connect(t, v, "dev-b", persistent)
		first.Subscribe(topic, 1)
		const n = 8
		clients := make([]*mqtttest.Client, n)
		for i := range clients {
			clients[i] = broker.Dial(t, v, "tcp")
		}
		var together sync.WaitGroup
		for _, c := range clients {
			together.Go(func() { c.Send(broker.Credentials("dev-b", all(named(first.ID), persistent))) })
		}
		together.Wait()
		first.ExpectRefusal(mqtt.SessionTakenOver)
		accepted := 0
		for _, c := range clients {
			a := mqtttest.Expect[mqtt.Connack](c)
			if *replicas > 1 && a.Code == mqtt.ServerUnavailable {
				continue // one at another replica came after it, and before its CONNACK
			}
			if accepted++; a.Code != mqtt.Success || v >= mqtt.V311 && !a.SessionPresent {
				c.Fatalf("%s, session present %v", a.Code.Error(), a.SessionPresent)
			}
		}
		if accepted == 0 {
			t.Fatal("no CONNECT was accepted")
		}
		// Now each but one has been ended, and that one has the session.
		publisher(t).Publish(topic, 1, "x")
		remaining, delivered := 0, 0
		for _, c := range clients {
			c.SendRaw(mqtt.AppendPingreq(nil))
			for {
				p, err := c.TryNext()
				if err != nil {
					break
				}
				if p.Header.Type == mqtt.PUBLISH {
					delivered++
				}
				if p.Header.Type == mqtt.PINGRESP {
					remaining++
					if delivered == 0 { // it comes from the log, beside the answers
						c.ExpectPublish(topic, "x")
						delivered++
					}
					break
				}
			}
		}
		if delivered != 1 {
			t.Errorf("delivered %d times, want once", delivered)
		}
		if remaining != 1 {
			t.Errorf("%d connections remain, want 1", remaining)
		}
	})
}
