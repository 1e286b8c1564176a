package jetstream

import (
	"context"
	"sync"
	"time"

	"maestrohub.io/uns/broker/state"
)

// tail implements state.Tail: a position, read from the ring where the ring
// still has it, else from the store.
type tail struct {
	log     *log
	at      uint64 // the next sequence wanted
	entries []state.Entry
	life    context.Context // until Stop
	stop    context.CancelFunc

	mu   sync.Mutex // below; before the feed's
	uses bool       // the log's feed
}

// Tail implements state.Log.
func (l *log) Tail(from uint64) state.Tail {
	t := &tail{log: l, at: max(from, 1)}
	t.life, t.stop = context.WithCancel(context.Background())
	return t
}

// Next implements state.Tail.
func (t *tail) Next(ctx context.Context) ([]state.Entry, error) {
	if err := t.follow(ctx); err != nil {
		return nil, err
	}
	clear(t.entries)
	for {
		if err := t.ended(ctx); err != nil {
			return nil, err
		}
		entries, behind, start, changed := t.log.ring.take(t.at, t.entries[:0])
		if behind {
			var err error
			if entries, err = t.catchUp(ctx); err != nil {
				// The store does not answer: it is waited for.
				if t.log.conn.rest(ctx, 100*time.Millisecond) != nil {
					return nil, t.ended(ctx)
				}
				continue
			}
			if len(entries) == 0 {
				// What was read is all the ring knows of: the log has dropped
				// what lies before it.
				t.at = max(t.at, firstSequence(start))
				continue
			}
		}
		if n := len(entries); n > 0 {
			t.entries = entries
			t.at = entries[n-1].Sequence + 1
			return entries, nil
		}
		select {
		case <-changed:
		case <-t.life.Done():
		case <-t.log.conn.closing:
		case <-ctx.Done():
		}
	}
}

// catchUp reads from the store, until stopped.
func (t *tail) catchUp(ctx context.Context) ([]state.Entry, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.life, cancel)()
	return t.log.Read(ctx, t.at, state.MaxAppend, t.entries[:0])
}

// ended is why there is nothing more to wait for.
func (t *tail) ended(ctx context.Context) error {
	if t.life.Err() != nil {
		return state.ErrClosed
	}
	if err := t.log.conn.closed(); err != nil {
		return err
	}
	return ctx.Err()
}

// follow begins to use the log's feed at the first Next.
func (t *tail) follow(ctx context.Context) error {
	t.mu.Lock()
	uses := t.uses
	t.mu.Unlock()
	if uses || t.life.Err() != nil {
		return nil
	}
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.life, cancel)()
	if t.log.feed.use(waiting) != nil {
		return t.ended(ctx)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.life.Err() != nil { // Stop found nothing to release
		t.log.feed.release()
		return nil
	}
	t.uses = true
	return nil
}

// Stop implements state.Tail.
func (t *tail) Stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.life.Err() != nil {
		return
	}
	t.stop()
	if t.uses {
		t.log.feed.release()
	}
}
