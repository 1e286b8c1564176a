package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"maestrohub.io/uns/broker/cluster"
	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/broker/session"
	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/value"
)

// feed is the one reader of a workspace's session log on this replica: it takes
// each entry once, from memory, and gives it to every session at the tail. A
// session that is behind reads for itself (pump) until it has caught up.
//
// Invariant: a session at the tail has looked at every entry before next. The
// feed dispatches under mu; pump sets tail under mu; so no entry falls between.
type feed struct {
	log state.Log
	mu  sync.Mutex // before Server.mu and any client's lock
	// next is the sequence to be dispatched next. Owner: mu.
	next uint64
	// done is next as of the last whole batch, readable without mu.
	done      atomic.Uint64
	began     uint64 // next at the start
	directory *directory
	// untrimmed are the entries that have passed since the directory was last to forget
	// what the log has dropped. Owner: the goroutine of follow.
	untrimmed int
	trimming  atomic.Bool
}

// trimEvery is how many entries pass between two looks at what the log has
// dropped: the directory holds about as many more than the log at most. They are counted,
// for sequences have gaps.
const trimEvery = 1 << 16

// openFeed opens the workspace's log and its feed, once, and returns the log's
// next sequence as far as it is known here: whatever is appended from now on lies
// at or behind it.
func (w *workspace) openFeed(ctx context.Context) (next uint64, err error) {
	f := w.feed.Load()
	if f == nil {
		if f, err = w.startFeed(ctx); err != nil {
			return 0, err
		}
	}
	if next, err = state.Known(ctx, f.log); err != nil {
		return 0, fmt.Errorf("read the bounds of session log %q: %w", w.slug, err)
	}
	return next, nil
}

// end opens the feed, and returns the log's next sequence, as openFeed does, and
// the position of an entry before it with nothing, or little, in between.
func (w *workspace) end(ctx context.Context) (next uint64, p cluster.Position, err error) {
	if next, err = w.openFeed(ctx); err != nil {
		return 0, p, err
	}
	f := w.feed.Load()
	if entry, at, ok := f.directory.before(next); ok {
		return next, cluster.Position{Sequence: entry, Time: at}, nil
	}
	if f.done.Load() == f.began { // nothing has come since: it ends where it ended
		return next, cluster.Position{Sequence: f.began - 1}, nil
	}
	_, last, err := f.log.Bounds(ctx)
	if err != nil {
		return 0, p, fmt.Errorf("read the bounds of session log %q: %w", w.slug, err)
	}
	return last + 1, cluster.Position{Sequence: last}, nil
}

func (w *workspace) startFeed(ctx context.Context) (*feed, error) {
	select {
	case w.opening <- struct{}{}:
		defer func() { <-w.opening }()
	case <-ctx.Done():
		return nil, fmt.Errorf("open session log %q: %w", w.slug, ctx.Err())
	}
	if f := w.feed.Load(); f != nil {
		return f, nil
	}
	log, err := w.server.options.Store.Log(ctx, w.server.options.LogID(w.slug))
	if err != nil {
		return nil, fmt.Errorf("open session log %q: %w", w.slug, err)
	}
	_, last, err := log.Bounds(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the bounds of session log %q: %w", w.slug, err)
	}
	f := &feed{log: log, next: last + 1, began: last + 1, directory: newDirectory(last + 1)}
	f.done.Store(f.next)
	w.feed.Store(f)
	w.server.background(func(context.Context) { w.follow(f) })
	w.server.background(func(ctx context.Context) { w.measure(ctx, log) })
	return f, nil
}

// timeOf returns the store's time of an entry, 0 if it is not known here.
func (w *workspace) timeOf(sequence uint64) int64 {
	if f := w.feed.Load(); f != nil {
		return f.directory.timeOf(sequence)
	}
	return 0
}

// dispatched returns the sequence before which the feed has dispatched all.
func (w *workspace) dispatched() uint64 {
	if f := w.feed.Load(); f != nil {
		return f.done.Load()
	}
	return 0
}

