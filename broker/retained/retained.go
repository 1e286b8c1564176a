package retained

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/value"
)

// Retained is the retained messages. All methods may be called from any goroutine.
type Retained struct {
	bucket state.Bucket

	running  context.Context // until Close
	cancel   context.CancelFunc
	workers  sync.WaitGroup
	catching catching

	// retains, if set, says which topics retain now.
	retains atomic.Pointer[func(*value.Value) bool]

	mu     sync.RWMutex // taken last: yield is called without it
	byName map[string]*entry
	tree   tree
	count  int // messages, expired ones not yet swept included
	load   uint64
	// deleted and deletedBefore hold the revisions of deletions since the last sweep
	// and since the one before: a late install of an older revision is known by them.
	deleted, deletedBefore map[string]uint64
}

// Open loads the bucket and follows it until Close. ctx bounds the loading only.
func Open(ctx context.Context, store state.Store) (*Retained, error) {
	bucket, err := store.Bucket(ctx, state.Retained)
	if err != nil {
		return nil, fmt.Errorf("open retained messages: %w", err)
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &Retained{
		bucket: bucket, running: running, cancel: cancel,
		byName: make(map[string]*entry), deleted: make(map[string]uint64),
	}
	watch, err := bucket.Watch(running, "")
	if err != nil {
		cancel()
		return nil, fmt.Errorf("watch retained messages: %w", err)
	}
	r.catching.follows(watch, 0)
	loaded := make(chan struct{})
	r.workers.Go(func() { r.follow(running, watch, loaded) })
	select {
	case <-loaded:
	case <-ctx.Done():
		r.Close()
		return nil, fmt.Errorf("load retained messages: %w", ctx.Err())
	}
	r.workers.Go(func() { r.sweepUntil(running) })
	return r, nil
}

// Close stops following the bucket. Match and Get go on answering what was known.
func (r *Retained) Close() {
	r.cancel()
	r.workers.Wait()
}

// Get returns the message of a topic, nil if it has none.
func (r *Retained) Get(name string) *value.Value {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.byName[name].message(time.Now().UnixNano())
}

// Reached reports whether a value of the topic with that position, or a later one, is
// known to have been put, be it a removal: what is older is not its message any more.
func (r *Retained) Reached(name string, position uint64) bool {
	e := r.known(name)
	return e.value != nil && e.value.Position >= position
}

// Len returns the number of messages, those expired within the last minute included.
func (r *Retained) Len() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.count
}

// Retaining says which topics retain now. What Match yields follows it: the message
// of a topic that retains no longer is kept, so that a mistaken change of the model
// loses nothing, but nobody is given it.
func (r *Retained) Retaining(retains func(*value.Value) bool) { r.retains.Store(&retains) }

// Match yields the messages of the topics a filter matches, in no order, until
// yield returns false. The filter is well formed and without its share. yield may
// call r.
func (r *Retained) Match(filter string, yield func(*value.Value) bool) {
	now := time.Now().UnixNano()
	var messages []*value.Value
	r.mu.RLock()
	r.tree.match(filter, func(e *entry) {
		if v := e.message(now); v != nil {
			messages = append(messages, v)
		}
	})
	r.mu.RUnlock()
	retains := r.retains.Load()
	for _, v := range messages {
		if retains != nil && !(*retains)(v) {
			continue
		}
		if !yield(v) {
			return
		}
	}
}

// known returns the entry of a name, the zero entry if there is none.
func (r *Retained) known(name string) entry {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if e := r.byName[name]; e != nil {
		return *e
	}
	return entry{}
}

// install takes over what a revision of a record holds, unless a later one is
// known: the watch and this replica's own writes both tell, in no fixed order.
func (r *Retained) install(name string, v *value.Value, revision uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.byName[name]
	if r.deleted[name] > revision || r.deletedBefore[name] > revision {
		return
	}
	if old != nil && old.revision > revision {
		old.load = r.load
		return
	}
	e := &entry{value: v, revision: revision, load: r.load}
	r.recount(old, e)
	r.byName[name] = e
	r.tree.set(name, e)
}

// drop takes over that a record was deleted at a revision.
func (r *Retained) drop(name string, revision uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropLocked(name, revision)
}

func (r *Retained) dropLocked(name string, revision uint64) {
	old := r.byName[name]
	if old != nil && old.revision > revision {
		return
	}
	r.deleted[name] = max(r.deleted[name], revision)
	if old == nil {
		return
	}
	r.recount(old, nil)
	delete(r.byName, name)
	r.tree.set(name, nil)
}

func (r *Retained) recount(old, now *entry) {
	if old.message(0) != nil {
		r.count--
	}
	if now.message(0) != nil {
		r.count++
	}
}

// follow keeps the copy in step with the bucket until ctx ends. loaded is closed at
// the first Ready.
func (r *Retained) follow(ctx context.Context, watch state.Watch, loaded chan struct{}) {
	for {
		for update := range watch.Updates() {
			switch {
			case update.Lost:
				r.startLoad()
			case update.Ready:
				r.endLoad()
				if loaded != nil {
					close(loaded)
					loaded = nil
				}
			case update.Marked > 0:
				r.catching.follows(watch, update.Marked)
			case update.Deleted:
				r.drop(update.Key, update.Revision)
			default:
				r.install(update.Key, decode(update.Record), update.Revision)
			}
		}
		watch.Stop()
		// The watch ended: by Close, by the store's, or because the store could not
		// keep it. In the last case another one starts from the beginning.
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(rewatchEvery):
			}
			var err error
			if watch, err = r.bucket.Watch(ctx, ""); err == nil {
				r.catching.follows(watch, 0)
				r.startLoad()
				break
			}
		}
	}
}

// rewatchEvery is the wait before a watch that ended is made again.
const rewatchEvery = time.Second

// startLoad begins a pass: what is not told of again by its end is gone.
func (r *Retained) startLoad() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.load++
}

func (r *Retained) endLoad() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, e := range r.byName {
		if e.load != r.load {
			r.dropLocked(name, e.revision)
		}
	}
}

// decode reads a record; nil if a later release wrote it.
func decode(record state.Record) *value.Value {
	v, err := value.DecodeRecord(record.Value)
	if err != nil {
		slog.Warn("embedded broker: retained message left out", "topic", record.Key, "reason", err.Error())
		return nil
	}
	return v
}
