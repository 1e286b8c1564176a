package session

import (
	"slices"
	"testing"

	"maestrohub.io/uns/broker/value"
)

func TestOverlappingSubscriptionsMakeOneCopy(t *testing.T) {
	v := &value.Value{Name: "mHv1.0/w/t", QoS: 2, Retain: true, ClientID: "publisher"}
	cases := []struct {
		name   string
		subs   []*Subscription
		client string
		want   Effect
		ok     bool
	}{
		{"the highest granted QoS counts", []*Subscription{{QoS: 0}, {QoS: 1}}, "s", Effect{QoS: 1}, true},
		{"never above the value's", []*Subscription{{QoS: 2}}, "s", Effect{QoS: 2}, true},
		{"all identifiers are carried", []*Subscription{{ID: 3}, {}, {ID: 7}}, "s", Effect{IDs: []uint32{3, 7}}, true},
		{"retain as published of any", []*Subscription{{}, {RetainAsPublished: true}}, "s", Effect{Retain: true}, true},
		{"no local leaves out the publisher", []*Subscription{{NoLocal: true}}, "publisher", Effect{}, false},
		{"no local of one does not speak for another", []*Subscription{{NoLocal: true, QoS: 2, ID: 1}, {QoS: 1, ID: 2}}, "publisher", Effect{QoS: 1, IDs: []uint32{2}}, true},
		{"a later subscription is not for an earlier entry", []*Subscription{{Since: 11, QoS: 2}}, "s", Effect{}, false},
		{"covered by one is covered", []*Subscription{{}, {Covered: true}}, "s", Effect{Covered: true}, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, ok := Effective(c.subs, v, 10, c.client)
			if ok != c.ok || got.QoS != c.want.QoS || got.Retain != c.want.Retain || got.Covered != c.want.Covered || !slices.Equal(got.IDs, c.want.IDs) {
				t.Fatalf("%+v, %v; want %+v, %v", got, ok, c.want, c.ok)
			}
		})
	}
}

func TestARestWriteIsNobodysOwn(t *testing.T) {
	if _, ok := Effective([]*Subscription{{NoLocal: true}}, &value.Value{}, Live, ""); !ok {
		t.Fatal("No Local held back a value without a client identifier")
	}
}

func TestReplacingASubscriptionKeepsItsPlaceInTheLog(t *testing.T) {
	var s Session
	s.Subscribe(&Subscription{Filter: "a/#", Bare: "a/#", Since: 5})
	if old := s.Subscribe(&Subscription{Filter: "a/#", Bare: "a/#", Since: 9, QoS: 2}); old == nil {
		t.Fatal("the identical filter did not replace [MQTT-3.8.4-3]")
	}
	if sub := s.Subscription("a/#"); sub.Since != 5 || sub.QoS != 2 || s.Len() != 1 {
		t.Fatalf("%+v and %d subscriptions, want Since kept at 5", sub, s.Len())
	}
	if s.Unsubscribe("A/#") != nil || s.Unsubscribe("a/#") == nil || s.Len() != 0 {
		t.Fatal("UNSUBSCRIBE compares byte for byte [MQTT-3.10.4-1]")
	}
}

// [MQTT-3.8.4-4]
func TestWhatAReplacedSubscriptionWasForIsItsStill(t *testing.T) {
	type options struct {
		qos     byte
		noLocal bool
	}
	const own, other = "me", "publisher"
	cases := []struct {
		name     string
		options  []options // one after the other, each replaced at position 10, 20 ...
		position uint64
		from     string
		qos      byte
		ok       bool
	}{
		{"before a lower QoS", []options{{qos: 1}, {qos: 0}}, 9, other, 1, true},
		{"from it on", []options{{qos: 1}, {qos: 0}}, 10, other, 0, true},
		{"live", []options{{qos: 1}, {qos: 0}}, Live, other, 0, true},
		{"before a lower QoS that is not 0, which takes it too", []options{{qos: 2}, {qos: 1}}, 9, other, 1, true},
		{"before a higher QoS", []options{{qos: 1}, {qos: 2}}, 9, other, 2, true},
		{"before no local", []options{{qos: 1}, {qos: 1, noLocal: true}}, 9, own, 1, true},
		{"from no local on", []options{{qos: 1}, {qos: 1, noLocal: true}}, 10, own, 0, false},
		{"live, with no local", []options{{qos: 1}, {qos: 1, noLocal: true}}, Live, own, 0, false},
		{"of others, with no local", []options{{qos: 1}, {qos: 1, noLocal: true}}, 10, other, 1, true},
		{"with no local of old", []options{{qos: 1, noLocal: true}, {qos: 0, noLocal: true}}, 9, own, 0, false},
		{"replaced twice", []options{{qos: 2}, {qos: 0}, {qos: 0, noLocal: true}}, 9, own, 2, true},
		{"replaced twice, from the second on", []options{{qos: 2}, {qos: 0}, {qos: 0, noLocal: true}}, 20, own, 0, false},
		{"replaced by the same again", []options{{qos: 2}, {qos: 0}, {qos: 2}}, 9, own, 2, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := Session{ClientID: own, Persistent: true, Position: 5}
			for i, o := range c.options {
				s.Subscribe(&Subscription{Filter: "a", Bare: "a", QoS: o.qos, NoLocal: o.noLocal})
				if e := s.Subscription("a").Earlier; e != nil {
					e.Until = uint64(10 * i)
				}
			}
			e, ok := Effective([]*Subscription{s.Subscription("a")}, &value.Value{Name: "a", QoS: 2, ClientID: c.from, Position: 77}, c.position, own)
			if ok != c.ok || e.QoS != c.qos {
				t.Errorf("QoS %d, %v; want %d, %v", e.QoS, ok, c.qos, c.ok)
			}
		})
	}
}

