package history

import (
	"context"
	"fmt"
	"sync"
	"time"

	"maestrohub.io/uns/broker/historian"
	"maestrohub.io/uns/broker/value"
	"maestrohub.io/uns/tests/simulation/store"
)

// Client is one replica's way to a History. It implements historian.Historian.
type Client struct {
	history *History
	name    string
	dice    *store.Dice
	closing chan struct{}
	once    sync.Once
	flights *sync.WaitGroup

	mu      sync.Mutex // below
	delay   store.Span
	lost    float64 // share of writes whose answer never comes
	hung    bool
	frozen  bool
	refused bool
	changed chan struct{} // closed and replaced when any of it changes
}

// Client returns a way in. delay is how long each way takes; lost is the share of writes that are
// stored and whose answer does not come. flights is waited for before the end: it has
// what is on its way.
func (h *History) Client(name string, dice *store.Dice, delay store.Span, lost float64, flights *sync.WaitGroup) *Client {
	return &Client{history: h, name: name, dice: dice, closing: make(chan struct{}), delay: delay, lost: lost, flights: flights, changed: make(chan struct{})}
}

func (c *Client) set(with func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	with()
	close(c.changed)
	c.changed = make(chan struct{})
}

// Hang keeps writes from being made, and answers from coming, until it ends. A write that
// was given up on is made all the same then, or never.
func (c *Client) Hang(hung bool) { c.set(func() { c.hung = hung }) }

// Freeze is Hang for the sake of the process at this end.
func (c *Client) Freeze(frozen bool) { c.set(func() { c.frozen = frozen }) }

// Refuse has every write fail at once, as by a database that does not run.
func (c *Client) Refuse(refused bool) { c.set(func() { c.refused = refused }) }

// pass waits until nothing hangs; false: the client was closed.
func (c *Client) pass() bool {
	for {
		c.mu.Lock()
		free, changed := !c.hung && !c.frozen, c.changed
		c.mu.Unlock()
		if free {
			return true
		}
		select {
		case <-changed:
		case <-c.closing:
			return false
		}
	}
}

func (c *Client) sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.closing:
	}
}

// call does something there and returns when its answer is back.
func (c *Client) call(ctx context.Context, purpose string, do func() error) error {
	if err := ctx.Err(); err != nil {
		return ended(ctx)
	}
	select {
	case <-c.closing:
		return errClosed
	default:
	}
	r := c.dice.Roll(c.name + "/history " + purpose)
	c.mu.Lock()
	out, back, refused := pick(c.delay, r.Float64()), pick(c.delay, r.Float64()), c.refused
	lose, stray := r.Float64() < c.lost, r.IntN(2) == 0
	direct := out == 0 && back == 0 && !c.hung && !c.frozen && !lose
	c.mu.Unlock()
	if refused {
		return fmt.Errorf("%w: the database does not run", historian.ErrUnavailable)
	}
	if direct {
		return do()
	}
	answer := make(chan error, 1)
	c.flights.Go(func() {
		c.sleep(out)
		free := c.pass()
		if (!free || ctx.Err() != nil) && !stray {
			answer <- errClosed
			return // nobody waits for it, and it has not left
		}
		err := do()
		if lose {
			return
		}
		c.sleep(back)
		c.pass()
		answer <- err
	})
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ended(ctx)
	case <-c.closing:
		return errClosed
	}
}

func pick(s store.Span, share float64) time.Duration {
	return s.Min + time.Duration(share*float64(s.Max-s.Min))
}

// Append implements historian.Historian.
func (c *Client) Append(ctx context.Context, values []*value.Value) error {
	// What is on its way must not be the caller's, who may change it once this returns.
	own := make([]*value.Value, len(values))
	for i, v := range values {
		copied := *v
		own[i] = &copied
	}
	var positions []uint64
	err := c.call(ctx, "append", func() (err error) {
		positions, err = c.history.store(own)
		if err == nil && c.history.Stored != nil {
			c.history.Stored(c.name)
		}
		return err
	})
	if err != nil {
		return err
	}
	for i, v := range values {
		v.Position = positions[i]
	}
	return nil
}

// Read implements historian.Historian.
func (c *Client) Read(ctx context.Context, q historian.Query) (page historian.Page, err error) {
	err = c.call(ctx, "read", func() (err error) {
		page, err = c.history.read(q)
		return err
	})
	if err != nil {
		return historian.Page{}, err
	}
	return page, nil
}

// Check implements historian.Historian.
func (c *Client) Check(ctx context.Context) error {
	return c.call(ctx, "check", func() error { return nil })
}

// Close implements historian.Historian.
func (c *Client) Close() error {
	c.once.Do(func() { close(c.closing) })
	return nil
}
