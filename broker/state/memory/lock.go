package memory

import (
	"context"
	"sync"

	"maestrohub.io/uns/broker/state"
)

type lock struct {
	store *Store
	name  string
	held  chan struct{} // full while held
}

// Lock implements state.Store. Waiters get it in no particular order.
func (s *Store) Lock(name string) state.Lock {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.locks[name]
	if held == nil {
		held = make(chan struct{}, 1)
		s.locks[name] = held
	}
	return &lock{store: s, name: name, held: held}
}

func (l *lock) Acquire(ctx context.Context) (state.Held, error) {
	if err := state.CheckName("lock", l.name); err != nil {
		return nil, err
	}
	if err := l.store.open(); err != nil {
		return nil, err
	}
	select {
	case l.held <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-l.store.closing:
		return nil, state.ErrClosed
	}
	h := &held{lock: l, lost: make(chan struct{}), released: make(chan struct{})}
	go h.wait()
	return h, nil
}

type held struct {
	lock     *lock
	lost     chan struct{}
	released chan struct{}
	once     sync.Once
}

// wait gives the lock on when it is released or the store closes; Lost is
// closed first, so that two never see themselves as holder.
func (h *held) wait() {
	select {
	case <-h.released:
	case <-h.lock.store.closing:
	}
	close(h.lost)
	<-h.lock.held
}

func (h *held) Lost() <-chan struct{} { return h.lost }

// Release returns only when the lock is free.
func (h *held) Release() {
	h.once.Do(func() { close(h.released) })
	<-h.lost
}
