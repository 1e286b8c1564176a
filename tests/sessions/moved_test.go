package sessions

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"maestrohub.io/uns/broker/cluster"
	"maestrohub.io/uns/broker/config"
	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/tests/harness"
	"maestrohub.io/uns/tests/mqtttest"
	"maestrohub.io/uns/tests/site"
)

// What a session is owed, and owes, does not depend on which replica it resumes on.
func TestASessionIsTheSameOnAnotherReplica(t *testing.T) {
	s := site.Start(t)
	few := func(c *config.Config) { c.Limits.ReceiveMaximum = receiveMaximum }
	p := &pair{s.Replica(t, "a", few), s.Replica(t, "b", few)}
	for _, test := range []struct {
		name string
		run  func(*testing.T, *pair)
	}{
		{"a delivery sent again has its subscriptions' identifiers and options", sentAgainWithOptions},
		{"a retained message sent again is one, of its subscription", retainedSentAgain},
		{"retained messages that waited for room still come, as they were found", retainedThatWaited},
		{"repetitions do not count against the Receive Maximum twice", repetitionsCountOnce},
		{"a value that fits without its new topic alias is sent", sentWithoutAlias},
		{"what waits for a subscription that was replaced still comes", waitsForReplaced},
		{"an identifier whose message no longer fits is released before it is used again", releasedBeforeReuse},
		{"what a member had not acknowledged goes to another at a clean start elsewhere", inheritedAtCleanStart},
		{"what a member had not acknowledged goes to another when it ends its session", inheritedAtDisconnect},
		{"what a member had not acknowledged goes to another when its session expires", inheritedAtExpiry},
		{"a value that comes twice, by a subscription of its own and a shared one, comes twice", bothCopies},
		{"what a member was chosen for goes to another when it unsubscribes meanwhile", inheritedAtUnsubscribe},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, p) })
	}
	routes := s.Bucket(t, state.Routes)
	t.Run("a subscription that replaces one leaves no route of that behind", func(t *testing.T) { routesEnd(t, p, routes) })
}

const receiveMaximum = 100

// pair is two replicas.
type pair struct{ a, b *mqtttest.Broker }

// lasting has a session outlive its connection.
func lasting(p *mqtt.Connect) { p.CleanStart, p.SessionExpiry = false, 600 }

// connect is Connect with a client identifier that no client of the other replica has.
func connect(t *testing.T, b *mqtttest.Broker, user string, options ...func(*mqtt.Connect)) *mqtttest.Client {
	t.Helper()
	named := func(p *mqtt.Connect) { p.ClientID = b.Config.ReplicaID + p.ClientID }
	return b.Connect(t, mqtt.V5, user, append([]func(*mqtt.Connect){named}, options...)...)
}

// move resumes a client's session at another replica. The old connection is left as it
// is.
func move(t *testing.T, c *mqtttest.Client, to *mqtttest.Broker, options ...func(*mqtt.Connect)) *mqtttest.Client {
	t.Helper()
	same := func(p *mqtt.Connect) { p.ClientID = c.ID; lasting(p) }
	return to.Connect(t, c.Version, c.User, append([]func(*mqtt.Connect){same}, options...)...)
}

// identified gives a SUBSCRIBE a subscription identifier.
func identified(id uint32) func(*mqtt.Subscribe) {
	return func(s *mqtt.Subscribe) { s.SubscriptionID = id }
}

func asPublished(s *mqtt.Subscribe) { s.Filters[0].RetainAsPublished = true }

// sameAgain holds a delivery sent again against its first sending.
func sameAgain(t *testing.T, first, again *mqtt.Publish) {
	t.Helper()
	slices.Sort(first.SubscriptionIDs)
	slices.Sort(again.SubscriptionIDs)
	if !again.Dup || again.PacketID != first.PacketID || again.QoS != first.QoS || again.Retain != first.Retain ||
		!slices.Equal(again.SubscriptionIDs, first.SubscriptionIDs) {
		t.Errorf("sent as %d at QoS %d, retain %v, for subscriptions %v; again, DUP %v, as %d at QoS %d, retain %v, for %v", first.PacketID, first.QoS,
			first.Retain, first.SubscriptionIDs, again.Dup, again.PacketID, again.QoS, again.Retain, again.SubscriptionIDs)
	}
}

