package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"maestrohub.io/uns/broker/state"
)

// lock implements state.Lock as a record of the locks' bucket that its holder
// rewrites. Who waits watches the record: deleted, it is free; unchanged for
// LockLease on the waiter's own clock, or said to be over by who waits (Succeed),
// its holder is taken to be gone, and the record is overwritten on condition that
// it is still that revision. The holder
// counts from when it sent a renewal that landed and lets go at 2/3 of the
// lease, so before anybody else can take over, whatever the clocks say.
type lock struct {
	store *Store
	name  string
}

// Lock implements state.Store.
func (s *Store) Lock(name string) state.Lock { return &lock{store: s, name: name} }

// Acquire implements state.Lock.
func (l *lock) Acquire(ctx context.Context) (state.Held, error) {
	return l.Succeed(ctx, func(string) bool { return false })
}

// Succeed implements state.Succession.
func (l *lock) Succeed(ctx context.Context, over func(replica string) bool) (state.Held, error) {
	if err := state.CheckName("lock", l.name); err != nil {
		return nil, err
	}
	b, err := l.store.bucket(ctx, state.Locks)
	if err != nil {
		return nil, fmt.Errorf("acquire %s: %w", l.name, err)
	}
	h := &held{lock: l, bucket: b, over: over, value: []byte(l.store.options.Replica + " " + newID()),
		lost: make(chan struct{}), released: make(chan struct{})}
	if err := h.take(ctx); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		if l.store.closed() != nil {
			err = state.ErrClosed
		}
		return nil, fmt.Errorf("acquire %s: %w", l.name, err)
	}
	go h.keep()
	return h, nil
}

// held is a lock from the moment it is wanted.
type held struct {
	lock     *lock
	bucket   *bucket
	value    []byte // tells this holding from every other
	revision uint64
	sent     time.Time // when the last renewal that landed was sent

	over   func(replica string) bool
	holder string // the replica that holds it while this one waits

	lost     chan struct{}
	released chan struct{}
	once     sync.Once
}

// take waits until the lock is free and takes it.
func (h *held) take(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var watch state.Watch
	expected := uint64(0)
	for {
		h.sent = time.Now()
		var err error
		if expected == 0 {
			h.revision, err = h.bucket.Create(ctx, h.lock.name, h.value)
		} else {
			h.revision, err = h.bucket.Update(ctx, h.lock.name, h.value, expected)
		}
		switch {
		case err == nil:
			return nil
		case errors.Is(err, state.ErrUnknown):
			go h.undo()
			return err
		case !errors.Is(err, state.ErrConflict):
			return err
		}
		if watch == nil {
			if watch, err = h.bucket.Watch(ctx, h.lock.name); err != nil {
				return err
			}
		}
		if expected, err = h.wait(ctx, watch, expected); err != nil {
			return err
		}
	}
}

// lookEvery is how often who waits for a lock asks whether its holder is over.
const lookEvery = 200 * time.Millisecond

// wait returns when the lock may be taken: the revision to overwrite, or 0 if
// there is none.
func (h *held) wait(ctx context.Context, watch state.Watch, refused uint64) (uint64, error) {
	lease := h.lock.store.options.LockLease
	lapse := time.NewTimer(lease)
	defer lapse.Stop()
	look := time.NewTicker(min(lease/90, lookEvery))
	defer look.Stop()
	there := refused
	for {
		select {
		case u, ok := <-watch.Updates():
			switch {
			case !ok && ctx.Err() != nil:
				return 0, ctx.Err()
			case !ok:
				return 0, state.ErrClosed
			case u.Lost:
				there = 0
			case u.Ready:
				if there == 0 {
					return 0, nil
				}
			case u.Key != h.lock.name:
			case u.Deleted:
				return 0, nil
			default:
				there = u.Revision
				h.holder, _, _ = strings.Cut(string(u.Value), " ")
				lapse.Reset(lease)
			}
		case <-look.C:
			if there > 0 && h.holder != "" && h.over(h.holder) {
				return there, nil
			}
		case <-lapse.C:
			return there, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// keep renews the record until the lock is released or cannot be kept.
func (h *held) keep() {
	lease := h.lock.store.options.LockLease
	tick := time.NewTicker(lease / 9)
	defer tick.Stop()
	defer close(h.lost)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var renewing chan renewal
	for {
		var lapse <-chan time.Time
		timer := time.NewTimer(time.Until(h.sent.Add(lease * 2 / 3)))
		lapse = timer.C
		select {
		case <-tick.C:
			if renewing == nil {
				renewing = make(chan renewal, 1)
				go h.renew(ctx, h.revision, renewing)
			}
		case r := <-renewing:
			renewing = nil
			switch {
			case r.err == nil:
				h.revision, h.sent = r.revision, r.sent
			case errors.Is(r.err, state.ErrConflict), errors.Is(r.err, state.ErrClosed):
				timer.Stop()
				return
			}
		case <-lapse:
			go h.undo()
			return
		case <-h.released:
			timer.Stop()
			cancel()
			if renewing != nil {
				<-renewing
				go h.undo()
				return
			}
			h.giveBack()
			return
		case <-h.lock.store.closing:
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

type renewal struct {
	revision uint64
	sent     time.Time
	err      error
}

func (h *held) renew(ctx context.Context, revision uint64, done chan<- renewal) {
	r := renewal{sent: time.Now()}
	ctx, cancel := context.WithTimeout(ctx, h.lock.store.options.LockLease)
	defer cancel()
	r.revision, r.err = h.bucket.Update(ctx, h.lock.name, h.value, revision)
	done <- r
}

// giveBack deletes the record so that the next one waiting has the lock at
// once. If that fails the lease lapses.
func (h *held) giveBack() {
	ctx, cancel := context.WithTimeout(context.Background(), h.lock.store.options.LockLease)
	defer cancel()
	if _, err := h.bucket.Delete(ctx, h.lock.name, h.revision); err != nil && !errors.Is(err, state.ErrConflict) {
		h.lock.store.options.Logger.Warn("broker cluster: a lock was not given back and will lapse", "lock", h.lock.name, "error", err)
	}
}

// undo deletes the record if a write of this holding landed late.
func (h *held) undo() {
	ctx, cancel := context.WithTimeout(context.Background(), h.lock.store.options.LockLease)
	defer cancel()
	for {
		r, err := h.bucket.Get(ctx, h.lock.name)
		if err == nil && string(r.Value) == string(h.value) {
			if _, err = h.bucket.Delete(ctx, h.lock.name, r.Revision); err == nil {
				return
			}
		}
		if h.bucket.conn.rest(ctx, time.Second) != nil {
			return
		}
	}
}

func (h *held) Lost() <-chan struct{} { return h.lost }

// Release returns when the lock is free, or cannot be given back for now.
func (h *held) Release() {
	h.once.Do(func() { close(h.released) })
	<-h.lost
}
