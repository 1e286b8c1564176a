package jetstream_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"maestrohub.io/uns/broker/state"
)

func contextFor(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}

// next takes a watch's next update.
func next(t *testing.T, w state.Watch) state.Update {
	t.Helper()
	select {
	case u, ok := <-w.Updates():
		if !ok {
			t.Fatal("the watch ended")
		}
		return u
	case <-time.After(20 * time.Second):
		t.Fatal("the watch said nothing for 20 s")
	}
	return state.Update{}
}

// republish turns a stream's republishing off: all messages to its followers
// are lost from then on.
func stopRepublishing(t *testing.T, s *site, account, stream string) {
	t.Helper()
	nc, err := nats.Connect(s.URL(account))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	cfg := config(t, s, account, stream)
	delete(cfg, "republish")
	body, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	m, err := nc.RequestWithContext(t.Context(), "$JS.API.STREAM.UPDATE."+stream, body)
	if err != nil {
		t.Fatal(err)
	}
	if _, still := config(t, s, account, stream)["republish"]; still {
		t.Fatalf("%s still republishes: %s", stream, m.Data)
	}
}

func TestChangesWhoseMessagesWereLostAreFound(t *testing.T) {
	site := sharedSite(t)
	account := site.account(t)
	store := site.open(t, account, nil)
	bucket, err := store.Bucket(t.Context(), state.Routes)
	if err != nil {
		t.Fatal(err)
	}
	watch, err := bucket.Watch(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if u := next(t, watch); !u.Ready {
		t.Fatalf("first update %+v", u)
	}
	log, err := store.Log(t.Context(), "ws")
	if err != nil {
		t.Fatal(err)
	}
	tail := log.Tail(0)
	defer tail.Stop()
	if _, err := log.Append(t.Context(), [][]byte{[]byte("seen")}); err != nil {
		t.Fatal(err)
	}
	if _, err := tail.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	stopRepublishing(t, site, account, "KV_mqtt-routes")
	stopRepublishing(t, site, account, "LOG_mqtt-sessions-ws")
	for i := range 3 {
		if _, err := bucket.Put(t.Context(), fmt.Sprint(i), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := log.Append(t.Context(), [][]byte{fmt.Append(nil, i)}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		if u := next(t, watch); u.Key != fmt.Sprint(i) {
			t.Fatalf("update %+v, want key %d", u, i)
		}
	}
	for got := 0; got < 3; {
		entries, err := tail.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if string(e.Data) != fmt.Sprint(got) {
				t.Fatalf("tail gave %q, want %d", e.Data, got)
			}
			got++
		}
	}
	// A change that was replaced before it could be read is a loss, and said.
	for i := range 3 {
		if _, err := bucket.Put(t.Context(), "same", fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	lost := false
	for {
		u := next(t, watch)
		lost = lost || u.Lost
		if u.Key == "same" && string(u.Value) == "2" {
			break
		}
	}
	if !lost {
		t.Error("two changes were replaced unread and the watch did not say Lost")
	}
}

func TestAWatchOfABucketMadeAnewStartsAgain(t *testing.T) {
	site := sharedSite(t)
	account := site.account(t)
	bucket, err := site.open(t, account, nil).Bucket(t.Context(), state.Routes)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if _, err := bucket.Put(t.Context(), fmt.Sprint("old-", i), nil); err != nil {
			t.Fatal(err)
		}
	}
	watch, err := bucket.Watch(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for !next(t, watch).Ready {
	}
	site.dropStreams(account)
	again, err := site.open(t, account, nil).Bucket(t.Context(), state.Routes)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := again.Put(t.Context(), "new", nil); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{"old-0": true}
	for ready := false; !ready || !known["new"]; {
		u := next(t, watch)
		switch {
		case u.Lost:
			known, ready = map[string]bool{}, false
		case u.Ready:
			ready = true
		default:
			known[u.Key] = !u.Deleted
		}
	}
	if known["old-0"] {
		t.Error("the old bucket's records are still known")
	}
}

func TestTheProbesEchoFollowsWhatWasWrittenBeforeIt(t *testing.T) {
	site := sharedSite(t)
	account := site.account(t)
	store, other := site.open(t, account, nil), site.open(t, account, nil)
	bucket, err := store.Bucket(t.Context(), state.SessionState)
	if err != nil {
		t.Fatal(err)
	}
	watch, err := bucket.Watch(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for !next(t, watch).Ready {
	}
	theirs, err := other.Bucket(t.Context(), state.SessionState)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		written, err := theirs.Put(t.Context(), "client", nil)
		if err != nil {
			t.Fatal(err)
		}
		probe, err := store.ProbeAt(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for last := uint64(0); last < probe; {
			u := next(t, watch)
			if u.Revision > written && last < written {
				t.Fatalf("update %d came and %d of before the probe did not", u.Revision, written)
			}
			last = u.Revision
		}
	}
}
