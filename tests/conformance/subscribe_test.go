package conformance

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/mqtttest"
)

func TestASUBSCRIBEIsAnsweredFilterByFilter(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-2.2.1-6", "5 MQTT-2.2.2-1", "5 MQTT-3.8.4-1", "5 MQTT-3.8.4-2", "5 MQTT-3.8.4-5", "5 MQTT-3.8.4-6", "5 MQTT-3.8.4-7", "5 MQTT-3.9.3-1", "5 MQTT-3.9.3-2",
		"3.1.1 MQTT-2.3.1-7", "3.1.1 MQTT-3.8.4-1", "3.1.1 MQTT-3.8.4-2", "3.1.1 MQTT-3.8.4-4", "3.1.1 MQTT-3.8.4-5", "3.1.1 MQTT-3.9.3-1", "3.1.1 MQTT-3.9.3-2")
	each(t, []mqtt.Version{mqtt.V311, mqtt.V5}, func(t *testing.T, v mqtt.Version) {
		topic := topicOf()
		c := broker.Connect(t, v, "viewer", func(p *mqtt.Connect) { p.RequestProblemInformation = false }) // no texts
		view := func(below string) string { return mqtttest.Data("plant", "view/"+topic+below) }
		for _, id := range []uint16{1, 256, 65535} {
			c.Send(&mqtt.Subscribe{PacketID: id, Filters: []mqtt.Subscription{
				{Filter: view("/a"), QoS: 2}, {Filter: mqtttest.Data("plant", "secret")}, {Filter: view("/b"), QoS: 0},
				{Filter: mqtttest.Data("office", "x"), QoS: 1}, {Filter: view("/c"), QoS: 1}, {Filter: "$SYS/#"},
			}})
			p := c.Next()
			no := mqtt.NotAuthorized
			body := []byte{byte(id >> 8), byte(id), 0} // no properties: their length is there and 0
			if v < mqtt.V5 {
				no, body = mqtt.UnspecifiedError, body[:2]
			}
			want := append([]byte{0x90, byte(len(body) + 6)}, append(body, 2, byte(no), 0, byte(no), 1, byte(no))...)
			if string(p.Raw) != string(want) {
				c.Fatalf("got %x, want %x", p.Raw, want)
			}
		}
		// What was granted is subscribed, at what was granted.
		pub := publisher(t)
		for below, qos := range map[string]byte{"/a": 2, "/b": 0, "/c": 1} {
			pub.Publish("view/"+topic+below, 2, "1")
			p := c.ExpectPublish(view(below), "1")
			if p.QoS != qos {
				c.Fatalf("%s at QoS %d, want %d", below, p.QoS, qos)
			}
			c.Ack(p)
		}
	})
}

func TestARefusedSUBSCRIBESaysWhatIsAllowed(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.9.2-1")
	c := broker.Connect(t, mqtt.V5, "viewer")
	view, secret, other := mqtttest.Data("plant", "view/"+topicOf()), mqtttest.Data("plant", "secret"), mqtttest.Data("office", "x")
	deep := view + strings.Repeat("/x", 40)
	const mayNot, notOurs = `client "viewer" may not read it; it may read mHv1.0/plant/view/#`, `workspace "office" is not this client's; subscribe below mHv1.0/plant/`
	var many []string
	for i := range 20 {
		many = append(many, fmt.Sprint(secret, i, strings.Repeat("ü", 400)))
	}
	var five strings.Builder
	for i := range 5 {
		fmt.Fprintf(&five, "%q: %s. ", strings.ToValidUTF8(many[i][:128], "")+"…", mayNot)
	}
	for _, want := range []struct {
		filters []string
		reason  string
	}{
		{[]string{view}, ""},
		{[]string{view, view + "/a"}, ""},
		{[]string{secret}, mayNot},
		{[]string{"$share/g/" + other}, notOurs},
		{[]string{view, other, secret}, fmt.Sprintf("%q: %s. %q: %s", other, notOurs, secret, mayNot)},
		{[]string{deep, view}, fmt.Sprintf("%q: filter of %d levels; at most 32 are allowed (maxTopicLevels)", deep, strings.Count(deep, "/")+1)},
		{[]string{view + strings.Repeat("x", 1024)}, fmt.Sprintf("filter of %d bytes; at most 1024 are allowed (maxTopicBytes)", len(view)+1024)},
		{many, five.String() + "and 15 more were refused"},
	} {
		p := &mqtt.Subscribe{PacketID: c.NextID()}
		for _, f := range want.filters {
			p.Filters = append(p.Filters, mqtt.Subscription{Filter: f})
		}
		c.Send(p)
		if a := mqtttest.Expect[mqtt.Suback](c); a.ReasonString != want.reason || len(a.Codes) != len(want.filters) {
			c.Fatalf("%.80q: SUBACK %v with\n%q, want\n%q", want.filters, a.Codes, a.ReasonString, want.reason)
		}
	}
	// The codes come also where the text does not fit [MQTT-3.9.2-1].
	small := broker.Connect(t, mqtt.V5, "viewer", func(p *mqtt.Connect) { p.MaximumPacketSize = 64 })
	small.Send(&mqtt.Subscribe{PacketID: 1, Filters: []mqtt.Subscription{{Filter: secret}}})
	if a := mqtttest.Expect[mqtt.Suback](small); a.ReasonString != "" || a.Codes[0] != mqtt.NotAuthorized {
		small.Fatalf("SUBACK %v with %q, want a refusal without words", a.Codes, a.ReasonString)
	}
}

