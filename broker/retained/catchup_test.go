package retained

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/value"
)

// lateStore hands out a bucket whose watches say everything late, and which counts what
// is asked of them.
type lateStore struct {
	state.Store
	by     time.Duration
	asked  atomic.Int64
	answer atomic.Pointer[error] // of Mark, instead of the watch's own
}

type lateBucket struct {
	state.Bucket
	store *lateStore
}

type lateWatch struct {
	state.Watch
	store   *lateStore
	updates chan state.Update
}

func (s *lateStore) Bucket(ctx context.Context, name string) (state.Bucket, error) {
	b, err := s.Store.Bucket(ctx, name)
	return lateBucket{b, s}, err
}

func (b lateBucket) Watch(ctx context.Context, prefix string) (state.Watch, error) {
	inner, err := b.Bucket.Watch(ctx, prefix)
	if err != nil {
		return nil, err
	}
	w := &lateWatch{inner, b.store, make(chan state.Update)}
	go func() {
		defer close(w.updates)
		for u := range inner.Updates() {
			time.Sleep(b.store.by)
			select {
			case w.updates <- u:
			case <-ctx.Done():
				return
			}
		}
	}()
	return w, nil
}

func (w *lateWatch) Updates() <-chan state.Update { return w.updates }

func (w *lateWatch) Mark(ctx context.Context) (uint64, error) {
	w.store.asked.Add(1)
	if err := w.store.answer.Load(); err != nil {
		return 0, *err
	}
	time.Sleep(w.store.by) // a round trip
	return w.Watch.Mark(ctx)
}

func TestWhatAnotherReplicaHasPutIsKnownAfterCatchingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := openStore(t)
		late := &lateStore{Store: store, by: 100 * time.Millisecond}
		here, there := openRetained(t, late), openRetained(t, store)
		if err := here.CatchUp(t.Context()); err != nil {
			t.Fatalf("with an empty bucket: %v", err)
		}
		for i := range uint64(30) {
			name, want := fmt.Sprint("t", i%3), fmt.Sprint(i)
			v := message(name, i+1, want)
			if i%5 == 4 {
				v, want = message(name, i+1, ""), "" // a removal
			}
			if err := there.Put(t.Context(), []*value.Value{v}); err != nil {
				t.Fatal(err)
			}
			if payload(here, name) == want && want != "" {
				t.Fatal("the watch is not late: this test shows nothing")
			}
			if err := here.CatchUp(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := payload(here, name); got != want {
				t.Fatalf("after catching up %s has %q, want %q", name, got, want)
			}
		}
	})
}

func TestThoseWhoCatchUpTogetherAskOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := openStore(t)
		late := &lateStore{Store: store, by: 50 * time.Millisecond}
		here, there := openRetained(t, late), openRetained(t, store)
		const n = 100
		var all sync.WaitGroup
		for i := range uint64(n) {
			name := fmt.Sprint("t", i)
			if err := there.Put(t.Context(), []*value.Value{message(name, i+1, "x")}); err != nil {
				t.Fatal(err)
			}
			all.Go(func() {
				if err := here.CatchUp(t.Context()); err != nil || payload(here, name) != "x" {
					t.Errorf("%s after catching up: %q, %v", name, payload(here, name), err)
				}
			})
		}
		all.Wait()
		if asked := late.asked.Load(); asked > 3 {
			t.Errorf("the store was asked %d times for %d who came at about the same time", asked, n)
		}
	})
}

func TestCatchingUpEndsWithItsContextAndSaysWhatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := openStore(t)
		late := &lateStore{Store: store, by: 10 * time.Second}
		here, there := openRetained(t, late), openRetained(t, store)
		away := fmt.Errorf("%w: no responders", state.ErrUnavailable)
		late.answer.Store(&away)
		if err := here.CatchUp(t.Context()); !errors.Is(err, state.ErrUnavailable) {
			t.Errorf("%v, want what the store said", err)
		}
		late.answer.Store(nil)
		put(t, there, message("t", 1, "x"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := here.CatchUp(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want the deadline", err)
		}
		time.Sleep(time.Minute) // what was asked for has ended
	})
}