// follow dispatches the log's entries as they come.
func (w *workspace) follow(f *feed) {
	tail := f.log.Tail(f.next)
	defer tail.Stop()
	for {
		entries, err := tail.Next(w.server.ctx)
		if err != nil {
			if w.server.ctx.Err() == nil && !errors.Is(err, state.ErrClosed) {
				w.server.log.Error("embedded broker: the tail of a session log ended", "workspace", w.slug, "error", err)
			}
			return
		}
		var started touched
		f.mu.Lock()
		for i := range entries {
			v, err := value.DecodeRecord(entries[i].Data)
			if err != nil {
				w.server.log.Error("embedded broker: a session log record cannot be read", "workspace", w.slug, "sequence", entries[i].Sequence, "error", err)
			} else {
				f.directory.add(entries[i].Sequence, v.Name, entries[i].Time.UnixNano())
				w.dispatch(v, entries[i].Sequence, &started)
			}
			f.next = entries[i].Sequence + 1
		}
		f.done.Store(f.next)
		f.mu.Unlock()
		started.start()
		if f.untrimmed += len(entries); f.untrimmed >= trimEvery && f.trimming.CompareAndSwap(false, true) {
			f.untrimmed = 0
			w.server.background(f.trim)
		}
	}
}

// trim has the directory forget what the log has dropped. Nothing waits for it: the store
// may be slow.
func (f *feed) trim(ctx context.Context) {
	defer f.trimming.Store(false)
	if first, _, err := f.log.Bounds(ctx); err == nil {
		f.directory.forget(first)
	}
}

// dispatch gives one entry to the sessions at the tail that want it.
func (w *workspace) dispatch(v *value.Value, sequence uint64, started *touched) {
	m := w.match(v.Name)
	e := encoding{value: v}
	targets := m.targets
	if len(v.Shares) > 0 {
		targets = m.chosen(v)
	}
	for i := range targets {
		t := &targets[i]
		if t.session.Persistent && t.client.online.Load() {
			t.client.deliverTail(t, sequence, &e, started)
		}
	}
}

// deliverTail gives an entry to a session at the tail. One without room is left
// behind, at this entry.
func (cl *client) deliverTail(t *target, sequence uint64, e *encoding, started *touched) {
	cl.lock.Lock()
	defer cl.lock.Unlock()
	c, se := cl.conn, t.session
	if c == nil || cl.session != se || !c.tail || sequence < se.Position {
		return
	}
	if !c.takeOne(t.subs, e, sequence) {
		c.tail, se.Position = false, sequence
		// Whatever made room since then has found the session at the tail: look again.
		c.refill()
		return
	}
	se.Position = sequence + 1
	started.add(c)
}

// pumpBatch is how many entries a session that is behind reads at a time.
const pumpBatch = 256

// pumpRetry is the pause after a read that failed.
const pumpRetry = 200 * time.Millisecond

// reading is what one step of a pump has found to read: the wanted stretches before
// to, or, where the directory does not reach back, a batch from to.
type reading struct {
	wanted  []stretch
	entries int // in wanted
	to      uint64
	batch   bool
}

// readAtOnce bounds the entries of one read of wanted stretches, with those read over.
const readAtOnce = 4096

// read reads the entries. Stretches with little between them are read as one, and what
// is between them left out.
func (f *feed) read(ctx context.Context, r *reading, dst []state.Entry) ([]state.Entry, error) {
	if r.batch {
		return f.log.Read(ctx, r.to, pumpBatch, dst)
	}
	over := state.ReadOver(f.log)
	for rest := r.wanted; len(rest) > 0; {
		n, span := 1, rest[0].entries
		for n < len(rest) && rest[n].skipped <= over && span+rest[n].skipped+rest[n].entries <= readAtOnce {
			span += rest[n].skipped + rest[n].entries
			n++
		}
		var err error
		if dst, err = f.readRuns(ctx, rest[:n], span, dst); err != nil {
			return dst, err
		}
		rest = rest[n:]
	}
	return dst, nil
}

// readRuns reads from the first run to the last, with so many entries in all as far as
// is known, and appends those of the runs to dst.
func (f *feed) readRuns(ctx context.Context, runs []stretch, span int, dst []state.Entry) ([]state.Entry, error) {
	from, last := runs[0].first, runs[len(runs)-1].last
	for from <= last {
		at := len(dst)
		var err error
		if dst, err = f.log.Read(ctx, from, span, dst); err != nil {
			return dst, err
		}
		if len(dst) == at {
			return dst, nil // dropped by the log, to the end
		}
		from = dst[len(dst)-1].Sequence + 1
		// The log may have dropped some, and read on beyond them.
		kept := dst[:at]
		for _, e := range dst[at:] {
			for len(runs) > 0 && runs[0].last < e.Sequence {
				runs = runs[1:]
			}
			if len(runs) > 0 && e.Sequence >= runs[0].first {
				kept = append(kept, e)
			}
		}
		dst = kept
	}
	return dst, nil
}