func TestFiltersAreTakenInTheirOrder(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.8.4-5", "3.1.1 MQTT-3.8.4-4", "5 MQTT-3.8.4-3", "5 MQTT-3.10.4-6", "3.1.1 MQTT-3.10.4-6")
	each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
		topic := topicOf()
		c := broker.Connect(t, v, "dev-b")
		full := c.Topic(topic)
		codes := c.SubscribeAll(&mqtt.Subscribe{PacketID: c.NextID(), Filters: []mqtt.Subscription{{Filter: full, QoS: 2}, {Filter: full, QoS: 0}, {Filter: full, QoS: 1}}})
		if !slices.Equal(codes, []mqtt.ReasonCode{2, 0, 1}) {
			c.Fatalf("codes %v, want 2, 0, 1", codes)
		}
		pub := publisher(t)
		pub.Publish(topic, 2, "1")
		p := c.ExpectPublish(topic, "1") // one subscription: one copy
		if p.QoS != 1 {
			c.Fatalf("QoS %d, want the last one's 1", p.QoS)
		}
		c.Ack(p)
		c.ExpectNothing()
		a := c.Unsubscribe(topic, topic, topic+"/never")
		if v >= mqtt.V5 && !slices.Equal(a.Codes, []mqtt.ReasonCode{mqtt.Success, mqtt.NoSubscriptionExisted, mqtt.NoSubscriptionExisted}) {
			c.Fatalf("codes %v", a.Codes)
		}
	})
}

// One copy at the highest granted QoS, with the identifiers of all that match.
func TestOverlappingSubscriptionsMakeOneCopy(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.3.4-2", "5 MQTT-3.3.4-3", "5 MQTT-3.3.4-4", "5 MQTT-3.3.2-3", "3.1.1 MQTT-3.3.5-1", "3.1.1 MQTT-3.3.2-3")
	each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
		for _, o := range []func(*mqtt.Connect){all(), persistent} {
			topic := topicOf()
			c := broker.Connect(t, v, "dev-b", o)
			for i, filter := range []string{topic + "/a", topic + "/+", topic + "/#", topic + "/b"} {
				c.Subscribe(filter, []byte{0, 2, 1, 2}[i], func(p *mqtt.Subscribe) {
					if v >= mqtt.V5 {
						p.SubscriptionID = []uint32{1, 268_435_455, 0, 3}[i]
					}
				})
			}
			publisher(t).Publish(topic+"/a", 2, "1")
			p := c.ExpectPublish(topic+"/a", "1")
			if p.QoS != 2 {
				c.Fatalf("QoS %d, want the highest granted, 2", p.QoS)
			}
			ids := slices.Sorted(slices.Values(p.SubscriptionIDs))
			if v >= mqtt.V5 && !slices.Equal(ids, []uint32{1, 268_435_455}) {
				c.Fatalf("subscription identifiers %v, want those of the two that match and have one", ids)
			}
			c.Ack(p)
			publisher(t).Publish(topic+"/c/d", 1, "2")
			p = c.ExpectPublish(topic+"/c/d", "2")
			if len(p.SubscriptionIDs) != 0 || p.QoS != 1 {
				c.Fatalf("identifiers %v, QoS %d; want none and 1", p.SubscriptionIDs, p.QoS)
			}
			c.Ack(p)
			c.ExpectNothing()
		}
	})
}

