package cluster

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/state/memory"
)

// stock is a shared state written by hand: how many seconds ago things happened.
type stock struct {
	Stock
	revision uint64
	ended    map[Incarnation]Ending
}

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func ago(seconds int) time.Time { return noon.Add(-time.Duration(seconds) * time.Second) }

func newStock() *stock {
	return &stock{Stock: Stock{map[string]Stored[Owner]{}, map[string]Stored[*Session]{}, map[string]Stored[*Cursor]{},
		map[string]Stored[*Received]{}, map[string]Stored[*Will]{}, map[string]Stored[*Route]{}, map[string]time.Time{}, map[string]bool{}},
		ended: map[Incarnation]Ending{life1("dead", 1): EndedGone}}
}

func (s *stock) next() uint64 { s.revision++; return s.revision }

func (s *stock) owner(client string, o Owner, endedAgo int) {
	if o.Ending != Held {
		o.Ended = ago(endedAgo).UnixNano()
	}
	s.Owners[client] = Stored[Owner]{o, s.next(), noon}
}

func (s *stock) session(client string, n byte, expiry uint32) {
	s.Sessions[client] = Stored[*Session]{&Session{ID: id(n), Expiry: expiry}, s.next(), ago(100000)}
}

func (s *stock) decide(w *Sweep, at time.Time) []string {
	var got []string
	for _, a := range w.Decide(at, 1, &s.Stock, func(i Incarnation) Ending { return s.ended[i] }) {
		if a.Write.Revision == 0 || a.Write.Op != state.OpDelete && a.Write.Op != state.OpUpdate {
			panic(fmt.Sprintf("an unconditional write: %+v", a))
		}
		got = append(got, fmt.Sprintf("%v %s %s @%d", a.Reason, a.Bucket, a.Write.Key, a.Write.Revision))
	}
	return got
}

func newSweep() *Sweep { return &Sweep{Grace: 30 * time.Second, Most: time.Hour, Offline: 100} }

func expectActs(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("decides %q, want %q", got, want)
	}
}

func TestWhatAnEndedIncarnationHeldIsMarked(t *testing.T) {
	s := newStock()
	s.owner("lives", Owner{Incarnation: life1("alive", 1)}, 0)
	s.owner("left", Owner{Incarnation: life1("dead", 1), Ending: Left}, 5)
	s.owner("killed", Owner{Connection: id(4), Incarnation: life1("dead", 1)}, 0)
	s.session("killed", 1, 3600)
	expectActs(t, s.decide(newSweep(), noon), "mark_ended mqtt-sessions killed @3")
	a := newSweep().Decide(noon, 1, &s.Stock, func(i Incarnation) Ending { return s.ended[i] })[0]
	if o, err := DecodeOwner(a.Write.Value); err != nil || o.Ending != EndedGone || o.Connection != id(4) || o.Ended != noon.UnixNano() {
		t.Errorf("marked as %+v, %v", o, err)
	}
}

func TestASessionEndsWhenItsExpiryIsOver(t *testing.T) {
	s := newStock()
	s.owner("connected", Owner{Incarnation: life1("alive", 1)}, 0)
	s.session("connected", 1, 1)
	s.owner("soon", Owner{Ending: Lost}, 59)
	s.session("soon", 2, 60)
	s.owner("over", Owner{Ending: Lost}, 60)
	s.session("over", 3, 60)
	s.owner("bounded", Owner{Ending: Left}, 3600)
	s.session("bounded", 4, 0xFFFFFFFF)
	s.owner("killed", Owner{Incarnation: life1("dead", 1)}, 0)
	s.session("killed", 5, 1)
	expectActs(t, s.decide(newSweep(), noon),
		"mark_ended mqtt-sessions killed @9",
		"expired mqtt-session-state bounded @8", "expired mqtt-session-state over @6")
}

// A device that was back in time, by its CONNECT, keeps its session for as long as that is
// under way, however long the store takes over it.
func TestASessionDoesNotEndUnderAConnectThatWasInTime(t *testing.T) {
	s := newStock()
	for n, client := range []string{"in time", "late", "away", "before"} {
		s.owner(client, Owner{Ending: Lost}, 65)
		s.session(client, byte(n), 60)
	}
	s.Arrived["in time"], s.Arrived["late"] = ago(6), ago(5)
	s.Arrived["before"] = ago(66) // by which the connection was made that has ended
	expectActs(t, s.decide(newSweep(), noon), "expired mqtt-session-state away @6", "expired mqtt-session-state before @8", "expired mqtt-session-state late @4")
	w := newSweep()
	w.Offline = 0 // nor is it a surplus
	s.Arrived["late"], s.Arrived["away"], s.Arrived["before"] = ago(7), ago(7), ago(7)
	expectActs(t, s.decide(w, noon))
}