// [MQTT-3.3.4-3], [MQTT-3.3.1-13]
func sentAgainWithOptions(t *testing.T, p *pair) {
	for _, qos := range []byte{1, 2} {
		topic := fmt.Sprintf("retained/options%d/x", qos)
		sub := connect(t, p.a, "dev-a", lasting)
		sub.Subscribe(topic, qos, identified(7), asPublished)
		sub.Subscribe("+/"+topic[len("retained/"):], 1, identified(9))
		connect(t, p.b, "dev-b").Publish(topic, qos, "1")
		first := sub.ExpectPublish(topic, "1")
		if !first.Retain || len(first.SubscriptionIDs) != 2 {
			t.Fatalf("sent with retain %v for subscriptions %v, want true for both", first.Retain, first.SubscriptionIDs)
		}
		sub.Drop()
		sub = move(t, sub, p.b)
		again := sub.ExpectPublish(topic, "1")
		sameAgain(t, first, again)
		sub.Ack(again)
		sub.ExpectNothing()
	}
}

// [MQTT-3.3.1-8]
func retainedSentAgain(t *testing.T, p *pair) {
	connect(t, p.b, "dev-b").Publish("retained/once/x", 2, "1")
	for _, qos := range []byte{1, 2} {
		sub := connect(t, p.a, "dev-a", lasting)
		sub.Subscribe("retained/once/#", qos, identified(7))
		first := sub.ExpectPublish("retained/once/x", "1")
		sub.Drop()
		sub = move(t, sub, p.b)
		again := sub.ExpectPublish("retained/once/x", "1")
		sameAgain(t, first, again)
		sub.Ack(again)
		sub.ExpectNothing()
	}
}

func retainedThatWaited(t *testing.T, p *pair) {
	one := func(c *mqtt.Connect) { c.ReceiveMaximum = 1 }
	for _, qos := range []byte{1, 2} {
		topic := func(n int) string { return fmt.Sprintf("retained/many%d/%d", qos, n) }
		from := connect(t, p.b, "dev-b")
		for n := range 5 {
			from.Publish(topic(n), 2, fmt.Sprint(n))
		}
		sub := connect(t, p.a, "dev-a", lasting, one)
		sub.Subscribe(fmt.Sprintf("retained/many%d/#", qos), qos, identified(7))
		first := sub.ExpectPublish(topic(0), "0")
		sub.ExpectNothing()
		sub.Drop()
		// Replaced meanwhile: it is not the message that was found, and comes by itself.
		from.Publish(topic(3), 2, `"later"`)
		sub = move(t, sub, p.b, one)
		again := sub.ExpectPublish(topic(0), "0")
		sameAgain(t, first, again)
		sub.Ack(again)
		for _, n := range []int{1, 2} {
			sub.Ack(sub.ExpectPublish(topic(n), fmt.Sprint(n)))
		}
		sub.Drop()
		sub = move(t, sub, p.a) // and once more, by now with room for all of it
		for {
			got := mqtttest.Expect[mqtt.Publish](sub)
			sub.Ack(got)
			if string(got.Payload) == `"later"` {
				break
			}
			// At QoS 1 what was acknowledged last may come again.
			if !got.Retain || !slices.Equal(got.SubscriptionIDs, []uint32{7}) || qos == 2 && string(got.Topic) != mqtttest.Data("plant", topic(4)) {
				t.Errorf("QoS %d: got %q, retain %v, for subscriptions %v", qos, got.Topic, got.Retain, got.SubscriptionIDs)
			}
		}
		sub.ExpectNothing()
	}
}

// [MQTT-3.3.4-7]: a client that sends again what it had sent, in order, has used up what
// that was, and no more.
func repetitionsCountOnce(t *testing.T, p *pair) {
	const taken = receiveMaximum * 6 / 10
	pub := connect(t, p.a, "dev-b", lasting)
	for n := range taken {
		pub.Send(pub.PublishPacket("many", 2, fmt.Sprint(n)))
	}
	for n := range taken {
		pub.ExpectAck(mqtt.PUBREC, uint16(n+1), mqtt.Success)
	}
	pub.Drop()
	pub = move(t, pub, p.b)
	var all []byte
	send := func(qos byte, id int, dup bool) {
		m := pub.PublishPacket("many", qos, "1")
		m.PacketID, m.Dup = uint16(id), dup
		all = m.Append(all, mqtt.V5)
	}
	send(1, receiveMaximum, true) // not acknowledged before, so all others wait for it
	for n := range taken {
		send(2, n+1, true)
	}
	for n := taken + 1; n < receiveMaximum; n++ {
		send(1, n, false)
	}
	pub.SendRaw(all)
	pub.ExpectAck(mqtt.PUBACK, receiveMaximum, mqtt.Success)
	for n := range taken {
		pub.ExpectAck(mqtt.PUBREC, uint16(n+1), mqtt.Success)
	}
	for n := taken + 1; n < receiveMaximum; n++ {
		pub.ExpectAck(mqtt.PUBACK, uint16(n), mqtt.Success)
	}
}