// A value that comes live while a subscription is being replaced is one's alone.
func TestWhatCameLiveIsTheReplacingSubscriptions(t *testing.T) {
	s := Session{Persistent: true, Position: 5}
	s.Subscribe(&Subscription{Filter: "a", Bare: "a", QoS: 2})
	s.Subscribe(&Subscription{Filter: "a", Bare: "a"})
	subs := []*Subscription{s.Subscription("a")}
	before, after := &value.Value{Name: "a", QoS: 2, Position: 1}, &value.Value{Name: "a", QoS: 2, Position: 2}
	Decided(subs, after)
	for v, want := range map[*value.Value]byte{before: 2, after: 0} {
		if e, ok := Effective(subs, v, 6, "me"); !ok || e.QoS != want {
			t.Errorf("value %d from the log at QoS %d, %v; want %d", v.Position, e.QoS, ok, want)
		}
	}
	// Nothing waits for a subscription that was replaced before what the session has read.
	subs[0].Earlier.Until = 8
	s.Position = 8
	s.Subscribe(&Subscription{Filter: "a", Bare: "a", NoLocal: true})
	if e := s.Subscription("a").Earlier; e != nil {
		t.Errorf("%+v is left of what was replaced before", e)
	}
	// A clean session has no entries that wait.
	clean := Session{}
	clean.Subscribe(&Subscription{Filter: "a", Bare: "a", QoS: 2})
	clean.Subscribe(&Subscription{Filter: "a", Bare: "a"})
	if clean.Subscription("a").Earlier != nil {
		t.Error("a clean session's subscription keeps what it replaced")
	}
}

func TestASharedMessageIsTheChosenMembersOnly(t *testing.T) {
	s := Session{ClientID: "me"}
	s.Subscribe(&Subscription{Filter: "$share/g/w/#", Bare: "w/#", Share: "g"})
	s.Subscribe(&Subscription{Filter: "w/t", Bare: "w/t"})
	key := s.Subscription("$share/g/w/#").Key()
	v := &value.Value{Name: "w/t", Shares: []value.Share{{Key: key, Session: "other"}}}
	if got := s.Matching(nil, v); len(got) != 1 || got[0].Share != "" {
		t.Errorf("chosen is another: %d subscriptions match, want its own only", len(got))
	}
	v.Shares[0].Session = "me"
	if got := s.Matching(nil, v); len(got) != 2 || got[1].Share != "g" {
		t.Errorf("chosen: %d subscriptions match, want its own and the share, in this order", len(got))
	}
	v.Redirected = true
	if got := s.Matching(nil, v); len(got) != 1 || got[0].Share != "g" {
		t.Errorf("redirected: %d subscriptions match, want the share only", len(got))
	}
}

func TestAliasesAreGivenOnceAndNeverMoved(t *testing.T) {
	out := AliasOut{Maximum: 2}
	a, known := out.Alias("a")
	if a != 1 || known {
		t.Fatalf("first: %d, %v", a, known)
	}
	if again, known := out.Alias("a"); again != 1 || !known {
		t.Fatalf("again: %d, %v", again, known)
	}
	out.Alias("b")
	if c, _ := out.Alias("c"); c != 0 {
		t.Fatalf("a third topic got alias %d above the maximum of 2 [MQTT-3.3.2-11]", c)
	}
	in := AliasIn{Maximum: 5}
	in.Set(5, "x")
	in.Set(5, "y")
	if in.Topic(5) != "y" || in.Topic(4) != "" || in.Topic(6) != "" || in.Topic(0) != "" {
		t.Fatal("an inbound alias means what it was last set to, others nothing")
	}
}