// pump sends a session what it has to send again, then what it has not read of
// the log, until it is at the tail or without room. One pump runs per
// connection; what makes room later starts another (refill).
func (c *connection) pump() {
	f := c.ws.feed.Load()
	var buf []state.Entry
	var stretches []stretch
	for {
		c.lock.Lock()
		if f == nil || !c.pumpable() {
			c.pumping = false
			if f != nil {
				c.refill() // what has waited behind what was sent again
			}
			c.start()
			c.lock.Unlock()
			return
		}
		if len(c.resume) > 0 {
			entry := c.resume[0]
			c.lock.Unlock()
			if !c.resend(f, entry) {
				return
			}
			continue
		}
		se := c.session
		r := reading{to: se.Position}
		var covered bool
		r.wanted, r.to, covered = f.directory.scan(se.Position, stretches[:0], pumpBatch, &c.verdicts, se.Wants)
		stretches = r.wanted
		for _, run := range r.wanted {
			r.entries += run.entries
		}
		from := se.Position
		r.batch = !covered
		if covered && len(r.wanted) == 0 {
			se.Position = r.to
			c.lock.Unlock()
			if r.to == from && c.reachTail(f) {
				return
			}
			continue
		}
		c.start()
		c.lock.Unlock()
		var entries []state.Entry
		err := c.reading(func() (err error) {
			entries, err = f.read(c.server.ctx, &r, buf[:0])
			return err
		})
		if err != nil {
			c.holdReads(err)
			return
		}
		buf = entries
		if r.batch {
			if len(entries) == 0 {
				if c.reachTail(f) {
					return
				}
				continue
			}
			if !state.Joined(f.log, from, entries[0].Sequence) {
				// A gap, or entries the log has dropped: its bounds tell.
				first, _, err := f.log.Bounds(c.server.ctx)
				if err != nil {
					c.holdReads(err)
					return
				}
				if first > from {
					c.lock.Lock()
					c.missed(state.Span(f.log, from, min(first, entries[0].Sequence)))
					c.lock.Unlock()
				}
			}
			r.to = entries[len(entries)-1].Sequence + 1
		} else if gone := r.entries - len(entries); gone > 0 {
			c.lock.Lock()
			c.missed(uint64(gone))
			c.lock.Unlock()
		}
		c.take(entries, r.to)
	}
}

