package retained

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/value"
)

// lyingStore hands out a bucket that answers as JetStream may: writes that time
// out and land or not, reads that are older than the last write.
type lyingStore struct {
	state.Store
	random *rand.Rand
}

func (s *lyingStore) Bucket(ctx context.Context, name string) (state.Bucket, error) {
	b, err := s.Store.Bucket(ctx, name)
	return &lyingBucket{Bucket: b, random: s.random, stale: make(map[string]state.Record)}, err
}

type lyingBucket struct {
	state.Bucket
	mu     sync.Mutex
	random *rand.Rand
	stale  map[string]state.Record
}

func (b *lyingBucket) Get(ctx context.Context, key string) (state.Record, error) {
	r, err := b.Bucket.Get(ctx, key)
	b.mu.Lock()
	defer b.mu.Unlock()
	old, known := b.stale[key]
	if err == nil {
		b.stale[key] = r
	}
	if b.random.IntN(2) == 0 {
		if !known {
			return state.Record{}, state.ErrNotFound
		}
		return old, nil
	}
	return r, err
}

func (b *lyingBucket) Apply(ctx context.Context, writes []state.Write) []state.Result {
	b.mu.Lock()
	lose, hide, late := b.random.IntN(4) == 0, b.random.IntN(4) == 0, b.random.IntN(4) == 0
	delay := time.Duration(b.random.Int64N(int64(14 * time.Second)))
	b.mu.Unlock()
	var results []state.Result
	switch {
	case lose:
		results = make([]state.Result, len(writes))
	case late:
		results = make([]state.Result, len(writes))
		writes := slices.Clone(writes)
		go func() {
			time.Sleep(delay)
			b.Bucket.Apply(context.WithoutCancel(ctx), writes)
		}()
	default:
		results = b.Bucket.Apply(ctx, writes)
	}
	if lose || hide || late {
		for i := range results {
			results[i] = state.Result{Err: state.ErrUnknown}
		}
	}
	return results
}

func TestPutIsRightOverAStoreThatTimesOutAndAnswersLate(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			store := openStore(t)
			random := rand.New(rand.NewPCG(seed, 7))
			var replicas []*Retained
			for range 3 {
				replicas = append(replicas, openRetained(t, &lyingStore{store, rand.New(rand.NewPCG(random.Uint64(), 1))}))
			}
			position, last := uint64(0), map[string]uint64{}
			for range 60 {
				r := replicas[random.IntN(len(replicas))]
				position++
				name := []string{"a", "b", "c"}[random.IntN(3)]
				last[name] = position
				put(t, r, message(name, position, "x"))
				if random.IntN(3) == 0 { // an older one, late
					put(t, r, message(name, position-1, "old"))
				}
			}
			time.Sleep(20 * time.Second) // every late write has landed
			synctest.Wait()
			for name, want := range last {
				for i, r := range append(replicas, openRetained(t, store)) {
					if got := r.Get(name); got == nil || got.Position != want {
						t.Fatalf("seed %d: replica %d has %+v of %q, want position %d", seed, i, got, name, want)
					}
				}
			}
		})
	}
}

func TestPutReportsAnUnavailableStoreAndAnUnknownOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := openStore(t)
		always := &answering{err: state.ErrUnavailable}
		r := openRetained(t, &replacing{store, always})
		if err := r.Put(t.Context(), []*value.Value{message("t", 1, "x")}); !errors.Is(err, state.ErrUnavailable) {
			t.Fatalf("unavailable store: %v", err)
		}
		always.err = state.ErrUnknown
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		err := r.Put(ctx, []*value.Value{message("t", 1, "x")})
		if !errors.Is(err, state.ErrUnknown) || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("a store that never says: %v, want ErrUnknown and the deadline", err)
		}
		if got := payload(r, "t"); got != "" {
			t.Fatalf("a message that was never confirmed is given out: %q", got)
		}
	})
}

type replacing struct {
	state.Store
	answering *answering
}

func (s *replacing) Bucket(ctx context.Context, name string) (state.Bucket, error) {
	b, err := s.Store.Bucket(ctx, name)
	s.answering.Bucket = b
	return s.answering, err
}

// answering is a bucket that answers every write with one error.
type answering struct {
	state.Bucket
	err error
}

func (b *answering) Apply(_ context.Context, writes []state.Write) []state.Result {
	results := make([]state.Result, len(writes))
	for i := range results {
		results[i].Err = b.err
	}
	return results
}
