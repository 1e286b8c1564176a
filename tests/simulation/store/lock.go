package store

import (
	"context"
	"sync"
	"time"

	"maestrohub.io/uns/broker/state"
)

// lock implements state.Lock as state/jetstream does: a record that the holder renews,
// free when it is deleted or was not renewed for a while.
type lock struct {
	client *Client
	name   string
}

// Lock implements state.Store.
func (c *Client) Lock(name string) state.Lock { return &lock{client: c, name: name} }

// held is a lock from when it was taken.
type held struct {
	lock     *lock
	renewed  time.Time // by the server's clock; owner: its mu
	lost     chan struct{}
	released chan struct{}
	once     sync.Once
}

// Acquire implements state.Lock.
func (l *lock) Acquire(ctx context.Context) (state.Held, error) {
	if err := state.CheckName("lock", l.name); err != nil {
		return nil, err
	}
	h := &held{lock: l, lost: make(chan struct{}), released: make(chan struct{})}
	lease := l.client.server.o.LockLease
	for {
		sent, taken := time.Now(), false
		err := l.client.shared.write(ctx, "lock "+l.name, false, func(bool) { taken = h.take() })
		switch {
		case l.client.closed():
			return nil, state.ErrClosed
		case err == nil && taken:
			go h.keep(sent)
			return h, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		}
		if err := l.client.shared.sleep(ctx, min(lease/90, 200*time.Millisecond)); err != nil {
			return nil, err
		}
	}
}

// take takes the lock if it is free, or renews it.
func (h *held) take() bool {
	s := h.lock.client.server
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if other := s.locks[h.lock.name]; other != nil && other != h && now.Sub(other.renewed) < s.o.LockLease {
		return false
	}
	s.locks[h.lock.name], h.renewed = h, now
	return true
}

// give gives it back.
func (h *held) give() {
	s := h.lock.client.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.locks[h.lock.name] == h {
		delete(s.locks, h.lock.name)
	}
}

// keep renews the lock until it is released, or could not be for two thirds of the
// lease: before anybody else can take it.
func (h *held) keep(sent time.Time) {
	defer close(h.lost)
	c := h.lock.client
	lease := c.server.o.LockLease
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	tick := time.NewTicker(lease / 9)
	defer tick.Stop()
	renewals := make(chan time.Time, 16)
	lapse := time.NewTimer(time.Until(sent.Add(lease * 2 / 3)))
	defer lapse.Stop()
	for {
		select {
		case <-tick.C:
			c.server.flights.Go(func() {
				at, kept := time.Now(), false
				if c.shared.write(ctx, "lock "+h.lock.name, false, func(bool) { kept = h.take() }) == nil && kept {
					select {
					case renewals <- at:
					default:
					}
				}
			})
		case at := <-renewals:
			if at.After(sent) {
				sent = at
				lapse.Reset(time.Until(sent.Add(lease * 2 / 3)))
			}
		case <-lapse.C:
			return
		case <-h.released:
			bound, done := context.WithTimeout(context.Background(), lease)
			_ = c.shared.write(bound, "lock "+h.lock.name, false, func(bool) { h.give() }) // else it lapses
			done()
			return
		case <-c.closing:
			return
		}
	}
}

// Lost implements state.Held.
func (h *held) Lost() <-chan struct{} { return h.lost }

// Release implements state.Held.
func (h *held) Release() {
	h.once.Do(func() { close(h.released) })
	<-h.lost
}