// How long a session was offline is counted by this replica's own clock where it saw the
// end: that of whoever wrote it may be wrong, either way.
func TestTheClockOfAnotherReplicaEndsNoSession(t *testing.T) {
	s, w := newStock(), newSweep()
	for n, client := range []string{"behind", "ahead", "unseen"} {
		s.owner(client, Owner{Ending: Lost}, []int{600, -600, 60}[n])
		s.session(client, byte(n), 60)
	}
	w.Since = func(client string, _ *Owner) (time.Time, bool) { return ago(10), client != "unseen" }
	expectActs(t, s.decide(w, noon), "expired mqtt-session-state unseen @6")
	expectActs(t, s.decide(w, noon.Add(50*time.Second)),
		"expired mqtt-session-state ahead @4", "expired mqtt-session-state behind @2", "expired mqtt-session-state unseen @6")
}

// The owners' bucket is "rebuilt": without it no session may end at once.
func TestASessionWithoutAnOwnerCountsFromWhenItWasSeen(t *testing.T) {
	s, w := newStock(), newSweep()
	s.session("kept", 1, 60)
	expectActs(t, s.decide(w, noon))
	expectActs(t, s.decide(w, noon.Add(59*time.Second)))
	expectActs(t, s.decide(w, noon.Add(60*time.Second)), "expired mqtt-session-state kept @1")
	// Back in between, it begins anew.
	s, w = newStock(), newSweep()
	s.session("kept", 1, 60)
	expectActs(t, s.decide(w, noon))
	s.owner("kept", Owner{Incarnation: life1("alive", 1)}, 0)
	expectActs(t, s.decide(w, noon.Add(50*time.Second)))
	delete(s.Owners, "kept")
	expectActs(t, s.decide(w, noon.Add(70*time.Second)))
}

// B8: 500 sessions of a killed replica are not a surplus: they are on their way back.
func TestTheSurplusIsWhatIsOfflineForLongerThanTheGrace(t *testing.T) {
	s, w := newStock(), newSweep()
	for i := range 500 {
		client := fmt.Sprintf("dev-%03d", i)
		s.owner(client, Owner{Incarnation: life1("dead", 1)}, 0)
		s.session(client, 1, 3600)
	}
	acts := w.Decide(noon, 1, &s.Stock, func(i Incarnation) Ending { return s.ended[i] })
	if len(acts) != 500 || acts[499].Reason != MarkEnded {
		t.Fatalf("%d acts, last %v", len(acts), acts[len(acts)-1])
	}
	for _, a := range acts {
		o, _ := DecodeOwner(a.Write.Value)
		s.Owners[a.Client] = Stored[Owner]{o, s.next(), noon}
	}
	expectActs(t, s.decide(w, noon.Add(30*time.Second)))
	if got := s.decide(w, noon.Add(31*time.Second)); len(got) != 400 {
		t.Fatalf("%d ended beyond the 100 allowed, want 400", len(got))
	}
}

func TestTheSurplusEndsThoseOfflineLongest(t *testing.T) {
	s, w := newStock(), newSweep()
	w.Offline = 2
	for i, seconds := range []int{40, 400, 31, 300, 10, 20} {
		client := fmt.Sprintf("dev-%d", i)
		s.owner(client, Owner{Ending: Lost}, seconds)
		s.session(client, 1, 3600)
	}
	expectActs(t, s.decide(w, noon), "offline_limit mqtt-session-state dev-1 @4", "offline_limit mqtt-session-state dev-3 @8")
}

