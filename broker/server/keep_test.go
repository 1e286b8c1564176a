package server

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"maestrohub.io/uns/broker/cluster"
	"maestrohub.io/uns/broker/metrics"
	"maestrohub.io/uns/broker/session"
	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/state/memory"
)

// alone is the membership of a replica without others.
type alone struct{}

func (alone) Floor() cluster.Format                     { return cluster.Oldest }
func (alone) Ending(cluster.Incarnation) cluster.Ending { return cluster.Held }
func (alone) Members() []cluster.Entry                  { return nil }
func (alone) Current(time.Time) bool                    { return true }
func (alone) Refused()                                  {}

// No fault from outside makes a session forget its subscriptions: here its memory is
// tampered with, between what the store has and the next write.
func TestAWriteThatWouldForgetASubscriptionKeepsIt(t *testing.T) {
	store, err := memory.Open(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	sessions, err := store.Bucket(t.Context(), state.SessionState)
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	s := &Server{metrics: metrics.New(), log: slog.New(slog.NewTextHandler(&said, nil))}
	s.shared = &shared{Cluster: Cluster{Replica: "uns-0", Member: alone{}}, server: s, sessions: sessions}
	kept := func() float64 {
		var m dto.Metric
		if err := s.metrics.SessionSubscriptionsKept.Write(&m); err != nil {
			t.Fatal(err)
		}
		return m.GetCounter().GetValue()
	}

	press := &client{id: "press"}
	c := &connection{server: s, client: press, lock: &press.lock, session: &session.Session{ClientID: "press", Expiry: 60}, ws: &workspace{server: s, slug: "plant"}}
	record := &cluster.Session{ID: cluster.NewID(), Identity: "press", Workspace: "plant", Expiry: 60}
	revision, err := sessions.Create(t.Context(), "press", record.Encode(cluster.Oldest))
	if err != nil {
		t.Fatal(err)
	}
	c.held = &holding{record: record, recordRevision: revision}
	stored := func() string {
		r, err := sessions.Get(t.Context(), "press")
		if err != nil {
			t.Fatal(err)
		}
		got, err := cluster.DecodeSession(r.Value)
		if err != nil {
			t.Fatal(err)
		}
		var filters []string
		for _, sub := range got.Subscriptions {
			filters = append(filters, sub.Filter)
		}
		return strings.Join(filters, " ")
	}
	save := func(want string, wantKept float64, named ...string) {
		t.Helper()
		if _, err := c.saveSession(t.Context(), named); err != nil {
			t.Fatal(err)
		}
		if got := stored(); got != want || kept() != wantKept {
			t.Errorf("after a write that names %q the store has %q and %v were kept, want %q and %v", named, got, kept(), want, wantKept)
		}
	}

	c.session.Subscribe(&session.Subscription{Filter: "a/#", Bare: "a/#", QoS: 1})
	c.session.Subscribe(&session.Subscription{Filter: "b/#", Bare: "b/#", QoS: 2})
	save("a/# b/#", 0, "a/#", "b/#") // a SUBSCRIBE
	c.session.Expiry = 30
	save("a/# b/#", 0) // a DISCONNECT with another expiry
	c.session.Unsubscribe("a/#")
	save("a/# b/#", 1)
	if !strings.Contains(said.String(), "broker cluster: a write would have changed a session's stored subscriptions") || !strings.Contains(said.String(), "a/#") {
		t.Errorf("the log does not say which subscription was kept: %s", said.String())
	}
	c.session.Subscribe(&session.Subscription{Filter: "c", Bare: "c", QoS: 1})
	save("a/# b/# c", 2, "c") // a SUBSCRIBE does not excuse what it does not name
	c.session.Subscribe(&session.Subscription{Filter: "a/#", Bare: "a/#", QoS: 1})
	c.session.Unsubscribe("c")
	save("a/# b/#", 2, "c") // an UNSUBSCRIBE
}
