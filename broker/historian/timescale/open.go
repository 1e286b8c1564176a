package timescale

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"maestrohub.io/uns/broker/historian"
)

// Historian is a historian.Historian over a TimescaleDB or PostgreSQL database.
type Historian struct {
	opts   Options
	log    *slog.Logger
	sql    *strings.Replacer // puts the schema's name into statements
	writes *pgxpool.Pool
	reads  *pgxpool.Pool

	mu     sync.Mutex
	closed bool
	calls  sync.WaitGroup // Append, Read, Check and the sweeper
	stop   context.CancelFunc
	known  *knowledge

	settingUp  sync.Mutex // one setup at a time; before mu
	noteUnsafe sync.Once
	// full says that the last write found the server's disk full.
	full atomic.Bool
	// ownRetention: no policy of TimescaleDB removes old rows, the sweeper does.
	ownRetention atomic.Bool
	// down says that an outage was logged and its end was not.
	down atomic.Bool
}

var _ historian.Historian = (*Historian)(nil)

// Open connects to the database of the URL, a libpq connection URL, and makes or
// updates the schema. A database that cannot be reached now is no error: the
// historian is then unavailable until it can be, as later in its life. An error is
// what only a person can put right: a malformed URL, a server too old, a database
// that is not UTF-8 or that a newer release has changed.
func Open(ctx context.Context, url string, o Options) (*Historian, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("open history: %w", err)
	}
	h := &Historian{
		opts: o, log: o.Logger, known: &knowledge{},
		sql: strings.NewReplacer("@schema", o.Schema, "@block", fmt.Sprint(positionBlock)),
	}
	if h.writes, err = h.pool(url, o.WriteConnections, o.WriteTimeout); err != nil {
		return nil, fmt.Errorf("open history: %w", err)
	}
	if h.reads, err = h.pool(url, o.ReadConnections, o.ReadTimeout); err != nil {
		h.writes.Close()
		return nil, fmt.Errorf("open history: %w", err)
	}
	err = h.prepare(ctx)
	var wrong *unusable
	switch {
	case errors.As(err, &wrong), err != nil && ctx.Err() != nil:
		h.writes.Close()
		h.reads.Close()
		return nil, err
	case err != nil:
		h.noteOutage(err)
	}
	running, stop := context.WithCancel(context.Background())
	h.stop = stop
	h.calls.Add(1)
	go h.sweeper(running)
	return h, nil
}

// prepare makes the schema ready within a bounded time.
func (h *Historian) prepare(ctx context.Context) error {
	return h.bounded(ctx, h.opts.WriteTimeout, "open history", func(ctx context.Context) error {
		s, err := h.session(ctx, h.writes)
		if err != nil {
			return err
		}
		s.release()
		return nil
	})
}

// Close implements historian.Historian.
func (h *Historian) Close() error {
	h.mu.Lock()
	first := !h.closed
	h.closed = true
	h.mu.Unlock()
	if first {
		h.stop()
	}
	h.calls.Wait()
	if first {
		h.writes.Close()
		h.reads.Close()
	}
	return nil
}

// errClosed is the cause after Close.
var errClosed = fmt.Errorf("%w: the historian is closed", historian.ErrUnavailable)

// enter begins a call that Close waits for; the caller ends it with h.calls.Done.
func (h *Historian) enter() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return errClosed
	}
	h.calls.Add(1)
	return nil
}

// errTooSlow is the cause of a bound that this package set, not the caller.
var errTooSlow = errors.New("no answer in time")

// bounded runs f under the caller's context and a bound of its own, and says which
// of them ended it. what begins the error.
func (h *Historian) bounded(ctx context.Context, limit time.Duration, what string, f func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	limited, cancel := context.WithTimeoutCause(ctx, limit, errTooSlow)
	defer cancel()
	err := f(limited)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", what, ctx.Err())
	case limited.Err() != nil:
		return fmt.Errorf("%s: %w: the database did not answer within %v", what, historian.ErrUnavailable, limit)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// abandon ends a transaction or connection whose outcome nobody waits for, within a
// few seconds, also if the context has ended.
func abandon(ctx context.Context, end func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectTimeout)
	defer cancel()
	_ = end(ctx)
}

// noteOutage logs the first of a row of failures that an operator has to know of.
func (h *Historian) noteOutage(err error) {
	if h.down.CompareAndSwap(false, true) {
		h.log.Warn("embedded broker: history takes no values", "reason", historian.Details(err))
	}
}

// noteRecovery logs the end of an outage.
func (h *Historian) noteRecovery() {
	if h.down.Load() && h.down.CompareAndSwap(true, false) {
		h.log.Info("embedded broker: history takes values again")
	}
}
