package jetstream_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/state/jetstream"
	"maestrohub.io/uns/tools/localcluster/natsserver"
)

// follower returns a server that does not lead the stream, which exists.
func follower(t *testing.T, s *site, account, stream string) *natsserver.Server {
	t.Helper()
	nc, err := nats.Connect(s.URL(account))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	leader, err := s.Leader(t.Context(), nc, stream)
	if err != nil {
		t.Fatal(err)
	}
	for _, server := range s.Servers {
		if server != leader {
			return server
		}
	}
	t.Fatal("a cluster of one")
	return nil
}

// first puts one server first, so that the connection is to it.
func first(s *natsserver.Server, account string) func(*jetstream.Options) {
	return func(o *jetstream.Options) {
		servers := []string{s.URL(account)}
		for _, u := range o.Servers {
			if u != servers[0] {
				servers = append(servers, u)
			}
		}
		o.Servers = servers
		o.Silence, o.LeaseSilence = 1500*time.Millisecond, 1500*time.Millisecond
	}
}

func TestAHungServerIsLeftAfterTheSilence(t *testing.T) {
	t.Parallel()
	site := ownSite(t, 1)
	account := site.account(t)
	if _, err := site.open(t, account, nil).Bucket(t.Context(), state.SessionState); err != nil {
		t.Fatal(err)
	}
	hung := follower(t, site, account, "KV_mqtt-session-state")
	store := site.open(t, account, first(hung, account))
	bucket, err := store.Bucket(t.Context(), state.SessionState)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bucket.Put(t.Context(), "a", []byte("before")); err != nil {
		t.Fatal(err)
	}
	if err := hung.Pause(); err != nil {
		t.Fatal(err)
	}
	// What is out when the server hangs is unknown, and late at that.
	ctx, cancel := contextFor(t, 300*time.Millisecond)
	begin := time.Now()
	_, err = bucket.Put(ctx, "a", []byte("limbo"))
	cancel()
	if !errors.Is(err, state.ErrUnknown) || time.Since(begin) > time.Second {
		t.Errorf("put into a hung server: %v after %v, want ErrUnknown at the context's end", err, time.Since(begin))
	}
	if store.Silent() < 200*time.Millisecond {
		t.Errorf("silent for %v though the server hangs", store.Silent())
	}
	// Another write waits for the silence to end and for the next server, and lands.
	revision, err := bucket.Put(t.Context(), "b", []byte("after"))
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took < 1200*time.Millisecond {
		t.Errorf("the hung server was left after %v, the silence is 1.5 s", took)
	}
	if r, err := bucket.Get(t.Context(), "b"); err != nil || r.Revision != revision {
		t.Errorf("get: %+v, error %v", r, err)
	}
	if store.Silent() > time.Second {
		t.Errorf("silent for %v after it answered", store.Silent())
	}
	if err := hung.Resume(); err != nil {
		t.Fatal(err)
	}
}

// Reads go to any copy, a hung one's too for as long as the other servers take it for
// alive. None may wait longer than another attempt needs.
func TestReadsDoNotWaitForAHungServerThatTheStoreIsNotConnectedTo(t *testing.T) {
	t.Parallel()
	site := ownSite(t, 1)
	account := site.account(t)
	log, err := site.open(t, account, nil).Log(t.Context(), "ws")
	if err != nil {
		t.Fatal(err)
	}
	at, err := log.Append(t.Context(), [][]byte{{1}, {2}, {3}})
	if err != nil {
		t.Fatal(err)
	}
	near := follower(t, site, account, "LOG_mqtt-sessions-ws")
	log, err = site.open(t, account, func(o *jetstream.Options) {
		first(near, account)(o)
		o.Silence = time.Minute // it is to stay
	}).Log(t.Context(), "ws")
	if err != nil {
		t.Fatal(err)
	}
	for _, hung := range site.Servers {
		if hung == near {
			continue
		}
		if err := hung.Pause(); err != nil {
			t.Fatal(err)
		}
		began, longest := time.Now(), time.Duration(0)
		for range 60 {
			before := time.Now()
			entries, err := log.Read(t.Context(), at, 3, nil)
			if err != nil || len(entries) != 3 {
				t.Fatalf("%s hangs: read %d entries, error %v", hung.Name, len(entries), err)
			}
			longest = max(longest, time.Since(before))
		}
		took := time.Since(began)
		t.Logf("%s hangs: 60 reads in %v, the longest %v", hung.Name, took, longest)
		if took > 40*time.Second || longest > 10*time.Second {
			t.Errorf("%s hangs: 60 reads took %v, the longest %v", hung.Name, took, longest)
		}
		if err := hung.Resume(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestClosingDoesNotWaitForAHungServer(t *testing.T) {
	t.Parallel()
	site := ownSite(t, 1)
	account := site.account(t)
	store := site.open(t, account, first(site.Servers[1], account))
	bucket, err := store.Bucket(t.Context(), state.Routes)
	if err != nil {
		t.Fatal(err)
	}
	log, err := store.Log(t.Context(), "ws")
	if err != nil {
		t.Fatal(err)
	}
	if err := site.Servers[1].Pause(); err != nil {
		t.Fatal(err)
	}
	results := make(chan error, 2)
	go func() { _, err := bucket.Put(t.Context(), "a", nil); results <- err }()
	go func() { _, err := log.Append(t.Context(), [][]byte{{1}}); results <- err }()
	time.AfterFunc(100*time.Millisecond, func() { store.Close() })
	begin := time.Now()
	for range 2 {
		if err := <-results; !errors.Is(err, state.ErrUnknown) && !errors.Is(err, state.ErrClosed) {
			t.Errorf("write when the store closed: %v", err)
		}
	}
	if took := time.Since(begin); took > time.Second {
		t.Errorf("closing took %v", took)
	}
	if err := site.Servers[1].Resume(); err != nil {
		t.Fatal(err)
	}
}

func TestLeaseWritesGoOutWhetherOrNotEarlierOnesAreBack(t *testing.T) {
	t.Parallel()
	site := ownSite(t, 1)
	account := site.account(t)
	hung := site.Servers[2]
	store := site.open(t, account, func(o *jetstream.Options) {
		first(hung, account)(o)
		// The lease begins with the second server of the list.
		o.Servers[0], o.Servers[2] = o.Servers[2], o.Servers[0]
		o.Servers[1], o.Servers[2] = o.Servers[2], o.Servers[1]
		o.LeaseSilence = time.Minute
	})
	lease, err := store.Lease(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lease.Create(t.Context(), "uns-0", []byte("first")); err != nil {
		t.Fatal(err)
	}
	if _, err := lease.Create(t.Context(), "uns-0", []byte("second")); !errors.Is(err, state.ErrConflict) {
		t.Errorf("create over an entry: %v, want ErrConflict", err)
	}
	if err := hung.Pause(); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	landed := map[uint64]bool{}
	for i := range 5 {
		wg.Go(func() {
			revision, err := lease.Put(t.Context(), "uns-0", fmt.Append(nil, i))
			if err != nil {
				t.Errorf("heartbeat %d: %v", i, err)
			}
			mu.Lock()
			defer mu.Unlock()
			landed[revision] = true
		})
	}
	time.AfterFunc(time.Second, func() {
		if err := hung.Resume(); err != nil {
			t.Error(err)
		}
	})
	wg.Wait()
	if len(landed) != 5 {
		t.Errorf("5 heartbeats landed at %v", landed)
	}
}
