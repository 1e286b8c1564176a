package memory

import (
	"context"
	"sync"

	"maestrohub.io/uns/broker/state"
)

// watch implements state.Watch: changes are queued by whoever writes and sent
// by a goroutine of the watch's own.
type watch struct {
	bucket  *bucket
	prefix  string
	updates chan state.Update
	stopped chan struct{}
	once    sync.Once
	wake    chan struct{} // holds one token while there is something to send

	// Guarded by bucket.mu.
	queue []*record
	lost  bool
	mark  uint64 // asked for and not given yet; everything up to it is in the queue or was
}

// Watch implements state.Bucket.
func (b *bucket) Watch(ctx context.Context, prefix string) (state.Watch, error) {
	if err := b.readable(ctx); err != nil {
		return nil, err
	}
	w := &watch{
		bucket: b, prefix: prefix,
		updates: make(chan state.Update, 64),
		stopped: make(chan struct{}),
		wake:    make(chan struct{}, 1),
	}
	b.mu.Lock()
	if b.watches == nil {
		b.mu.Unlock()
		return nil, state.ErrClosed
	}
	current := b.current(prefix)
	b.watches[w] = struct{}{}
	b.mu.Unlock()
	go w.run(ctx, current)
	return w, nil
}

// push queues a change, or gives up following if the queue is full. bucket.mu
// is held.
func (w *watch) push(r *record) {
	if w.lost {
		return
	}
	if len(w.queue) >= w.bucket.store.options.WatchBuffer {
		w.queue, w.lost = nil, true
	} else {
		w.queue = append(w.queue, r)
	}
	w.nudge()
}

func (w *watch) nudge() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Mark implements state.Watch.
func (w *watch) Mark(ctx context.Context) (uint64, error) {
	if err := w.bucket.readable(ctx); err != nil {
		return 0, err
	}
	w.bucket.mu.Lock()
	defer w.bucket.mu.Unlock()
	w.mark = w.bucket.revision
	w.nudge()
	return w.mark, nil
}

// run sends the records there were, Ready, and then what is queued.
func (w *watch) run(ctx context.Context, current []*record) {
	defer close(w.updates)
	defer func() {
		w.bucket.mu.Lock()
		delete(w.bucket.watches, w)
		w.bucket.mu.Unlock()
	}()
	if !w.sendAll(ctx, current) {
		return
	}
	var spare []*record
	for {
		select {
		case <-w.wake:
		case <-w.stopped:
			return
		case <-ctx.Done():
			return
		}
		w.bucket.mu.Lock()
		queue, lost, mark := w.queue, w.lost, w.mark
		w.queue, w.lost, w.mark = spare[:0], false, 0
		if lost {
			current = w.bucket.current(w.prefix)
		}
		w.bucket.mu.Unlock()
		if lost && !(w.send(ctx, state.Update{Lost: true}) && w.sendAll(ctx, current)) {
			return
		}
		for _, r := range queue {
			if !w.send(ctx, state.Update{Record: r.public(), Deleted: r.deleted}) {
				return
			}
		}
		if mark > 0 && !w.send(ctx, state.Update{Marked: mark}) {
			return
		}
		clear(queue)
		spare = nil
		if cap(queue) <= 1024 {
			spare = queue
		}
	}
}

func (w *watch) sendAll(ctx context.Context, current []*record) bool {
	sortByKey(current)
	for _, r := range current {
		if !w.send(ctx, state.Update{Record: r.public()}) {
			return false
		}
	}
	return w.send(ctx, state.Update{Ready: true})
}

func (w *watch) send(ctx context.Context, u state.Update) bool {
	select {
	case w.updates <- u:
		return true
	case <-w.stopped:
		return false
	case <-ctx.Done():
		return false
	}
}

func (w *watch) Updates() <-chan state.Update { return w.updates }
func (w *watch) Stop()                        { w.once.Do(func() { close(w.stopped) }) }

// stopWatches ends every watch; no further one is accepted.
func (b *bucket) stopWatches() {
	b.mu.Lock()
	watches := b.watches
	b.watches = nil
	b.mu.Unlock()
	for w := range watches {
		w.Stop()
	}
}
