package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"maestrohub.io/uns/broker/state"
)

// watch follows a bucket from behind: every change comes a little later, in order, and
// not at all while the connection is blind.
type watch struct {
	bucket  *bucket
	prefix  string
	updates chan state.Update
	ctx     context.Context
	cancel  context.CancelFunc
	stopped chan struct{}
	once    sync.Once

	due time.Time // when the last one came

	mu     sync.Mutex
	source state.Watch // what is handed on now
	marked bool        // Mark was asked: a source that begins anew is, too
}

// Mark implements state.Watch. It waits for an answer like any request, and what it has
// the watch say comes as late as changes do.
func (w *watch) Mark(ctx context.Context) (mark uint64, err error) {
	err = w.bucket.conn.read(ctx, "mark "+w.bucket.name, func(bool, time.Time) (err error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.source == nil {
			return fmt.Errorf("mark %s: %w: the watch has not begun", w.bucket.name, state.ErrUnavailable)
		}
		w.marked = true
		mark, err = w.source.Mark(context.Background())
		return err
	})
	return mark, err
}

// follow hands on another source, nil: none.
func (w *watch) follow(source state.Watch) (err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.source = source
	if w.marked && source != nil {
		_, err = source.Mark(context.Background())
	}
	return err
}

// Updates implements state.Watch.
func (w *watch) Updates() <-chan state.Update { return w.updates }

// Stop implements state.Watch.
func (w *watch) Stop() { w.once.Do(func() { close(w.stopped); w.cancel() }) }

// run gives everything there is, and then the changes, until the watch ends.
func (w *watch) run() {
	defer close(w.updates)
	defer w.cancel()
	go func() { // the end of the client ends the watch
		select {
		case <-w.bucket.client.closing:
			w.cancel()
		case <-w.ctx.Done():
		}
	}()
	for first := true; ; first = false {
		inner, err := w.bucket.client.server.bucket(w.bucket.name)
		if err != nil {
			return
		}
		source, err := inner.Watch(w.ctx, w.prefix)
		if err != nil {
			return
		}
		if err := w.follow(source); err != nil {
			return
		}
		again := (first || w.send(state.Update{Lost: true})) && w.forward(source)
		_ = w.follow(nil)
		source.Stop()
		for range source.Updates() {
		}
		if !again {
			return
		}
	}
}

// forward hands on what comes; true: the watch has lost track and begins anew.
func (w *watch) forward(source state.Watch) (lost bool) {
	c := w.bucket.conn
	for u := range source.Updates() {
		lies := w.bucket.client.lies()
		if c.direct(&lies) {
			if !w.send(u) {
				return false
			}
			continue
		}
		r := w.bucket.client.server.dice.Roll(c.name + "/watch " + w.bucket.name)
		due := time.Now().Add(lies.Lag.pick(r))
		if due.After(w.due) {
			w.due = due
		}
		if c.sleep(w.ctx, time.Until(w.due)) != nil {
			return false
		}
		blind, anew, err := w.sight(r, &lies)
		if err != nil {
			return false
		}
		if anew || blind && r.Float64() < lies.Lose {
			return true
		}
		if !w.send(u) {
			return false
		}
	}
	return false
}

// sight waits until the watch sees again, and says whether it was blind, and whether it
// has begun anew meanwhile and so has to again.
func (w *watch) sight(r *rand.Rand, lies *Lies) (blind, anew bool, err error) {
	c := w.bucket.conn
	for {
		k := c.look()
		if acting(k) {
			return blind, anew, nil
		}
		blind = true
		if k.mode == isolated && !k.frozen && w.bucket.name == state.Members && !anew && r.Float64() < lies.Lose {
			if anew, err = w.lonely(k); err != nil {
				return blind, anew, err
			}
		}
		if err := c.pass(w.ctx, func(now condition) bool { return now.mode != k.mode || now.frozen != k.frozen }); err != nil {
			return blind, anew, err
		}
	}
}

// lonely begins the watch anew at the server that has been alone since k, once that has
// expired the members by its own clock: none is left there.
func (w *watch) lonely(k condition) (anew bool, err error) {
	expiry := time.NewTimer(w.bucket.client.server.o.MemberTTL)
	defer expiry.Stop()
	select {
	case <-expiry.C:
	case <-k.changed:
		return false, nil
	case <-w.ctx.Done():
		return false, w.ctx.Err()
	}
	if !w.send(state.Update{Lost: true}) {
		return false, w.ctx.Err()
	}
	for _, r := range w.bucket.client.server.list(w.bucket.name, k.since) {
		if strings.HasPrefix(r.Key, w.prefix) && !w.send(state.Update{Record: r}) {
			return false, w.ctx.Err()
		}
	}
	if !w.send(state.Update{Ready: true}) {
		return false, w.ctx.Err()
	}
	return true, nil
}

func (w *watch) send(u state.Update) bool {
	select {
	case w.updates <- u:
		return true
	case <-w.ctx.Done():
		return false
	}
}
