package jetstream_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/state/jetstream"
	"maestrohub.io/uns/tools/localcluster/natsserver"
)

// The tests share one cluster of three servers. Each has an account of its own,
// so what one left behind, late writes included, does not reach another.
const accounts = 160

var (
	clusterOnce sync.Once
	cluster     *natsserver.Cluster
	clusterErr  error
	nextAccount atomic.Int64
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "jetstream-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	clusterDir = dir
	code := m.Run()
	if cluster != nil {
		cluster.Close()
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

var clusterDir string

// servers returns the shared cluster, ready.
func servers(t testing.TB) *natsserver.Cluster {
	t.Helper()
	clusterOnce.Do(func() {
		names := make([]string, accounts)
		for i := range names {
			names[i] = fmt.Sprintf("T%d", i)
		}
		if cluster, clusterErr = natsserver.Start(natsserver.Options{Dir: clusterDir, Accounts: names}); clusterErr == nil {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			clusterErr = cluster.Ready(ctx)
		}
	})
	if clusterErr != nil {
		t.Fatal(clusterErr)
	}
	return cluster
}

// account returns the name of an account nobody used yet.
func account(t testing.TB) string {
	t.Helper()
	n := nextAccount.Add(1) - 1
	if n >= accounts {
		t.Fatalf("more than %d tests on one cluster", accounts)
	}
	return fmt.Sprintf("T%d", n)
}

// open opens a store of an account; change may alter its options.
func open(t testing.TB, account string, change func(*jetstream.Options)) *jetstream.Store {
	t.Helper()
	o := jetstream.Options{
		Servers: servers(t).URLs(account), Replica: fmt.Sprintf("uns-%d", nextReplica.Add(1)),
	}
	if change != nil {
		change(&o)
	}
	s, err := jetstream.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

var nextReplica atomic.Int64

// opener returns the suite's open: each test has an account, each call of one
// test another store in it, as another replica has it.
func opener(change func(*jetstream.Options)) func(t *testing.T) state.Store {
	var mu sync.Mutex
	of := map[*testing.T]string{}
	return func(t *testing.T) state.Store {
		mu.Lock()
		name, known := of[t]
		if !known {
			name = account(t)
			of[t] = name
		}
		mu.Unlock()
		if !known {
			t.Cleanup(func() { dropStreams(t, name) })
		}
		return open(t, name, change)
	}
}