func TestSubscriptionIdentifiersFollowTheirSubscription(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.3.4-3", "5 MQTT-3.8.4-3")
	id := func(n uint32) func(*mqtt.Subscribe) { return func(p *mqtt.Subscribe) { p.SubscriptionID = n } }
	topic := topicOf()
	retained := retainedTopic()
	publisher(t).Publish(retained, 1, "1")
	c := broker.Connect(t, mqtt.V5, "dev-b", persistent)
	c.AutoAck = true
	check := func(topic, payload string, want ...uint32) {
		t.Helper()
		if p := c.ExpectPublish(topic, payload); !slices.Equal(slices.Sorted(slices.Values(p.SubscriptionIDs)), want) {
			c.Fatalf("identifiers %v, want %v", p.SubscriptionIDs, want)
		}
	}
	c.Subscribe(retained, 1, id(7))
	check(retained, "1", 7)
	c.Subscribe(topic, 1, id(8))
	publisher(t).Publish(topic, 1, "a")
	check(topic, "a", 8)
	c.Drop()
	publisher(t).Publish(topic, 1, "away")
	c = c.Again(persistent)
	c.AutoAck = true
	check(topic, "away", 8)
	c.Subscribe(topic, 1, id(9))
	publisher(t).Publish(topic, 1, "b")
	check(topic, "b", 9)
	c.Subscribe(topic, 1)
	publisher(t).Publish(topic, 1, "c")
	check(topic, "c")
	// Two subscriptions may share an identifier; each match carries it.
	c.Subscribe(topic, 1, id(5))
	c.Subscribe(topic+"/#", 1, id(5))
	publisher(t).Publish(topic, 1, "d")
	check(topic, "d", 5, 5)
}

func TestNoLocalKeepsAClientsOwnMessagesFromIt(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.8.3-3")
	for _, o := range []func(*mqtt.Connect){all(), persistent} {
		topic := topicOf()
		c := broker.Connect(t, mqtt.V5, "dev-a", o)
		c.AutoAck = true
		noLocal := func(on bool) func(*mqtt.Subscribe) {
			return func(p *mqtt.Subscribe) { p.Filters[0].NoLocal = on }
		}
		c.Subscribe(topic, 1, noLocal(true))
		sameUser := broker.Connect(t, mqtt.V5, "dev-a") // another client identifier
		c.Publish(topic, 1, "own")
		sameUser.Publish(topic, 1, "other")
		c.ExpectPublish(topic, "other")
		// A subscription without it delivers.
		c.Subscribe(topic+"/#", 1, noLocal(false))
		c.Publish(topic, 1, "both")
		c.ExpectPublish(topic, "both")
		c.Unsubscribe(topic + "/#")
		c.Subscribe(topic, 1, noLocal(false))
		c.Publish(topic, 1, "again")
		c.ExpectPublish(topic, "again")
	}
}

func TestUNSUBSCRIBEEndsExactlyTheFilterItNames(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-2.2.1-6", "5 MQTT-3.10.4-1", "5 MQTT-3.10.4-2", "5 MQTT-3.10.4-4", "5 MQTT-3.10.4-5", "5 MQTT-3.11.3-1", "5 MQTT-3.11.3-2",
		"3.1.1 MQTT-2.3.1-7", "3.1.1 MQTT-3.10.4-1", "3.1.1 MQTT-3.10.4-2", "3.1.1 MQTT-3.10.4-4", "3.1.1 MQTT-3.10.4-5")
	each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
		for _, o := range []func(*mqtt.Connect){all(), persistent} {
			topic := topicOf()
			c := broker.Connect(t, v, "dev-b", o)
			c.AutoAck = true
			for _, f := range []string{topic + "/a", topic + "/b", topic + "/end"} {
				c.Subscribe(f, 1)
			}
			filters := []string{topic + "/+", topic + "/A", topic + "/a", topic + "/a/", strings.Replace(topic, "raw", "Raw", 1) + "/b"}
			for _, id := range []uint16{300, 301} {
				p := &mqtt.Unsubscribe{PacketID: id}
				for _, f := range filters {
					p.Filters = append(p.Filters, c.Topic(f))
				}
				c.Send(p)
				a := mqtttest.Expect[mqtt.Unsuback](c)
				want := []mqtt.ReasonCode{mqtt.NoSubscriptionExisted, mqtt.NoSubscriptionExisted, mqtt.Success, mqtt.NoSubscriptionExisted, mqtt.NoSubscriptionExisted}
				if id == 301 {
					want[2] = mqtt.NoSubscriptionExisted
				}
				if a.PacketID != id || v >= mqtt.V5 && !slices.Equal(a.Codes, want) {
					c.Fatalf("UNSUBACK for %d with %v, want %d and %v", a.PacketID, a.Codes, id, want)
				}
			}
			pub := publisher(t)
			for _, below := range []string{"/a", "/b", "/end"} {
				pub.Publish(topic+below, 1, "1")
			}
			c.ExpectPublish(topic+"/b", "1")
			c.ExpectPublish(topic+"/end", "1")
		}
	})
}

