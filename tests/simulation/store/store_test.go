package store_test

import (
	"sync"
	"testing"
	"time"

	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/state/statetest"
	"maestrohub.io/uns/tests/simulation/store"
)

// conformance runs the suite over clients that lie so much.
func conformance(t *testing.T, lies store.Lies, options statetest.Options) {
	var mu sync.Mutex
	servers := map[*testing.T]*store.Server{}
	statetest.Run(t, func(t *testing.T) state.Store {
		mu.Lock()
		defer mu.Unlock()
		s := servers[t]
		if s == nil {
			var err error
			s, err = store.Open(store.Options{MemberTTL: options.MembersTTL, LogMaxBytes: options.LogMaxBytes, LogMaxAge: options.LogMaxAge, Seed: 1})
			if err != nil {
				t.Fatal(err)
			}
			servers[t] = s
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		c := s.Client("replica", lies)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}, options)
}

func TestAnHonestStoreKeepsTheLawsOfState(t *testing.T) {
	conformance(t, store.Lies{}, statetest.Options{LogMaxBytes: 256 << 10, LogMaxAge: 300 * time.Millisecond, MembersTTL: 200 * time.Millisecond, LogOverhead: 32})
}

// TestALyingStoreKeepsTheLawsOfState: what it does to its callers is what package state
// allows, and no more. Writes without an outcome are left out, after which the suite,
// which cannot know whether they landed, does not go on.
func TestALyingStoreKeepsTheLawsOfState(t *testing.T) {
	us, ms := time.Microsecond, time.Millisecond
	conformance(t, store.Lies{Request: store.Span{Max: 50 * us}, Reply: store.Span{Max: 50 * us}, Late: 0.005, LateBy: store.Span{Min: ms, Max: 20 * ms},
		Stale: 0.1, StaleBy: store.Span{Min: ms, Max: 20 * ms}, Lag: store.Span{Max: 50 * us}, Lose: 0.5}, statetest.Options{LogMaxBytes: 256 << 10, LogOverhead: 32})
}
