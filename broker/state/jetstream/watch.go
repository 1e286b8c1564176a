package jetstream

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"maestrohub.io/uns/broker/state"
)

// changes is what a bucket's feed gives to the bucket's watches.
type changes struct {
	bucket *bucket

	mu      sync.Mutex // before a watch's
	watches map[*watch]struct{}
}

// deliver queues a change for every watch. It never waits.
func (c *changes) deliver(m message) {
	b := c.bucket
	b.seen(m.sequence)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.watches) == 0 {
		return
	}
	r, err := b.record(m)
	if err != nil {
		b.store.options.Logger.Error("broker cluster: a record that is not ours is left out", "error", err)
		return
	}
	u := state.Update{Record: r, Deleted: m.deletion}
	for w := range c.watches {
		if strings.HasPrefix(r.Key, w.prefix) {
			w.push(u)
		}
	}
}

// passed: everything up to what the feed has given is queued.
func (c *changes) passed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for w := range c.watches {
		w.mu.Lock()
		if w.mark > 0 {
			w.nudge()
		}
		w.mu.Unlock()
	}
}

// lost: changes were replaced or expired before they could be read.
func (c *changes) lost(_, _ uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for w := range c.watches {
		w.lose()
	}
}

// watch implements state.Watch.
type watch struct {
	bucket  *bucket
	prefix  string
	updates chan state.Update
	stopped chan struct{}
	once    sync.Once
	wake    chan struct{} // holds one token while there is something to send

	mu    sync.Mutex // below
	queue []state.Update
	gone  bool   // the queue was given up
	mark  uint64 // asked for and not given yet
}

// Watch implements state.Bucket.
func (b *bucket) Watch(ctx context.Context, prefix string) (state.Watch, error) {
	if err := b.conn.closed(); err != nil {
		return nil, fmt.Errorf("watch %s: %w", b.name, err)
	}
	w := &watch{
		bucket: b, prefix: prefix,
		updates: make(chan state.Update, 64),
		stopped: make(chan struct{}),
		wake:    make(chan struct{}, 1),
	}
	go w.run(ctx)
	return w, nil
}

func (w *watch) push(u state.Update) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone {
		return
	}
	if len(w.queue) >= w.bucket.store.options.WatchBuffer {
		w.queue, w.gone = nil, true
	} else {
		w.queue = append(w.queue, u)
	}
	w.nudge()
}

func (w *watch) lose() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue, w.gone = nil, true
	w.nudge()
}

// Mark implements state.Watch. The leader is asked, and does not answer before what it has
// confirmed is among what it counts.
func (w *watch) Mark(ctx context.Context) (uint64, error) {
	info, err := w.bucket.conn.there(ctx, w.bucket.stream)
	if err != nil {
		return 0, fmt.Errorf("ask how far %s is: %w", w.bucket.name, err)
	}
	if info.State.Last > 0 {
		w.mu.Lock()
		w.mark = max(w.mark, info.State.Last)
		w.nudge()
		w.mu.Unlock()
		w.bucket.feed.expect(info.State.Last)
	}
	return info.State.Last, nil
}

func (w *watch) nudge() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// run gives the records there are, Ready, and the changes; after a loss all
// over again.
func (w *watch) run(ctx context.Context) {
	defer close(w.updates)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-w.stopped:
		case <-w.bucket.conn.closing:
		case <-ctx.Done():
		}
		cancel()
	}()
	b := w.bucket
	if b.feed.use(ctx) != nil {
		return
	}
	defer b.feed.release()
	b.changes.mu.Lock()
	b.changes.watches[w] = struct{}{}
	b.changes.mu.Unlock()
	defer func() {
		b.changes.mu.Lock()
		delete(b.changes.watches, w)
		b.changes.mu.Unlock()
	}()
	snapshot, ok := w.begin(ctx)
	for ok {
		select {
		case <-w.wake:
		case <-ctx.Done():
			return
		}
		given := b.feed.given.Load() // before the queue is taken, in which all of it is
		w.mu.Lock()
		queue, lost, mark := w.queue, w.gone, w.mark
		w.queue = nil
		w.mu.Unlock()
		if lost {
			if !w.send(ctx, state.Update{Lost: true}) {
				return
			}
			snapshot, ok = w.begin(ctx)
			w.nudge() // for a mark
			continue
		}
		for _, u := range queue {
			if u.Revision <= snapshot.reached {
				if u.Revision <= snapshot.revisions[u.Key] {
					continue // the snapshot is newer
				}
			} else {
				snapshot.revisions = nil
			}
			if !w.send(ctx, u) {
				return
			}
		}
		if mark > 0 && max(given, snapshot.reached) >= mark {
			if !w.send(ctx, state.Update{Marked: mark}) {
				return
			}
			w.mu.Lock()
			if w.mark == mark {
				w.mark = 0
			}
			w.mu.Unlock()
		}
	}
}

// snapshot is what a watch began with: changes queued meanwhile are in it or
// not.
type snapshot struct {
	reached   uint64
	revisions map[string]uint64
}

// begin gives all records, then Ready. Changes from before it on are queued.
func (w *watch) begin(ctx context.Context) (snapshot, bool) {
	for {
		w.mu.Lock()
		w.queue, w.gone = nil, false
		w.mu.Unlock()
		// Everything up to here is in the snapshot, everything from here on in
		// the queue.
		least := w.bucket.feed.position() - 1
		records, reached, err := w.bucket.scan(ctx, w.prefix, least)
		if err != nil {
			if w.bucket.conn.rest(ctx, retryScan) != nil {
				return snapshot{}, false
			}
			continue
		}
		s := snapshot{reached: reached, revisions: make(map[string]uint64, len(records))}
		for _, r := range records {
			s.revisions[r.Key] = r.Revision
			if !w.send(ctx, state.Update{Record: r}) {
				return s, false
			}
		}
		return s, w.send(ctx, state.Update{Ready: true})
	}
}

func (w *watch) send(ctx context.Context, u state.Update) bool {
	select {
	case w.updates <- u:
		return true
	case <-ctx.Done():
		return false
	}
}

func (w *watch) Updates() <-chan state.Update { return w.updates }
func (w *watch) Stop()                        { w.once.Do(func() { close(w.stopped) }) }
