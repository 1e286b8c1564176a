package store

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"maestrohub.io/uns/broker/state"
)

// mode is what is wrong with a connection.
type mode uint8

const (
	up       mode = iota
	cut           // nothing passes
	hung          // the server at its other end does not run
	isolated      // the server at its other end is alone
)

// conn is one of a client's two connections.
type conn struct {
	client *Client
	lease  bool
	name   string // for the dice

	mu     sync.Mutex // below
	mode   mode
	since  time.Time // of the mode
	frozen bool      // the process at this end does not run
	froze  time.Time
	hold   time.Duration // of every answer
	// changed is closed and replaced when any of it changes.
	changed chan struct{}
}

func newConn(c *Client, name string, lease bool) *conn {
	return &conn{client: c, lease: lease, name: c.name + "/" + name, changed: make(chan struct{})}
}

func (c *conn) set(with func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	with()
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *conn) become(m mode) {
	c.set(func() {
		if c.mode != m {
			c.mode, c.since = m, time.Now()
		}
	})
}

// condition is what a connection is like at a moment.
type condition struct {
	mode    mode
	since   time.Time
	frozen  bool
	hold    time.Duration
	changed <-chan struct{} // closed when it is no longer so
}

func (c *conn) look() condition {
	c.mu.Lock()
	defer c.mu.Unlock()
	return condition{c.mode, c.since, c.frozen, c.hold, c.changed}
}

// direct reports whether nothing at all is wrong.
func (c *conn) direct(l *Lies) bool {
	k := c.look()
	return l.honest() && k.mode == up && !k.frozen && k.hold == 0
}

// silent is for how long nothing has come.
func (c *conn) silent() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	var since time.Time
	if c.mode == cut || c.mode == hung {
		since = c.since
	}
	if c.frozen && (since.IsZero() || c.froze.Before(since)) {
		since = c.froze
	}
	if since.IsZero() {
		return 0
	}
	return time.Since(since)
}

// pass waits until may says that something gets through. The error is ctx's, or
// ErrClosed when the client is closed.
func (c *conn) pass(ctx context.Context, may func(k condition) bool) error {
	for {
		k := c.look()
		if may(k) {
			return nil
		}
		select {
		case <-k.changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-c.client.closing:
			return state.ErrClosed
		}
	}
}

// Who gets through: to any server, to one that acts on writes, to one that answers
// reads, and back to the process.
func connected(k condition) bool { return k.mode != cut }
func acting(k condition) bool    { return k.mode == up && !k.frozen }
func answering(k condition) bool { return (k.mode == up || k.mode == isolated) && !k.frozen }

// sleep waits. The error is ctx's, or ErrClosed when the client is closed.
func (c *conn) sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.client.closing:
		return state.ErrClosed
	}
}

