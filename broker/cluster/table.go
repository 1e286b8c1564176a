package cluster

import (
	"context"
	"fmt"
	"sync"

	"maestrohub.io/uns/broker/state"
)

// table follows a bucket: its decoded records by key.
type table[T any] struct {
	decode func([]byte) (T, error)
	skip   func(key string) bool // nil: nothing
	// saw and removed are told of each change, with mu held; may be nil.
	saw     func(key string, s Stored[T])
	removed func(key string, record T)
	bad     func(key string, err error)

	mu      sync.Mutex // below; before Sweeper.mu
	records map[string]Stored[T]
	stale   map[string]struct{} // while the watch gives everything anew: not yet repeated
	ready   bool
}

// follow keeps the table until ctx is done.
func (t *table[T]) follow(ctx context.Context, b state.Bucket) error {
	w, err := b.Watch(ctx, "")
	if err != nil {
		return fmt.Errorf("watch for the sweep: %w", err)
	}
	defer w.Stop()
	for u := range w.Updates() {
		t.update(u)
	}
	return ctx.Err()
}

func (t *table[T]) update(u state.Update) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.records == nil {
		t.records = map[string]Stored[T]{}
	}
	switch {
	case u.Lost:
		t.ready, t.stale = false, make(map[string]struct{}, len(t.records))
		for key := range t.records {
			t.stale[key] = struct{}{}
		}
	case u.Ready:
		for key := range t.stale {
			t.drop(key)
		}
		t.ready, t.stale = true, nil
	case t.skip != nil && t.skip(u.Key):
	case u.Deleted:
		t.drop(u.Key)
	default:
		delete(t.stale, u.Key)
		record, err := t.decode(u.Value)
		if err != nil {
			t.bad(u.Key, err)
			return
		}
		s := Stored[T]{record, u.Revision, u.Time}
		t.records[u.Key] = s
		if t.saw != nil {
			t.saw(u.Key, s)
		}
	}
}

func (t *table[T]) drop(key string) {
	if s, there := t.records[key]; there {
		delete(t.records, key)
		if t.removed != nil {
			t.removed(key, s.Record)
		}
	}
}
