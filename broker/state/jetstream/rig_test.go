package jetstream_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/state/jetstream"
	"maestrohub.io/uns/tools/localcluster/natsserver"
)

// site is a cluster of servers for tests. Each test has an account of its own,
// so what one left behind, late writes included, does not reach another.
type site struct {
	*natsserver.Cluster
	accounts int64
	used     atomic.Int64
	replicas atomic.Int64
}

// newSite starts a cluster of three.
func newSite(dir string, accounts int) (*site, error) {
	names := make([]string, accounts)
	for i := range names {
		names[i] = fmt.Sprintf("T%d", i)
	}
	c, err := natsserver.Start(natsserver.Options{Dir: dir, Accounts: names})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := c.Ready(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return &site{Cluster: c, accounts: int64(accounts)}, nil
}

var shared struct {
	once sync.Once
	dir  string
	site *site
	err  error
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "jetstream-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	shared.dir = dir
	code := m.Run()
	if shared.site != nil {
		shared.site.Close()
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// sharedSite is the cluster of the tests that leave its servers alone.
func sharedSite(t testing.TB) *site {
	t.Helper()
	shared.once.Do(func() { shared.site, shared.err = newSite(shared.dir, 120) })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.site
}

// ownSite is a cluster whose servers the test may harm.
func ownSite(t testing.TB, accounts int) *site {
	t.Helper()
	s, err := newSite(t.TempDir(), accounts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// account returns the name of an account nobody used yet.
func (s *site) account(t testing.TB) string {
	t.Helper()
	n := s.used.Add(1) - 1
	if n >= s.accounts {
		t.Fatalf("more than %d tests on one cluster", s.accounts)
	}
	return fmt.Sprintf("T%d", n)
}

// open opens a store of an account, as a replica of its own; change may alter
// its options.
func (s *site) open(t testing.TB, account string, change func(*jetstream.Options)) *jetstream.Store {
	t.Helper()
	o := jetstream.Options{Servers: s.URLs(account), Replica: fmt.Sprintf("uns-%d", s.replicas.Add(1))}
	if change != nil {
		change(&o)
	}
	store, err := jetstream.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return store
}

// opener returns the suite's open: each test has an account, each call of one
// test another store in it.
func (s *site) opener(change func(*jetstream.Options)) func(t *testing.T) state.Store {
	var mu sync.Mutex
	of := map[*testing.T]string{}
	return func(t *testing.T) state.Store {
		mu.Lock()
		name, known := of[t]
		if !known {
			name = s.account(t)
			of[t] = name
		}
		mu.Unlock()
		if !known {
			t.Cleanup(func() { s.dropStreams(name) })
		}
		return s.open(t, name, change)
	}
}

// dropStreams deletes what a test left, as far as it can, so that the servers
// have only the running tests' streams to look after.
func (s *site) dropStreams(account string) {
	nc, err := nats.Connect(s.URL(account))
	if err != nil {
		return
	}
	defer nc.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	for _, name := range streams(ctx, nc) {
		nc.RequestWithContext(ctx, "$JS.API.STREAM.DELETE."+name, nil)
	}
}

func streams(ctx context.Context, nc *nats.Conn) []string {
	var names struct {
		Streams []string `json:"streams"`
	}
	m, err := nc.RequestWithContext(ctx, "$JS.API.STREAM.NAMES", nil)
	if err != nil || json.Unmarshal(m.Data, &names) != nil {
		return nil
	}
	return names.Streams
}

// URL is a way into the cluster for an account.
func (s *site) URL(account string) string {
	url := ""
	for _, u := range s.URLs(account) {
		url += "," + u
	}
	return url[1:]
}