// [MQTT-3.1.2-24] forbids what is larger than the client's maximum and nothing else.
func sentWithoutAlias(t *testing.T, p *pair) {
	const topic, payload = "size", `"0123456789"`
	exactly := mqtt.Publish{QoS: 1, PacketID: 1, Topic: []byte(mqtttest.Data("plant", topic)), Payload: []byte(payload)}
	size := uint32(len(exactly.Append(nil, mqtt.V5)))
	sub := connect(t, p.a, "dev-a", func(c *mqtt.Connect) { c.MaximumPacketSize, c.TopicAliasMaximum = size, 10 })
	sub.Subscribe(topic, 1)
	from := connect(t, p.b, "dev-b")
	from.Publish(topic, 1, payload)
	from.Publish(topic, 1, "1")
	sub.Ack(sub.ExpectPublish(topic, payload))
	if got := sub.ExpectPublish(topic, "1"); !got.HasAlias {
		t.Error("the next one, which is smaller, has no alias")
	}
}

// [MQTT-3.8.4-4]: and what came after the subscription was replaced is for the one in its
// place alone.
func waitsForReplaced(t *testing.T, p *pair) {
	one := func(c *mqtt.Connect) { c.ReceiveMaximum = 1 }
	for _, by := range []mqtt.Subscription{{QoS: 0}, {QoS: 1, NoLocal: true}} {
		topic := fmt.Sprintf("replaced/%d", by.QoS)
		sub := connect(t, p.a, "dev-a", lasting, one)
		sub.Subscribe(topic, 2)
		for n := range 4 {
			sub.Publish(topic, 2, fmt.Sprint(n))
		}
		first := sub.ExpectPublish(topic, "0")
		sub.Subscribe(topic, by.QoS, func(s *mqtt.Subscribe) { s.Filters[0].NoLocal = by.NoLocal })
		// The log gets this one too: at QoS 0 it comes live, and with no local not at all.
		other := connect(t, p.b, "dev-b", lasting)
		other.Subscribe(topic, 2)
		sub.Publish(topic, 2, "4")
		other.Ack(other.ExpectPublish(topic, "4"))
		if by.QoS == 0 {
			sub.ExpectPublish(topic, "4")
		}
		sub.Drop()
		sub = move(t, sub, p.b, one)
		again := sub.ExpectPublish(topic, "0")
		sameAgain(t, first, again)
		sub.Ack(again)
		for n := range 3 {
			sub.Ack(sub.ExpectPublish(topic, fmt.Sprint(n+1)))
		}
		sub.ExpectNothing()
		sub.Disconnect()
		other.Disconnect()
	}
}

// A client that has received a QoS 2 message takes another one under its identifier for
// a repetition, until it has the PUBREL.
func releasedBeforeReuse(t *testing.T, p *pair) {
	sub := connect(t, p.a, "dev-a", lasting)
	sub.Subscribe("fit", 2)
	from := connect(t, p.b, "dev-b")
	from.Publish("fit", 2, `"`+strings.Repeat("x", 200)+`"`)
	first := mqtttest.Expect[mqtt.Publish](sub)
	sub.Drop() // before its PUBREC
	sub = move(t, sub, p.b, func(c *mqtt.Connect) { c.MaximumPacketSize = 150 })
	sub.ExpectAck(mqtt.PUBREL, first.PacketID, mqtt.Success)
	sub.Send(&mqtt.Ack{Type: mqtt.PUBCOMP, PacketID: first.PacketID})
	from.Publish("fit", 2, "1")
	sub.Ack(sub.ExpectPublish("fit", "1"))
}

// members are two of a shared subscription, of which one has not acknowledged what it
// was sent.
func members(t *testing.T, p *pair, name string) (busy, other *mqtttest.Client) {
	t.Helper()
	filter := "$share/" + name + "/" + name + "/#"
	busy = connect(t, p.a, "dev-a", lasting)
	busy.Subscribe(filter, 1)
	from := connect(t, p.b, "dev-b")
	for n := range 3 {
		from.Publish(name+"/x", 1, fmt.Sprint(n))
	}
	for n := range 3 {
		busy.ExpectPublish(name+"/x", fmt.Sprint(n))
	}
	other = connect(t, p.b, "dev-a", lasting)
	other.Subscribe(filter, 1)
	return busy, other
}