// Whose API client was deleted does not come back, whenever it left and whatever CONNECT
// under its name is under way. While its connection is open it is the owner's to end.
func TestASessionEndsWithItsIdentity(t *testing.T) {
	s := newStock()
	for n, client := range []string{"away", "returning", "connected", "stays"} {
		ending := Lost
		if client == "connected" {
			ending = Held
		}
		s.owner(client, Owner{Ending: ending, Incarnation: life1("alive", 1)}, 1)
		s.session(client, byte(n), 3600)
		s.Sessions[client].Record.Identity = "guest"
	}
	s.session("ownerless", 9, 3600)
	s.Sessions["ownerless"].Record.Identity = "guest"
	s.Sessions["stays"].Record.Identity = "press-7"
	s.Arrived["returning"] = ago(0)
	s.Cursors["away"] = Stored[*Cursor]{&Cursor{Session: id(0)}, s.next(), noon}
	s.Deleted["guest"], s.Deleted["press-7"] = true, false
	expectActs(t, s.decide(newSweep(), noon), "client_deleted mqtt-session-state away @2",
		"client_deleted mqtt-session-state ownerless @9", "client_deleted mqtt-session-state returning @4")
	for _, a := range newSweep().Decide(noon, 1, &s.Stock, func(i Incarnation) Ending { return s.ended[i] }) {
		if a.Session == nil || (a.Cursor != nil) != (a.Client == "away") {
			t.Errorf("%s ends without what others inherit: %+v", a.Client, a)
		}
	}
}

// B12: a cursor or packet ids of an earlier life must not stay for a later session of
// the client id; but a new session writes its cursor before its state.
func TestLeftoversGoOnceNoWriteUnderWayCanBeTheirs(t *testing.T) {
	s := newStock()
	s.session("dev", 1, 3600)
	s.owner("dev", Owner{Incarnation: life1("alive", 1), Connection: id(5)}, 0)
	s.Cursors["dev"] = Stored[*Cursor]{&Cursor{Session: id(1)}, s.next(), ago(90000)}
	s.Received["dev"] = Stored[*Received]{&Received{Session: id(2)}, s.next(), ago(3600)}
	s.Cursors["new"] = Stored[*Cursor]{&Cursor{Session: id(3)}, s.next(), ago(3599)}
	s.Cursors["none"] = Stored[*Cursor]{&Cursor{Session: id(3)}, s.next(), ago(3601)}
	s.Wills["w1"] = Stored[*Will]{&Will{Client: "dev", Connection: id(5)}, s.next(), ago(90000)}
	s.Wills["w2"] = Stored[*Will]{&Will{Client: "dev", Connection: id(6)}, s.next(), ago(3601)}
	s.Wills["w3"] = Stored[*Will]{&Will{Client: "dev", Connection: id(7)}, s.next(), ago(10)}
	s.Wills["w4"] = Stored[*Will]{&Will{Client: "nobody", Connection: id(8)}, s.next(), ago(90000)}
	expectActs(t, s.decide(newSweep(), noon),
		"leftover mqtt-session-qos2 dev @4", "leftover mqtt-session-cursor none @6", "will_forgotten mqtt-session-will w2 @8")
}

func TestRoutesOfAnEndedIncarnationGo(t *testing.T) {
	s := newStock()
	for _, r := range []*Route{{Incarnation: life1("alive", 1), Filter: "a"}, {Incarnation: life1("dead", 1), Filter: "b/#"}} {
		s.Routes[RouteKey(r.Incarnation, r.Filter)] = Stored[*Route]{r, s.next(), noon}
	}
	expectActs(t, s.decide(newSweep(), noon), fmt.Sprintf("route_forgotten mqtt-routes %s/b/# @2", life1("dead", 1).ID))
}

func TestAnOwnerIsForgottenWhenNothingOfItCanMatter(t *testing.T) {
	s := newStock()
	s.owner("old", Owner{Ending: Left}, 7200)
	s.owner("young", Owner{Ending: Left}, 7199)
	s.owner("session", Owner{Ending: Lost}, 8000)
	s.session("session", 1, 0xFFFFFFFF)
	got := s.decide(newSweep(), noon)
	expectActs(t, got, "expired mqtt-session-state session @4", "owner_forgotten mqtt-sessions old @1")
}

// Sweeper against a returning device: one conditional write wins, whichever it is.
func TestASweepThatComesLateDoesNothing(t *testing.T) {
	store, err := memory.Open(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	b, _ := store.Bucket(t.Context(), state.SessionState)
	session := &Session{ID: id(1), Expiry: 60}
	revision, _ := b.Create(t.Context(), "dev", session.Encode(1))
	s := newStock()
	s.owner("dev", Owner{Ending: Lost}, 61)
	s.Sessions["dev"] = Stored[*Session]{session, revision, noon}
	acts := newSweep().Decide(noon, 1, &s.Stock, func(Incarnation) Ending { return Held })
	// The device takes its session up meanwhile.
	if _, err := b.Update(t.Context(), "dev", session.Encode(1), revision); err != nil {
		t.Fatal(err)
	}
	if r := b.Apply(t.Context(), []state.Write{acts[0].Write})[0]; r.Err == nil {
		t.Error("the session of a device that is back was ended")
	}
}
