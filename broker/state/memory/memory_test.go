package memory_test

import (
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/state/memory"
	"maestrohub.io/uns/broker/state/statetest"
)

// opener returns the suite's open: one store a test, shared by its replicas.
func opener(options func() memory.Options) func(t *testing.T) state.Store {
	var mu sync.Mutex
	stores := map[*testing.T]state.Store{}
	return func(t *testing.T) state.Store {
		mu.Lock()
		defer mu.Unlock()
		if s := stores[t]; s != nil {
			return s
		}
		s, err := memory.Open(options())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
		stores[t] = s
		return s
	}
}

func TestMemoryKeepsTheLaws(t *testing.T) {
	statetest.Run(t, opener(func() memory.Options {
		return memory.Options{LogMaxBytes: 256 << 10, LogMaxAge: 30 * time.Second,
			TTL: map[string]time.Duration{state.Members: 200 * time.Millisecond}}
	}), statetest.Options{LogMaxBytes: 256 << 10, LogOverhead: 24, MembersTTL: 200 * time.Millisecond})
}

func TestDurableBucketsKeepTheLaws(t *testing.T) {
	statetest.Run(t, opener(func() memory.Options {
		return memory.Options{Dir: "state", Durable: []string{state.Routes}, FS: vfs.NewMem()}
	}), statetest.Options{})
}

func TestSlowWatchesStartAgain(t *testing.T) {
	statetest.Run(t, opener(func() memory.Options { return memory.Options{WatchBuffer: 3} }), statetest.Options{})
}

func TestLogsDropEntriesByAge(t *testing.T) {
	statetest.Run(t, opener(func() memory.Options { return memory.Options{LogMaxAge: 300 * time.Millisecond} }),
		statetest.Options{LogMaxAge: 300 * time.Millisecond})
}
