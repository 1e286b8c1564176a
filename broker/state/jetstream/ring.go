package jetstream

import (
	"context"
	"sync"
	"time"

	"maestrohub.io/uns/broker/state"
)

// ring keeps the end of a log as its feed gave it: whole messages, without a
// gap, bounded in bytes.
type ring struct {
	most int

	mu      sync.Mutex // below
	start   uint64     // sequence of the oldest message kept
	held    []kept
	bytes   int
	changed chan struct{} // closed and replaced when something came
}

type kept struct {
	entries []state.Entry
	bytes   int
}

func newRing(most int) *ring { return &ring{most: most, start: 1, changed: make(chan struct{})} }

// reset empties the ring; the next message has this sequence.
func (r *ring) reset(next uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.start, r.held, r.bytes = next, nil, 0
	r.wake()
}

// add appends a message, dropping the oldest beyond the bound.
func (r *ring) add(sequence uint64, entries []state.Entry, bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if sequence != r.start+uint64(len(r.held)) {
		r.start, r.held, r.bytes = sequence, nil, 0
	}
	bytes += 64 * len(entries)
	r.held = append(r.held, kept{entries, bytes})
	r.bytes += bytes
	drop := 0
	for r.bytes > r.most && drop < len(r.held)-1 {
		r.bytes -= r.held[drop].bytes
		r.held[drop] = kept{}
		drop++
	}
	r.held = r.held[drop:]
	r.start += uint64(drop)
	r.wake()
}

func (r *ring) wake() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// take appends entries from a sequence on to dst, up to state.MaxAppend of them.
// behind: the sequence lies before what is kept, which begins with start.
func (r *ring) take(from uint64, dst []state.Entry) (entries []state.Entry, behind bool, start uint64, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := messageOf(from)
	if at < r.start {
		return dst, true, r.start, r.changed
	}
	for i := at - r.start; i < uint64(len(r.held)) && len(dst) < state.MaxAppend; i++ {
		for _, e := range r.held[i].entries {
			if e.Sequence >= from && len(dst) < state.MaxAppend {
				dst = append(dst, e)
			}
		}
	}
	return dst, false, r.start, r.changed
}

// tail implements state.Tail: a position, read from the ring where the ring
// still has it, else from the store.
type tail struct {
	log     *log
	at      uint64 // the next sequence wanted
	entries []state.Entry
	stopped chan struct{}
	once    sync.Once

	mu   sync.Mutex // below
	uses bool       // the log's feed
	over bool
}

// Tail implements state.Log.
func (l *log) Tail(from uint64) state.Tail {
	return &tail{log: l, at: max(from, 1), stopped: make(chan struct{})}
}

// Next implements state.Tail.
func (t *tail) Next(ctx context.Context) ([]state.Entry, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	unhook := make(chan struct{})
	defer close(unhook)
	go func() {
		select {
		case <-t.stopped:
			cancel(state.ErrClosed)
		case <-t.log.conn.closing:
			cancel(state.ErrClosed)
		case <-unhook:
		}
	}()
	entries, err := t.next(ctx)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return entries, err
}

func (t *tail) next(ctx context.Context) ([]state.Entry, error) {
	if err := t.follow(ctx); err != nil {
		return nil, err
	}
	clear(t.entries)
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		entries, behind, start, changed := t.log.ring.take(t.at, t.entries[:0])
		if behind {
			var err error
			entries, err = t.log.Read(ctx, t.at, state.MaxAppend, t.entries[:0])
			if err != nil {
				// The store does not answer: it is waited for.
				if err := t.log.conn.rest(ctx, 100*time.Millisecond); err != nil {
					return nil, err
				}
				continue
			}
			if len(entries) == 0 {
				// Read saw all the ring knows of: the log has dropped it.
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
		case <-ctx.Done():
		}
	}
}

// follow begins to use the log's feed at the first Next.
func (t *tail) follow(ctx context.Context) error {
	t.mu.Lock()
	uses, over := t.uses, t.over
	t.mu.Unlock()
	if over {
		return state.ErrClosed
	}
	if uses {
		return nil
	}
	if err := t.log.feed.use(ctx); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		t.log.feed.release()
		return state.ErrClosed
	}
	t.uses = true
	return nil
}

// Stop implements state.Tail.
func (t *tail) Stop() {
	t.once.Do(func() {
		close(t.stopped)
		t.mu.Lock()
		defer t.mu.Unlock()
		t.over = true
		if t.uses {
			t.log.feed.release()
		}
	})
}
