package memory

import (
	"context"
	"sync"
	"time"

	"maestrohub.io/uns/broker/state"
)

// tail implements state.Tail: a position, and a token to wait for. It is in
// log.waiting exactly while its wake is empty and Next waits for it.
type tail struct {
	log     *log
	at      uint64 // the next sequence wanted
	entries []state.Entry
	wake    chan struct{} // room for one token
	stopped chan struct{}
	once    sync.Once
}

// Tail implements state.Log.
func (l *log) Tail(from uint64) state.Tail {
	return &tail{log: l, at: from, wake: make(chan struct{}, 1), stopped: make(chan struct{})}
}

// Next implements state.Tail.
func (t *tail) Next(ctx context.Context) ([]state.Entry, error) {
	clear(t.entries)
	t.entries = t.entries[:0]
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		select {
		case <-t.stopped:
			return nil, state.ErrClosed
		default:
		}
		t.log.mu.RLock()
		t.entries = t.log.read(t.at, state.MaxAppend, t.entries)
		t.log.mu.RUnlock()
		if n := len(t.entries); n > 0 {
			t.at = t.entries[n-1].Sequence + 1
			return t.entries, nil
		}
		if wait, err := t.enter(); err != nil {
			return nil, err
		} else if !wait {
			continue
		}
		select {
		case <-t.wake:
		case <-ctx.Done():
			t.leave()
		case <-t.stopped:
			t.leave()
		}
	}
}

// enter puts the tail among the waiting ones unless there is something to read: what is
// too old and not dropped yet is not.
func (t *tail) enter() (wait bool, err error) {
	t.log.mu.Lock()
	defer t.log.mu.Unlock()
	if t.log.closed {
		return false, state.ErrClosed
	}
	if max(t.at, t.log.firstAt(time.Now().UnixNano())) < t.log.next {
		return false, nil
	}
	t.log.waiting[t] = struct{}{}
	return true, nil
}

// leave takes the tail out of the waiting ones, or the token it was given.
func (t *tail) leave() {
	t.log.mu.Lock()
	defer t.log.mu.Unlock()
	if _, waits := t.log.waiting[t]; waits {
		delete(t.log.waiting, t)
		return
	}
	<-t.wake
}

// Stop implements state.Tail.
func (t *tail) Stop() { t.once.Do(func() { close(t.stopped) }) }