// comeBack waits until an answer given now gets through to the process.
func (c *conn) comeBack(ctx context.Context) error {
	given := time.Now()
	for {
		if err := c.pass(ctx, answering); err != nil {
			return err
		}
		wait := time.Until(given.Add(c.look().hold))
		if wait <= 0 {
			return nil
		}
		if err := c.sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// flight is a write on its way. Its fate is known when done is closed.
type flight struct {
	conn *conn
	// land is called when it lands: once at most. waited says whether anybody waits for the
	// answer then.
	land    func(waited bool)
	waits   context.Context // whoever waits for the answer
	request time.Duration
	reply   time.Duration
	// survives: it has reached a server before the connection is cut. ghost: it has when
	// the process is killed, and lands after that long.
	survives, ghost bool
	ghostAfter      time.Duration

	done   chan struct{} // the answer is back
	landed chan struct{} // it has landed, or never will
	void   atomic.Bool   // no definite answer will come
}

// write has land called when the write lands, and returns when the answer is back.
//
// nil: what land has done is the caller's to read. ErrUnavailable: it never left.
// ErrUnknown: land was called, is called later or never.
func (c *conn) write(ctx context.Context, purpose string, lie bool, land func(waited bool)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.client.closed() {
		return state.ErrClosed
	}
	lies := c.client.lies()
	if c.direct(&lies) {
		land(true)
		return nil
	}
	f, err := c.depart(ctx, purpose, lie, land)
	if err != nil {
		return err
	}
	return f.wait(ctx)
}

// wait returns what is known of a flight when it is back, or at the end of ctx.
func (f *flight) wait(ctx context.Context) error {
	select {
	case <-f.done:
		if f.void.Load() {
			return fmt.Errorf("%w: no definite answer", state.ErrUnknown)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", state.ErrUnknown, ctx.Err())
	case <-f.conn.client.closing:
		return state.ErrClosed
	}
}

// depart sends a write on its way, once the connection is there.
func (c *conn) depart(ctx context.Context, purpose string, lie bool, land func(waited bool)) (*flight, error) {
	if err := c.pass(ctx, connected); err != nil {
		if c.client.closed() {
			return nil, state.ErrClosed
		}
		return nil, fmt.Errorf("%w: not connected: %w", state.ErrUnavailable, err)
	}
	lies := c.client.lies()
	r := c.client.server.dice.Roll(c.name + "/" + purpose)
	f := &flight{conn: c, land: land, waits: ctx, request: lies.Request.pick(r), reply: lies.Reply.pick(r),
		done: make(chan struct{}), landed: make(chan struct{})}
	if r.Float64() < lies.Late {
		f.request += lies.LateBy.pick(r)
	}
	f.survives, f.ghost = r.IntN(2) == 0, lies.Ghosts.lands(r)
	f.ghostAfter = Span{0, 14 * time.Second}.pick(r)
	go1 := f.fly
	if _, bounded := ctx.Deadline(); lie && bounded && r.Float64() < lies.Unknown {
		after, never := Span{50 * time.Millisecond, 5 * time.Second}.pick(r), r.IntN(3) == 0
		if r.IntN(2) == 0 {
			f.request += lies.LateBy.pick(r)
		}
		go1 = func() { f.lie(after, never) }
	}
	if left := c.client.server.o.Left; left != nil {
		left(c.client.name, purpose, c.lease)
	}
	c.client.server.flights.Go(go1)
	return f, nil
}

// fly takes a write to where it lands, and its answer back.
func (f *flight) fly() {
	defer close(f.done)
	if f.outbound() {
		f.land(f.waits.Err() == nil && !f.conn.client.closed())
	} else {
		f.void.Store(true)
	}
	close(f.landed)
	c := f.conn
	if f.void.Load() || c.sleep(context.Background(), f.reply) != nil || c.comeBack(context.Background()) != nil {
		f.void.Store(true)
	}
}

// outbound waits until the request lands; false: it never does.
func (f *flight) outbound() bool {
	c, err := f.conn, f.conn.sleep(context.Background(), f.request)
	for err == nil {
		k := c.look()
		if acting(k) {
			return true
		}
		if k.mode == cut && !f.survives {
			// Lost with the connection: it is sent again over the next one, if anybody
			// still waits for it.
			if err = c.pass(f.waits, connected); err != nil && !c.client.closed() {
				return false
			}
			continue
		}
		err = c.pass(context.Background(), func(k condition) bool { return acting(k) || k.mode == cut && !f.survives })
	}
	// The process is dead. What it had sent may have left it.
	if f.ghost {
		pause(f.ghostAfter)
	}
	return f.ghost
}

// lie gives no definite answer, and lands sooner or later, or never.
func (f *flight) lie(after time.Duration, never bool) {
	f.void.Store(true)
	waited := true
	answer := func() { waited = false; close(f.done) }
	land := func() {
		if !never {
			f.land(waited && f.waits.Err() == nil && !f.conn.client.closed())
		}
		close(f.landed)
	}
	if after < f.request {
		pause(after)
		answer()
		pause(f.request - after)
		land()
		return
	}
	pause(f.request)
	land()
	pause(after - f.request)
	answer()
}

func pause(d time.Duration) {
	t := time.NewTimer(d)
	<-t.C
}

// read calls of with the moment the read is of: now, or earlier.
func (c *conn) read(ctx context.Context, purpose string, of func(stale bool, asOf time.Time) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.client.closed() {
		return state.ErrClosed
	}
	lies := c.client.lies()
	if c.direct(&lies) {
		return of(false, time.Now())
	}
	r := c.client.server.dice.Roll(c.name + "/" + purpose)
	unavailable := func(err error) error {
		if c.client.closed() {
			return state.ErrClosed
		}
		return fmt.Errorf("%w: %w", state.ErrUnavailable, err)
	}
	if err := c.pass(ctx, answering); err != nil {
		return unavailable(err)
	}
	if err := c.sleep(ctx, lies.Request.pick(r)); err != nil {
		return unavailable(err)
	}
	asOf, stale := time.Now(), false
	if r.Float64() < lies.Stale {
		asOf, stale = asOf.Add(-lies.StaleBy.pick(r)), true
	}
	if k := c.look(); k.mode == isolated && k.since.Before(asOf) {
		asOf, stale = k.since, true
	}
	answer := of(stale, asOf)
	if err := c.sleep(ctx, lies.Reply.pick(r)); err != nil {
		return unavailable(err)
	}
	if err := c.comeBack(ctx); err != nil {
		return unavailable(err)
	}
	return answer
}
