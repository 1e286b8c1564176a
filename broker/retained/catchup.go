package retained

import (
	"context"
	"fmt"
	"sync"
	"time"

	"maestrohub.io/uns/broker/state"
)

// catching is who waits for the copy to be as the bucket is. The bucket is asked once for
// all who came before it was asked.
type catching struct {
	mu      sync.Mutex
	running bool
	next    *round // who is asked for next; nil: nobody waits
	watch   state.Watch
	reached uint64        // the last mark that watch has given
	changed chan struct{} // closed and replaced when watch or reached changes
}

// round is those who are asked for together. err is set before done is closed.
type round struct {
	done chan struct{}
	err  error
}

// roundBound is how long the bucket is waited for before those who came meanwhile are
// asked for, too.
const roundBound = 15 * time.Second

// CatchUp returns once Match and Get know of every message that a Put anywhere confirmed
// before the call. It costs one request to the store, shared by all who wait.
func (r *Retained) CatchUp(ctx context.Context) error {
	c := &r.catching
	c.mu.Lock()
	if c.next == nil {
		c.next = &round{done: make(chan struct{})}
		if !c.running {
			c.running = true
			go r.catchUp()
		}
	}
	mine := c.next
	c.mu.Unlock()
	select {
	case <-mine.done:
		return mine.err
	case <-ctx.Done():
		return fmt.Errorf("catch up with the retained messages: %w", ctx.Err())
	}
}

// catchUp asks for one round after the other until nobody waits.
func (r *Retained) catchUp() {
	c := &r.catching
	for {
		c.mu.Lock()
		now := c.next
		c.next = nil
		if now == nil {
			c.running = false
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
		ctx, cancel := context.WithTimeout(r.running, roundBound)
		if err := r.reach(ctx); err != nil {
			now.err = fmt.Errorf("catch up with the retained messages: %w", err)
		}
		cancel()
		close(now.done)
	}
}

// reach waits until the watch has given what the bucket has now.
func (r *Retained) reach(ctx context.Context) error {
	c := &r.catching
	c.mu.Lock()
	watch := c.watch
	c.mu.Unlock()
	mark, err := watch.Mark(ctx)
	if err != nil {
		return err
	}
	for {
		c.mu.Lock()
		reached, anew, changed := c.reached >= mark, c.watch != watch, c.changed
		c.mu.Unlock()
		switch {
		case anew:
			return fmt.Errorf("%w: the watch has begun anew", state.ErrUnavailable)
		case reached:
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// follows says which watch the copy follows now, and how far that has come.
func (c *catching) follows(w state.Watch, reached uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watch, c.reached = w, reached
	if c.changed != nil {
		close(c.changed)
	}
	c.changed = make(chan struct{})
}
