package store

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"maestrohub.io/uns/broker/state"
)

// stampBytes is what a record in the true log begins with: its time.
const stampBytes = 8

func stamped(records [][]byte, now time.Time) [][]byte {
	out := make([][]byte, len(records))
	for i, r := range records {
		out[i] = append(binary.BigEndian.AppendUint64(make([]byte, 0, stampBytes+len(r)), uint64(now.UnixNano())), r...)
	}
	return out
}

// unstamp gives entries of the true log the time they were appended at.
func unstamp(entries []state.Entry) {
	for i := range entries {
		e := &entries[i]
		e.Time = time.Unix(0, int64(binary.BigEndian.Uint64(e.Data)))
		e.Data = e.Data[stampBytes:]
	}
}

// log implements state.Log. Appends of one client are one at a time.
type log struct {
	client    *Client
	workspace string
	inner     state.Log
	// known is the highest sequence this client has seen: no read lags behind it.
	known atomic.Uint64
	// turn holds a token while a batch is out.
	turn chan struct{}

	mu        sync.Mutex
	abandoned chan struct{} // closed, and replaced, by Abandon
}

func (l *log) seen(sequence uint64) {
	for {
		k := l.known.Load()
		if sequence <= k || l.known.CompareAndSwap(k, sequence) {
			return
		}
	}
}

// Append implements state.Log.
func (l *log) Append(ctx context.Context, records [][]byte) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	c := l.client.shared
	if l.client.closed() {
		return 0, state.ErrClosed
	}
	lies := l.client.lies()
	if c.direct(&lies) && len(l.turn) == 0 {
		first, err := l.client.server.append(c, l.workspace, records)
		if err == nil {
			l.seen(first + uint64(len(records)) - 1)
		}
		return first, err
	}
	own := make([][]byte, len(records))
	for i, r := range records {
		own[i] = append([]byte(nil), r...)
	}
	l.mu.Lock()
	abandoned := l.abandoned
	l.mu.Unlock()
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return 0, fmt.Errorf("%w: the batch before it has no answer yet: %w", state.ErrUnavailable, ctx.Err())
	case <-abandoned:
		return 0, fmt.Errorf("%w: abandoned", state.ErrUnavailable)
	case <-l.client.closing:
		return 0, state.ErrClosed
	}
	var first uint64
	var err error
	// The writer sees a batch through whether or not anybody waits for it.
	life, stop := context.WithCancel(context.Background())
	f, gone := c.depart(life, "append", false, func(bool) { first, err = l.client.server.append(c, l.workspace, own) })
	if gone != nil {
		stop()
		<-l.turn
		return 0, gone
	}
	go func() {
		<-f.landed
		stop()
		<-l.turn
	}()
	select {
	case <-f.done:
	case <-ctx.Done():
		return 0, fmt.Errorf("%w: %w", state.ErrUnknown, ctx.Err())
	case <-abandoned:
		// What is out lands before anything else of this writer, or a fence sees to it
		// that it never does.
		stop()
		return 0, fmt.Errorf("%w: abandoned", state.ErrUnknown)
	case <-l.client.closing:
		return 0, state.ErrClosed
	}
	if f.void.Load() {
		return 0, fmt.Errorf("%w: no definite answer", state.ErrUnknown)
	}
	if err == nil {
		l.seen(first + uint64(len(records)) - 1)
	}
	return first, err
}

// Abandon gives up what is out, as a replica does that may no longer act.
func (l *log) Abandon() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.abandoned)
	l.abandoned = make(chan struct{})
}

// behind is up to which sequence a reader sees.
func (l *log) behind(stale bool, asOf time.Time) uint64 {
	_, last, err := l.inner.Bounds(context.Background())
	if err != nil {
		return l.known.Load()
	}
	for stale && last > l.known.Load() {
		entries, err := l.inner.Read(context.Background(), last, 1, nil)
		if err != nil || len(entries) == 0 {
			break
		}
		unstamp(entries)
		if !entries[0].Time.After(asOf) {
			break
		}
		last--
	}
	return max(last, l.known.Load())
}

// Read implements state.Log.
func (l *log) Read(ctx context.Context, from uint64, most int, dst []state.Entry) ([]state.Entry, error) {
	begin := len(dst)
	err := l.client.shared.read(ctx, "read log", func(stale bool, asOf time.Time) (err error) {
		last := l.behind(stale, asOf)
		if dst, err = l.inner.Read(context.Background(), from, most, dst); err != nil {
			return err
		}
		unstamp(dst[begin:])
		for len(dst) > begin && dst[len(dst)-1].Sequence > last {
			dst = dst[:len(dst)-1]
		}
		return nil
	})
	if err != nil {
		return dst[:begin], err
	}
	if n := len(dst); n > begin {
		l.seen(dst[n-1].Sequence)
	}
	return dst, nil
}

// Bounds implements state.Log.
func (l *log) Bounds(ctx context.Context) (first, last uint64, err error) {
	err = l.client.shared.read(ctx, "bounds of log", func(stale bool, asOf time.Time) (err error) {
		if first, last, err = l.inner.Bounds(context.Background()); err == nil {
			last = max(min(last, l.behind(stale, asOf)), first-1)
		}
		return err
	})
	return first, last, err
}

// Known implements state.Knower.
func (l *log) Known() uint64 { return l.known.Load() + 1 }

// Tail implements state.Log.
func (l *log) Tail(from uint64) state.Tail {
	return &tail{log: l, inner: l.inner.Tail(from)}
}

// tail follows a log from behind.
type tail struct {
	log     *log
	inner   state.Tail
	once    sync.Once
	stopped atomic.Bool
	// waiting are entries that have come and are not due yet.
	waiting []state.Entry
	due     time.Time
}

// Next implements state.Tail.
func (t *tail) Next(ctx context.Context) ([]state.Entry, error) {
	c := t.log.client.shared
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-t.log.client.closing:
			cancel()
		case <-ended:
		}
	}()
	fail := func(err error) ([]state.Entry, error) {
		if t.stopped.Load() || t.log.client.closed() {
			return nil, state.ErrClosed
		}
		return nil, err
	}
	if len(t.waiting) == 0 {
		entries, err := t.inner.Next(ctx)
		if err != nil {
			return fail(err)
		}
		t.waiting = append(t.waiting[:0], entries...)
		unstamp(t.waiting)
		lies := t.log.client.lies()
		if !c.direct(&lies) {
			due := time.Now().Add(lies.Lag.pick(t.log.client.server.dice.Roll(c.name + "/tail")))
			if due.After(t.due) {
				t.due = due
			}
		}
	}
	if err := c.sleep(ctx, time.Until(t.due)); err != nil {
		return fail(err)
	}
	if err := c.pass(ctx, acting); err != nil {
		return fail(err)
	}
	entries := t.waiting
	t.waiting = nil
	t.log.seen(entries[len(entries)-1].Sequence)
	return entries, nil
}

// Stop implements state.Tail.
func (t *tail) Stop() {
	t.once.Do(func() {
		t.stopped.Store(true)
		t.inner.Stop()
	})
}