func inherits(t *testing.T, other *mqtttest.Client, name string) {
	t.Helper()
	for n := range 3 {
		other.Ack(other.ExpectPublish(name+"/x", fmt.Sprint(n)))
	}
	other.ExpectNothing()
}

func inheritedAtCleanStart(t *testing.T, p *pair) {
	for _, lasts := range []func(*mqtt.Connect){lasting, func(c *mqtt.Connect) { c.SessionExpiry = 0 }} {
		busy, other := members(t, p, "clean")
		busy.Drop()
		move(t, busy, p.b, lasts, func(c *mqtt.Connect) { c.CleanStart = true })
		inherits(t, other, "clean")
		other.Send(&mqtt.Disconnect{HasSessionExpiry: true})
		other.ExpectClosed()
	}
}

func inheritedAtDisconnect(t *testing.T, p *pair) {
	busy, other := members(t, p, "left")
	busy.Send(&mqtt.Disconnect{HasSessionExpiry: true})
	inherits(t, other, "left")
}

func inheritedAtExpiry(t *testing.T, p *pair) {
	busy, other := members(t, p, "expired")
	busy.Send(&mqtt.Disconnect{HasSessionExpiry: true, SessionExpiry: 1})
	inherits(t, other, "expired")
}

// A persistent session is fed live at QoS 0 only, so that a subscription at another QoS
// in its place needs no route.
func routesEnd(t *testing.T, p *pair, routes state.Bucket) {
	sub := connect(t, p.a, "dev-a", lasting)
	const topic = "routed"
	for _, qos := range []byte{0, 1, 0, 1} {
		sub.Subscribe(topic, qos)
	}
	harness.Eventually(t, "the route to be gone", func() (bool, string) {
		records, err := routes.List(t.Context(), "")
		if err != nil {
			return false, err.Error()
		}
		for _, r := range records {
			if route, err := cluster.DecodeRoute(r.Value); err != nil || route.Filter == mqtttest.Data("plant", topic) {
				return false, fmt.Sprintf("%+v, %v", route, err)
			}
		}
		return true, ""
	})
}

// Values are on their way to the group at both replicas when a member unsubscribes: each
// is somebody's.
func inheritedAtUnsubscribe(t *testing.T, p *pair) {
	const rounds, each = 10, 50
	filter := "$share/unsubscribed/unsubscribed"
	stays := connect(t, p.b, "dev-a", lasting)
	stays.Subscribe(filter, 1)
	goes := connect(t, p.a, "dev-a", lasting)
	got := make(map[string]bool)
	for round := range rounds {
		goes.Subscribe(filter, 1)
		var senders []*mqtttest.Client
		for i, b := range []*mqtttest.Broker{p.a, p.b} {
			from := connect(t, b, "dev-b")
			var all []byte
			for n := range each {
				all = from.PublishPacket("unsubscribed", 1, fmt.Sprint(round*1000+i*100+n)).Append(all, mqtt.V5)
			}
			from.SendRaw(all)
			senders = append(senders, from)
		}
		// What it was sent before is its own to finish.
		goes.Unsubscribe(filter)
		for _, from := range senders {
			for n := range each {
				from.ExpectAck(mqtt.PUBACK, uint16(n+1), mqtt.Success)
			}
			from.Disconnect()
		}
		goes.SendRaw(mqtt.AppendPingreq(nil))
		for next := goes.Next(); next.Header.Type != mqtt.PINGRESP; next = goes.Next() {
			m := next.Content.(*mqtt.Publish)
			got[string(m.Payload)] = true
			goes.Ack(m)
		}
	}
	for len(got) < rounds*2*each {
		m := mqtttest.Expect[mqtt.Publish](stays)
		got[string(m.Payload)] = true
		stays.Ack(m)
	}
}

func bothCopies(t *testing.T, p *pair) {
	sub := connect(t, p.a, "dev-a", lasting, func(c *mqtt.Connect) { c.ReceiveMaximum = 3 })
	sub.Subscribe("both", 2)
	sub.Subscribe("$share/both/both", 2)
	from := connect(t, p.b, "dev-b")
	for n := range 4 {
		from.Publish("both", 2, fmt.Sprint(n))
	}
	sub.ExpectPublish("both", "0")
	sub.ExpectPublish("both", "0")
	sub.Drop()
	sub = move(t, sub, p.b)
	for n := range 4 {
		for range 2 {
			sub.Ack(sub.ExpectPublish("both", fmt.Sprint(n)))
		}
	}
	sub.ExpectNothing()
}