// holdReads has pump started again after a failed read.
func (c *connection) holdReads(err error) {
	s := c.server
	if s.ctx.Err() == nil {
		s.log.Warn("embedded broker: a session log read failed; tried again", "client_id", c.client.id, "error", err)
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.ended || s.ctx.Err() != nil {
		c.pumping = false
		return
	}
	c.pauseReads()
}

// pauseReads has pump started again after a pause. pumping stays set meanwhile:
// nothing else starts one. The lock is held.
func (c *connection) pauseReads() {
	s := c.server
	c.readsHeld(true)
	s.agenda.add(time.Now().Add(pumpRetry), func() {
		c.lock.Lock()
		c.pumping = false
		c.refill()
		c.lock.Unlock()
	})
}

// heldAfter is how long a read takes before it counts as waiting for the store.
const heldAfter = time.Second

// reading makes one read of the log and notes if it has to wait for the store.
func (c *connection) reading(read func() error) error {
	s := c.server
	c.lock.Lock()
	c.reads++
	this := c.reads
	c.lock.Unlock()
	slow := s.agenda.add(time.Now().Add(heldAfter), func() {
		c.lock.Lock()
		defer c.lock.Unlock()
		c.readsHeld(c.holdsReads || c.reads == this)
	})
	err := read()
	s.agenda.cancel(slow)
	c.lock.Lock()
	defer c.lock.Unlock()
	c.reads++
	c.readsHeld(err != nil)
	return err
}

// readsHeld notes whether the session's reads wait for the store: from one that
// failed or took long to one that did not fail, or to the end of the connection. The
// lock is held.
func (c *connection) readsHeld(held bool) {
	if c.holdsReads == held || held && c.ended {
		return
	}
	c.holdsReads = held
	if held {
		c.server.readsHeld.Add(1)
		c.server.metrics.SessionLogReadsHeld.Inc()
	} else {
		c.server.readsHeld.Add(-1)
		c.server.metrics.SessionLogReadsHeld.Dec()
	}
}

// reachTail puts a session that has read everything at the tail. false: there is
// more to read.
func (c *connection) reachTail(f *feed) bool {
	position, next, there := c.joinTail(f)
	if there {
		return true
	}
	// Entries the feed has had and the log has dropped before the session read
	// them, and none after. The store is asked without a lock: the lanes wait for them, and
	// so does a fence, which comes when it does not answer.
	first, _, err := f.log.Bounds(c.server.ctx)
	c.lock.Lock()
	defer c.lock.Unlock()
	switch {
	case c.ended:
		c.pumping = false
		return true
	case err != nil || first <= position:
		// The read lags behind what the feed has seen: again, a little later.
		c.pauseReads()
		return true
	}
	c.missed(state.Span(f.log, position, min(first, next)))
	c.session.Position = min(first, next)
	return false
}

// joinTail puts the session at the tail if the feed has dispatched nothing that it has
// not read. Else it returns how far it has read, and the feed dispatched.
func (c *connection) joinTail(f *feed) (position, next uint64, there bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.session.Position < f.next {
		return c.session.Position, f.next, false
	}
	c.tail, c.pumping = true, false
	c.readsHeld(false)
	c.start()
	return 0, 0, true
}

// missed counts values the log dropped before the session read them. The lock
// is held.
func (c *connection) missed(n uint64) {
	if c.held != nil && c.session.Position <= c.held.ahead.begunTo {
		c.held.ahead.recorded = true
	}
	c.session.Missed += n
	c.server.missed.Add(n)
	c.server.metrics.SessionLogValuesMissed.Add(float64(n))
}

// take delivers a batch of entries as far as there is room; with all delivered the
// session has looked at everything before to.
func (c *connection) take(entries []state.Entry, to uint64) {
	values := make([]*value.Value, len(entries))
	for i := range entries {
		v, err := value.DecodeRecord(entries[i].Data)
		if err != nil {
			c.server.log.Error("embedded broker: a session log record cannot be read", "client_id", c.client.id, "sequence", entries[i].Sequence, "error", err)
			continue
		}
		values[i] = v
	}
	var subs []*session.Subscription
	c.lock.Lock()
	defer c.lock.Unlock()
	se := c.session
	for i := range entries {
		sequence := entries[i].Sequence
		if sequence < se.Position {
			continue
		}
		if c.ended {
			return
		}
		se.Position = sequence
		if v := values[i]; v != nil {
			subs = se.Matching(subs[:0], v)
			if len(subs) > 0 && !c.takeOne(subs, &encoding{value: v}, sequence) {
				return
			}
		}
		se.Position = sequence + 1
		c.seen = cluster.Position{Sequence: sequence, Time: entries[i].Time.UnixNano()}
	}
	se.Position = max(se.Position, to)
}

// takeOne delivers one entry of the log to the session, if it wants it: one copy
// for its own subscriptions and one for each shared subscription it was chosen
// for. false means that there is no room and nothing was sent. The lock is held.
func (c *connection) takeOne(subs []*session.Subscription, e *encoding, sequence uint64) bool {
	own := subs
	for i, sub := range subs {
		if sub.Share != "" { // Matching and chosen put them last
			own = subs[:i]
			break
		}
	}
	// Copies that wait after others have gone are in no record: the entry waits whole,
	// unless the window never has room for all of it.
	copies := len(subs) - len(own) + min(len(own), 1)
	if window := &c.session.Window; copies > 1 && window.Len() > 0 && window.Len()+copies > window.Limit {
		return false
	}
	sent := false
	offer := func(of []*session.Subscription, share string) bool {
		effect, ok := session.Effective(of, e.value, sequence, c.client.id)
		if !ok || effect.QoS == 0 {
			return true
		}
		it := session.Item{Value: e.value, Effect: effect, Source: session.FromLog, Position: sequence, Share: share}
		if !effect.Covered && !c.grants.MayRead(e.value.Name) {
			return c.finish(&it)
		}
		if sent {
			c.offer(it, e) // the first copy has gone: the others may wait in the queue
			return true
		}
		if !c.room(effect.QoS) || c.session.Queue.Blocked(effect.QoS) || c.out.congested(c.server.limits.MaxClientWritesPending) {
			return false
		}
		c.transmit(it, e)
		sent = true
		return true
	}
	if len(own) > 0 && !offer(own, "") {
		return false
	}
	for i := len(own); i < len(subs); i++ {
		if !offer(subs[i:i+1], subs[i].Key()) {
			return false
		}
	}
	return true
}

// resend sends the first of the unfinished deliveries again, under its
// identifier [MQTT-4.4.0-1]. false if the store could not be read.
func (c *connection) resend(f *feed, entry *session.Entry) bool {
	var v *value.Value
	if !entry.Released {
		var err error
		if v, err = c.find(f, entry); err != nil {
			c.holdReads(err)
			return false
		}
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.ended || len(c.resume) == 0 || c.resume[0] != entry {
		return true
	}
	c.resume = c.resume[1:]
	switch {
	case entry.Released:
		c.out.ack(c.version, mqtt.PUBREL, entry.PacketID, mqtt.Success)
	case v == nil || !c.grants.MayRead(v.Name):
		if entry.Source == session.FromLog {
			c.missed(1) // the message is gone
		}
		c.abandon(entry)
	default:
		if entry.Restored && entry.Source == session.FromLog {
			c.describe(entry, v)
		}
		now := time.Now().UnixNano()
		d := mqtt.Delivery{QoS: entry.QoS, Dup: true, Retain: entry.Retain, PacketID: entry.PacketID, SubscriptionIDs: entry.IDs} // [MQTT-3.3.1-1]
		// A delivery once started is completed even if it has expired
		// [MQTT-4.3.3-7], [MQTT-4.3.3-13].
		d.Expiry, d.HasExpiry = v.ExpirySeconds(now)
		if !c.put(&encoding{value: v}, &d) {
			c.abandon(entry) // larger than the client takes now
		}
	}
	return true
}

// abandon ends an unfinished delivery whose message is not sent again. A QoS 2
// identifier is not free until the client, which may hold it for a message it has
// received, has finished its side. The lock is held.
func (c *connection) abandon(entry *session.Entry) {
	entry.Settle(true)
	if entry.QoS == 1 {
		c.session.Window.Drop(entry.PacketID)
		return
	}
	c.session.Window.Release(entry)
	pubrel := func() { c.out.ack(c.version, mqtt.PUBREL, entry.PacketID, mqtt.Success) }
	if c.clustered() {
		c.record(&c.held.cursor, pubrel)
	} else {
		pubrel()
	}
}

// describe gives a delivery that another connection began the options of the
// subscriptions it is for [MQTT-3.3.4-3], [MQTT-3.3.1-13]. The lock is held.
func (c *connection) describe(entry *session.Entry, v *value.Value) {
	var subs []*session.Subscription
	if entry.Share == "" {
		subs = slices.DeleteFunc(c.session.Matching(nil, v), func(sub *session.Subscription) bool { return sub.Share != "" })
	} else if sub := c.session.Subscription("$share/" + entry.Share); sub != nil {
		subs = []*session.Subscription{sub}
	}
	effect, _ := session.Effective(subs, v, entry.Position, c.client.id)
	entry.Retain, entry.IDs, entry.Restored = effect.Retain, effect.IDs, false
}

// find returns the message of an unfinished delivery; nil if it is gone.
func (c *connection) find(f *feed, entry *session.Entry) (*value.Value, error) {
	switch entry.Source {
	case session.FromRetained:
		return c.server.options.Retained.Get(entry.Topic), nil
	case session.FromLog:
		var entries []state.Entry
		err := c.reading(func() (err error) {
			entries, err = f.log.Read(c.server.ctx, entry.Position, 1, nil)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read position %d of session log: %w", entry.Position, err)
		}
		if len(entries) == 0 || entries[0].Sequence != entry.Position {
			return nil, nil
		}
		return value.DecodeRecord(entries[0].Data)
	default:
		return entry.Value, nil
	}
}