func TestUNSUBSCRIBELetsStartedDeliveriesFinish(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.10.4-3", "3.1.1 MQTT-3.10.4-3")
	each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
		topic := topicOf()
		c := broker.Connect(t, v, "dev-b", persistent)
		c.Subscribe(topic, 2)
		pub := publisher(t)
		pub.Publish(topic, 1, "one")
		pub.Publish(topic, 2, "two")
		pub.Publish(topic, 2, "three")
		one, two, three := c.ExpectPublish(topic, "one"), c.ExpectPublish(topic, "two"), c.ExpectPublish(topic, "three")
		c.Send(&mqtt.Ack{Type: mqtt.PUBREC, PacketID: two.PacketID})
		c.ExpectAck(mqtt.PUBREL, two.PacketID, mqtt.Success)
		c.Unsubscribe(topic)
		c.Send(&mqtt.Ack{Type: mqtt.PUBREC, PacketID: three.PacketID})
		c.ExpectAck(mqtt.PUBREL, three.PacketID, mqtt.Success)
		c.Drop()
		c = c.Again(persistent)
		if p := c.ExpectPublish(topic, "one"); p.PacketID != one.PacketID || !p.Dup {
			c.Fatalf("id %d, DUP %v; want %d and true", p.PacketID, p.Dup, one.PacketID)
		}
		for _, p := range []*mqtt.Publish{two, three} {
			c.ExpectAck(mqtt.PUBREL, p.PacketID, mqtt.Success)
			c.Send(&mqtt.Ack{Type: mqtt.PUBCOMP, PacketID: p.PacketID})
		}
		c.Ack(one)
		pub.Publish(topic, 1, "new")
		c.ExpectNothing()
		c.Disconnect()
		c.Again(persistent).ExpectNothing()
	})
}

func TestWildcardsMatchWholeLevels(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.3.2-3", "5 MQTT-4.7.1-1", "5 MQTT-4.7.1-2", "5 MQTT-4.7.3-4", "3.1.1 MQTT-3.3.2-3", "3.1.1 MQTT-3.8.3-2", "3.1.1 MQTT-4.7.1-2", "3.1.1 MQTT-4.7.1-3", "3.1.1 MQTT-4.7.3-4")
	each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
		topic := topicOf()
		pub := broker.Connect(t, v, "dev-a")
		names := []string{"", "/a", "/a/b", "/a/b/c", "//b", "/a/", "/A", "/\u00e9", "/e\u0301", "/a b", "/$x"}
		for filter, matches := range map[string][]string{
			"/#":      {"", "/a", "/a/b", "/a/b/c", "//b", "/a/", "/A", "/\u00e9", "/e\u0301", "/a b", "/$x"},
			"/+":      {"/a", "/A", "/\u00e9", "/e\u0301", "/a b", "/$x"},
			"/+/b":    {"/a/b", "//b"},
			"/a/#":    {"/a", "/a/b", "/a/b/c", "/a/"},
			"/a/+":    {"/a/b", "/a/"},
			"/+/+":    {"/a/b", "//b", "/a/"},
			"/+/b/#":  {"/a/b", "/a/b/c", "//b"},
			"/a":      {"/a"},
			"/\u00e9": {"/\u00e9"}, // composed and decomposed are different names
			"/a/":     {"/a/"},
			"":        {""},
		} {
			c := broker.Connect(t, v, "dev-b")
			c.Subscribe(topic+filter, 0)
			for _, name := range names {
				pub.Publish(topic+name, 1, name)
			}
			for _, name := range matches {
				c.ExpectPublish(topic+name, name)
			}
			c.ExpectNothing()
			c.Drop()
		}
	})
}

