package memory

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"maestrohub.io/uns/broker/state"
)

// record is one write of a key; it never changes.
type record struct {
	key      string
	value    []byte
	revision uint64
	time     int64 // ns since 1970
	deleted  bool
}

func (r *record) public() state.Record {
	return state.Record{Key: r.key, Value: r.value, Revision: r.revision, Time: time.Unix(0, r.time)}
}

// bucket implements state.Bucket. A durable one is changed by the committer
// only, which therefore may decide without holding mu; a volatile one by
// whoever holds mu.
type bucket struct {
	store   *Store
	name    string
	durable bool // set before the store is open
	ttl     time.Duration

	mu         sync.RWMutex
	revision   uint64 // of the newest record
	records    map[string]*record
	tombstones []*record // oldest first, some long replaced
	watches    map[*watch]struct{}
}

// present returns the key's last write that still counts, a tombstone included,
// or nil.
func (b *bucket) present(r *record, now int64) *record {
	if r == nil || b.ttl > 0 && now-r.time >= int64(b.ttl) {
		return nil
	}
	return r
}

// decide returns the record that w makes of last, or why it may not. The record
// takes w's value over.
func (b *bucket) decide(w *state.Write, last *record, revision uint64, now int64) (*record, error) {
	last = b.present(last, now)
	switch w.Op {
	case state.OpCreate:
		if last != nil && !last.deleted {
			return nil, fmt.Errorf("create %q in %s: %w: it is there at revision %d", w.Key, b.name, state.ErrConflict, last.revision)
		}
	case state.OpUpdate, state.OpDelete:
		var at uint64
		if last != nil {
			at = last.revision
		}
		if at != w.Revision || at == 0 || w.Op == state.OpDelete && last.deleted {
			return nil, fmt.Errorf("%v %q in %s at revision %d: %w: its revision is %d", w.Op, w.Key, b.name, w.Revision, state.ErrConflict, at)
		}
	}
	r := &record{key: w.Key, revision: revision, time: now, deleted: w.Op == state.OpDelete}
	if !r.deleted {
		r.value = w.Value
	}
	return r, nil
}

// install puts r in place. mu is held, or the store not yet open.
func (b *bucket) install(r *record) {
	b.records[r.key] = r
	b.revision = max(b.revision, r.revision)
	if r.deleted {
		b.tombstones = append(b.tombstones, r)
	}
	for w := range b.watches {
		if strings.HasPrefix(r.key, w.prefix) {
			w.push(r)
		}
	}
}

// dropOldTombstones forgets deletions that are older than any late write.
func (b *bucket) dropOldTombstones(now time.Time) {
	oldest := now.Add(-state.TombstoneAge).UnixNano()
	n := 0
	for n < len(b.tombstones) && b.tombstones[n].time < oldest {
		if t := b.tombstones[n]; b.records[t.key] == t {
			delete(b.records, t.key)
		}
		n++
	}
	b.tombstones = slices.Delete(b.tombstones, 0, n)
}

func check(w *state.Write) error {
	if w.Op > state.OpDelete {
		return fmt.Errorf("%v (%d) of %q", w.Op, w.Op, w.Key)
	}
	return state.CheckKey(w.Key)
}

// Apply implements state.Bucket.
func (b *bucket) Apply(ctx context.Context, writes []state.Write) []state.Result {
	results := make([]state.Result, len(writes))
	if err := ctx.Err(); err != nil {
		fail(results, err)
		return results
	}
	keys := make(map[string]struct{}, len(writes))
	own := make([]state.Write, len(writes))
	for i, w := range writes {
		own[i] = w
		own[i].Value = slices.Clone(w.Value)
		results[i].Err = check(&w)
		if _, twice := keys[w.Key]; twice && results[i].Err == nil {
			results[i].Err = fmt.Errorf("%v %q in %s: the key is twice among the writes", w.Op, w.Key, b.name)
		}
		keys[w.Key] = struct{}{}
	}
	return b.apply(ctx, own, results)
}

// write makes one write.
func (b *bucket) write(ctx context.Context, w state.Write) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := check(&w); err != nil {
		return 0, err
	}
	w.Value = slices.Clone(w.Value)
	r := b.apply(ctx, []state.Write{w}, make([]state.Result, 1))[0]
	return r.Revision, r.Err
}

// apply makes checked writes, whose values it takes over. Those whose result
// has an error already are left out.
func (b *bucket) apply(ctx context.Context, writes []state.Write, results []state.Result) []state.Result {
	if b.durable && b.store.journal != nil {
		c := &commit{bucket: b, writes: writes, results: results, done: make(chan struct{})}
		if err := b.store.commit(ctx, c); err != nil {
			// The committer may be at work on c.results.
			results = make([]state.Result, len(writes))
			fail(results, err)
		}
		return results
	}
	if err := b.store.open(); err != nil {
		fail(results, err)
		return results
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.dropOldTombstones(now)
	for i := range writes {
		if results[i].Err != nil {
			continue
		}
		w := &writes[i]
		r, err := b.decide(w, b.records[w.Key], b.revision+1, now.UnixNano())
		if err != nil {
			results[i].Err = err
			continue
		}
		b.install(r)
		results[i].Revision = r.revision
	}
	return results
}

// fail gives every write that has no error yet this one.
func fail(results []state.Result, err error) {
	for i := range results {
		if results[i].Err == nil {
			results[i] = state.Result{Err: err}
		}
	}
}
