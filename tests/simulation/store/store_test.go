package store_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
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

// A create that nobody waits for any more lands over nothing, and not over the deletion of
// what was made after it had left.
func TestALateCreateIsRefusedByADeletionSince(t *testing.T) {
	for _, made := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s, err := store.Open(store.Options{Seed: 1})
			if err != nil {
				t.Fatal(err)
			}
			c, other := s.Client("late", store.Lies{}), s.Client("other", store.Lies{})
			late, _ := c.Bucket(t.Context(), state.SessionWill)
			b, _ := other.Bucket(t.Context(), state.SessionWill)
			c.Hang(store.Shared)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := late.Create(ctx, "a", []byte("late")); !errors.Is(err, state.ErrUnknown) {
				t.Fatalf("a create in a server that hangs: %v", err)
			}
			if made {
				revision, err := b.Create(t.Context(), "a", nil)
				if err == nil {
					_, err = b.Delete(t.Context(), "a", revision)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			c.Heal(store.Shared)
			synctest.Wait()
			r, err := b.Get(t.Context(), "a")
			if made != errors.Is(err, state.ErrNotFound) {
				t.Errorf("made and deleted meanwhile: %v; it holds %q, %v", made, r.Value, err)
			}
			_, _ = c.Close(), other.Close()
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