// The filter "#" is everything the client may read: its own workspace, no inbox,
// nothing that begins with $.
func TestAWildcardFirstFilterReachesTheOwnWorkspaceOnly(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-4.7.2-1", "3.1.1 MQTT-4.7.2-1")
	each(t, []mqtt.Version{mqtt.V311, mqtt.V5}, func(t *testing.T, v mqtt.Version) {
		for _, filter := range []string{"#", "+/#", "+/office/#"} {
			topic := topicOf()
			c := broker.Connect(t, v, "other")
			codes := c.SubscribeAll(&mqtt.Subscribe{PacketID: c.NextID(), Filters: []mqtt.Subscription{{Filter: filter}}})
			if codes[0] != mqtt.GrantedQoS0 {
				c.Fatalf("%q: %s, want it granted", filter, codes[0].Error())
			}
			publisher(t).Publish(topic, 1, "plant's")
			broker.Connect(t, v, "other").Publish(topic, 1, "own")
			for { // what the tests beside this one publish in the workspace comes too
				p := mqtttest.Expect[mqtt.Publish](c)
				if !strings.HasPrefix(string(p.Topic), mqtttest.Data("office", "")) || strings.Contains(string(p.Topic), "_ingress") {
					c.Fatalf("got %q", p.Topic)
				}
				if string(p.Topic) == c.Topic(topic) {
					break
				}
			}
		}
		c := broker.Connect(t, v, "other")
		for _, filter := range []string{"$SYS/#", "$SYS/broker/+", "$x"} {
			if code := c.TrySubscribe(filter, 0); code < mqtt.UnspecifiedError {
				c.Fatalf("%q granted", filter)
			}
		}
	})
}

func TestAFilterBeyondTheLimitsIsRefused(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.8.4-7", "5 MQTT-4.7.3-3", "3.1.1 MQTT-4.7.3-3")
	each(t, []mqtt.Version{mqtt.V311, mqtt.V5}, func(t *testing.T, v mqtt.Version) {
		c := broker.Connect(t, v, "dev-b")
		for filter, want := range map[string]mqtt.ReasonCode{
			strings.Repeat("x", broker.Config.Limits.MaxTopicBytes):         mqtt.TopicFilterInvalid,
			strings.Repeat("x", 65000):                                      mqtt.TopicFilterInvalid,
			strings.Repeat("a/", broker.Config.Limits.MaxTopicLevels) + "a": mqtt.TopicFilterInvalid,
		} {
			if v < mqtt.V5 {
				want = mqtt.UnspecifiedError
			}
			if got := c.TrySubscribe(filter, 0); got != want {
				c.Fatalf("filter of %d bytes: %s, want %s", len(filter), got.Error(), want.Error())
			}
		}
	})
}

// The longest name there is: 65,535 bytes. The broker's own bound refuses it, the
// connection goes on.
func TestTheLongestNameIsReadAndRefused(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-4.7.3-3", "3.1.1 MQTT-4.7.3-3")
	each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
		c := broker.Connect(t, v, "dev-a")
		name := mqtttest.Inbox("dev-a", "")
		name += strings.Repeat("x", 65535-len(name))
		want := mqtt.TopicNameInvalid
		if v < mqtt.V5 {
			want = mqtt.Success
		}
		if got := c.TryPublish("", 1, "1", func(p *mqtt.Publish) { p.Topic = []byte(name) }); got != want {
			c.Fatalf("%s, want %s", got.Error(), want.Error())
		}
	})
}

func TestManySubscriptionsOfOneClient(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.8.4-6", "3.1.1 MQTT-3.8.4-5")
	each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
		topic := topicOf()
		c := broker.Connect(t, v, "dev-b")
		p := &mqtt.Subscribe{PacketID: 1}
		for i := range 500 {
			p.Filters = append(p.Filters, mqtt.Subscription{Filter: c.Topic(fmt.Sprintf("%s/%d", topic, i)), QoS: byte(i % 3)})
		}
		for i, code := range c.SubscribeAll(p) {
			if code != mqtt.ReasonCode(i%3) {
				c.Fatalf("code %d is %s", i, code.Error())
			}
		}
	})
}
