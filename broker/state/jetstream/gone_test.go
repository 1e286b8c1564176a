package jetstream_test

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"maestrohub.io/uns/broker/backup"
	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/state/jetstream"
)

// everyBucket are the buckets a replica opens.
var everyBucket = []string{state.SessionState, state.SessionCursor, state.SessionWill, state.SessionQoS2, state.Retained, state.ClusterFloor,
	state.Sessions, state.Routes, state.Members, state.APIClients, state.Locks}

// openEverything opens all that a replica opens, and a session log.
func openEverything(t *testing.T, store *jetstream.Store) {
	t.Helper()
	for _, name := range everyBucket {
		if _, err := store.Bucket(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := store.Log(t.Context(), "ws"); err != nil {
		t.Fatal(err)
	}
}

// operator is a connection to an account, as an operator has one.
func operator(t *testing.T, s *site, account string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(s.URL(account))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// moveLeaders has every stream of an account led by another server.
func moveLeaders(t *testing.T, s *site, nc *nats.Conn) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for _, stream := range streams(t.Context(), nc) {
		before, err := s.Leader(t.Context(), nc, stream)
		if err != nil {
			t.Fatal(err)
		}
		for try, after := 0, before; after == before; try++ {
			if try%50 == 0 { // it may have been elected again
				if err := s.StepDown(t.Context(), nc, stream); err != nil {
					t.Fatal(err)
				}
			}
			<-tick.C
			ctx, cancel := contextFor(t, time.Second)
			if now, err := s.Leader(ctx, nc, stream); err == nil { // none, for a moment
				after = now
			}
			cancel()
		}
		t.Logf("%s was led by %s and is no more", stream, before.Name)
	}
}

// stayWhole probes for longer than a stream must be another one to be gone.
func stayWhole(t *testing.T, stores ...*jetstream.Store) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(jetstream.GoneFor + 2*time.Second); time.Now().Before(end); <-tick.C {
		for i, store := range stores {
			if err := store.Probe(t.Context()); err != nil {
				t.Fatalf("store %d: %v", i, err)
			}
		}
	}
}

// A stream that was restored from a backup is the same under each server that comes to
// lead it: the servers know other things of a restored stream than of one that was made,
// and not all the same.
func TestARestoredStreamIsTheSameUnderEveryLeader(t *testing.T) {
	t.Parallel()
	site := sharedSite(t)
	account := site.account(t)
	nc := operator(t, site, account)
	saving := backup.NewClient(nc, 0, t.Logf)
	dir := filepath.Join(t.TempDir(), "saved")

	first, err := jetstream.Open(jetstream.Options{Servers: site.URLs(account), Replica: "uns-0"})
	if err != nil {
		t.Fatal(err)
	}
	openEverything(t, first)
	log, err := first.Log(t.Context(), "ws")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.Append(t.Context(), [][]byte{{1}, {2}}); err != nil {
		t.Fatal(err)
	}
	if _, err := saving.Save(t.Context(), backup.SaveOptions{Dir: dir, Logs: true}); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := saving.Restore(t.Context(), backup.RestoreOptions{Dir: dir, Replace: true, Logs: true}); err != nil {
		t.Fatal(err)
	}

	stores := []*jetstream.Store{site.open(t, account, nil), site.open(t, account, nil)}
	for _, store := range stores {
		openEverything(t, store)
		if err := store.Probe(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // to each of the other servers
		moveLeaders(t, site, nc)
		stayWhole(t, stores...)
	}
	log, err = stores[0].Log(t.Context(), "ws")
	if err != nil {
		t.Fatal(err)
	}
	entries, err := log.Read(t.Context(), 0, 10, nil)
	if err != nil || !slices.EqualFunc(entries, []byte{1, 2}, func(e state.Entry, b byte) bool { return e.Data[0] == b }) {
		t.Errorf("the restored log has %v, error %v", entries, err)
	}
}

// A stream that is deleted and made again before anybody has listed the streams in between
// is another one: what a store knows of the old one's sequences fits it no more, and it
// would take the new one's records for older than its own.
func TestAStreamThatIsMadeAgainAtOnceIsGone(t *testing.T) {
	for stream, open := range map[string]func(state.Store) error{
		"KV_mqtt-sessions":      func(s state.Store) error { _, err := s.Bucket(t.Context(), state.Sessions); return err },
		"LOG_mqtt-sessions-one": func(s state.Store) error { _, err := s.Log(t.Context(), "one"); return err },
	} {
		for made, before := range map[string]bool{"by a replica": false, "by an older release": true} {
			t.Run(stream+" made "+made, func(t *testing.T) {
				t.Parallel()
				site := sharedSite(t)
				account := site.account(t)
				js, err := operator(t, site, account).JetStream(nats.MaxWait(time.Minute))
				if err != nil {
					t.Fatal(err)
				}
				if before { // which gives no stamp
					subjects := map[bool]string{true: "$KV.mqtt-sessions.>", false: "LOG.mqtt-sessions.one.>"}[strings.HasPrefix(stream, "KV_")]
					if _, err := js.AddStream(&nats.StreamConfig{Name: stream, Subjects: []string{subjects}, Replicas: 3, AllowDirect: true}); err != nil {
						t.Fatal(err)
					}
				}
				store := site.open(t, account, nil)
				if err := errors.Join(open(store), store.Probe(t.Context())); err != nil {
					t.Fatal(err)
				}
				if err := js.DeleteStream(stream); err != nil {
					t.Fatal(err)
				}
				other := site.open(t, account, nil)
				if err := open(other); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := contextFor(t, time.Minute)
				defer cancel()
				for err = nil; err == nil; { // until one of them asks it
					err = store.Probe(ctx)
				}
				if !errors.Is(err, state.ErrUnavailable) || !strings.Contains(err.Error(), stream) {
					t.Errorf("the probes say %v", err)
				}
				tick := time.NewTicker(100 * time.Millisecond)
				defer tick.Stop()
				for end := time.Now().Add(jetstream.GoneFor + 2*time.Second); time.Now().Before(end); <-tick.C {
					if err := store.Probe(ctx); err == nil {
						t.Fatal("it is not gone for good")
					}
					if err := other.Probe(ctx); err != nil {
						t.Fatalf("who made it again says %v", err)
					}
				}
			})
		}
	}
}

// Replicas that start at once make one stream of each name, and know it by one stamp.
func TestOfCreatorsAtOnceAllHaveOneStamp(t *testing.T) {
	t.Parallel()
	site := sharedSite(t)
	account := site.account(t)
	var stores []*jetstream.Store
	var all sync.WaitGroup
	for range 4 {
		store := site.open(t, account, nil)
		stores = append(stores, store)
		all.Go(func() {
			for _, name := range []string{state.Sessions, state.Members, state.Routes} {
				if _, err := store.Bucket(t.Context(), name); err != nil {
					t.Error(err)
				}
			}
			if _, err := store.Log(t.Context(), "ws"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	want := stores[0].Stamps()
	seen := map[string]bool{"": true}
	for stream, stamp := range want {
		if seen[stamp] {
			t.Errorf("the stamp of %s is %q, want one of its own", stream, stamp)
		}
		seen[stamp] = true
		if got := stampOf(t, site, account, stream); got != stamp {
			t.Errorf("the store takes the stamp of %s for %q, it is %q", stream, stamp, got)
		}
	}
	for i, store := range stores {
		if got := store.Stamps(); !maps.Equal(got, want) {
			t.Errorf("store %d knows the stamps %v, store 0 %v", i, got, want)
		}
	}
}

// stampOf reads a stream's stamp.
func stampOf(t *testing.T, s *site, account, stream string) string {
	t.Helper()
	metadata, _ := config(t, s, account, stream)["metadata"].(map[string]any)
	stamp, _ := metadata[jetstream.StampKey].(string)
	return stamp
}
