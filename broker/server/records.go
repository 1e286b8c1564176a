package server

import (
	"context"
	"errors"
	"time"

	"maestrohub.io/uns/broker/cluster"
	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/broker/session"
	"maestrohub.io/uns/broker/state"
)

// holding are the records by which one connection of a cluster holds its client
// identifier and its session. Owner: the client's lock.
//
// Every write is conditional on the revision of the one before, so that whoever has
// taken over makes it fail: a conflict with another's write means that this connection
// is no longer the one, and it ends (standing.go).
type holding struct {
	owner         cluster.Owner
	ownerRevision uint64 // 0: whether the claim has landed is not known
	// over is the record that was claimed over, at its revision; nil: there was none.
	over         *cluster.Owner
	overRevision uint64
	// record is the session's state as it is stored; nil for a clean session.
	record         *cluster.Session
	recordRevision uint64
	will           *cluster.Will // nil: none
	willRevision   uint64
	// cursor and received are written by recorders, when there is something new.
	cursor, received recorder
	ahead            ahead
	publishing       int  // PUBLISHes that wait for a write of the cursor
	lost             bool // another connection has taken over: nothing more is written
	tick             *task
	ends             bool // the session ends with the connection
	last             bool // the last cursor was asked for
	flushing         bool // the last writes of an ended connection are under way
	flushed          bool
}

// recorder writes one record again and again: whole, one write at a time, and only
// what is newest. What may leave only after a write is kept in waiting.
//
// Invariant: a waiting item of version n runs only after a write whose content was
// taken at or after n has landed.
type recorder struct {
	bucket state.Bucket
	// encode is called with the lock held, and what it returns beside the record once that
	// has landed, so too.
	encode   func() (record []byte, landed func())
	writer   func(record []byte) (cluster.ID, error)
	revision uint64
	wanted   uint64 // version of the content
	landed   uint64 // version of the last content that landed
	writing  bool
	waiting  []awaiting
	pace     pace
	soon     *task // a write that waits for the next one due
}

// pace is how fast a record has been asked to be written lately.
type pace struct {
	last, interval time.Duration // since the connection began; between the last two
}

const (
	// sameBurst is within what askings count as one: those of one batch of deliveries.
	sameBurst = 500 * time.Microsecond
	// paceBound is the interval above which nothing is put off, and how long a write is
	// put off at most.
	paceBound = 20 * time.Millisecond
)

// asked notes an asking at now.
func (p *pace) asked(now time.Duration) {
	if d := now - p.last; d > sameBurst {
		p.interval, p.last = d, now
	}
}

// next is how long after now the next asking is to be expected, and a half more; 0:
// nothing is.
func (p *pace) next(now time.Duration) time.Duration {
	if p.interval == 0 || p.interval > paceBound {
		return 0
	}
	return min(max(p.last+p.interval*3/2-now, 0), paceBound)
}

type awaiting struct {
	version uint64
	run     func() // with the lock held
}

// record has the present content written and run called, with the lock held, once
// it has landed. The lock is held.
func (c *connection) record(r *recorder, run func()) {
	r.wanted++
	r.pace.asked(time.Since(c.since))
	c.after(r, run)
}

// recordSoon is record for what nobody waits for but a packet of ours that may be a
// little late. While askings follow one another closely one write serves two: a write of
// its own would cost as much. The lock is held.
func (c *connection) recordSoon(r *recorder, run func()) {
	wait := c.putOff(r, time.Since(c.since))
	if wait == 0 {
		r.wanted++
		c.after(r, run)
		return
	}
	r.wanted++
	r.waiting = append(r.waiting, awaiting{r.wanted, run})
	if r.soon == nil {
		r.soon = c.server.agenda.add(time.Now().Add(wait), func() {
			c.lock.Lock()
			defer c.lock.Unlock()
			r.soon = nil
			c.after(r, nil)
		})
	}
}

// putOff notes that a write is asked for at now, and says how long it may wait for the
// next asking; 0: not at all. Once every delivery has its PUBREC none is to be expected: a
// client that takes one message at a time waits for this PUBREL, and who publishes it may
// wait for the client. The lock is held.
func (c *connection) putOff(r *recorder, now time.Duration) time.Duration {
	r.pace.asked(now)
	window := &c.session.Window
	if r.writing || c.ended || 2*window.Len() > window.Limit || !window.Awaits() {
		return 0
	}
	return r.pace.next(now)
}

// after calls run once everything recorded so far has landed: at once if it has.
// The lock is held.
func (c *connection) after(r *recorder, run func()) {
	if run != nil {
		if r.landed == r.wanted && len(r.waiting) == 0 {
			run()
			return
		}
		r.waiting = append(r.waiting, awaiting{r.wanted, run})
	}
	if !r.writing && r.landed < r.wanted {
		r.writing = true
		c.server.background(func(ctx context.Context) { c.writeRecord(ctx, r) })
	}
}

// writePause is the pause after a write whose outcome is not known.
const writePause = 50 * time.Millisecond

// writeRecord writes until the newest content has landed. Only one runs per recorder.
func (c *connection) writeRecord(ctx context.Context, r *recorder) {
	var met time.Time // a conflict, first
	for {
		c.lock.Lock()
		if r.landed == r.wanted || c.held.lost || ctx.Err() != nil || !c.mayAct() {
			r.writing = false
			c.settle()
			c.lock.Unlock()
			return
		}
		version, revision := r.wanted, r.revision
		content, landed := r.encode()
		c.lock.Unlock()
		written, err := r.bucket.Update(ctx, c.client.id, content, revision)
		c.lock.Lock()
		switch {
		case err == nil:
			r.revision, r.landed = written, version
			landed()
			met = time.Time{}
			n := 0
			for n < len(r.waiting) && r.waiting[n].version <= version {
				n++
			}
			due := r.waiting[:n]
			r.waiting = append([]awaiting(nil), r.waiting[n:]...)
			if c.mayAct() {
				for _, w := range due {
					w.run()
				}
			}
			c.start()
			c.lock.Unlock()
		case errors.Is(err, state.ErrConflict):
			c.lock.Unlock()
			found, own := c.standing(ctx, r.bucket, revision, r.writer, &met)
			if ctx.Err() != nil {
				continue
			}
			c.lock.Lock()
			if own {
				r.revision = found
				c.lock.Unlock()
				continue
			}
			c.held.lost, r.writing = true, false
			c.settle()
			c.lock.Unlock()
			go c.close("taken_over", mqtt.SessionTakenOver, "another connection took over")
			return
		default:
			c.lock.Unlock()
			select {
			case <-ctx.Done():
			case <-time.After(writePause):
			}
		}
	}
}

// clustered reports whether the session's records are in the shared state.
func (c *connection) clustered() bool { return c.held != nil && c.held.record != nil }

// encodeCursor is the content of the cursor record. The lock is held.
func (c *connection) encodeCursor() (record []byte, landed func()) {
	cursor := c.cursor()
	kept := coverageOf(cursor)
	return cursor.Encode(c.server.shared.Member.Floor()), func() { c.held.ahead.kept = kept }
}

// cursor is the present one. The lock is held.
func (c *connection) cursor() *cluster.Cursor {
	se := c.session
	cursor := &cluster.Cursor{Session: c.held.record.ID, Writer: c.held.owner.Connection, Position: c.position(), Missed: se.Missed}
	cursor.Ahead, cursor.Recorded = c.held.ahead.sending(cursor.Position.Sequence, c.ended)
	for _, e := range se.Window.Entries() {
		if e.Source == session.FromLive {
			continue
		}
		d := cluster.Delivery{Sequence: e.Position, Topic: e.Topic, PacketID: e.PacketID, QoS: e.QoS, Share: e.Share}
		if e.Source == session.FromRetained && len(e.IDs) > 0 {
			d.Subscription = e.IDs[0] // one message of one subscription
		}
		if e.Released {
			d.Progress = cluster.Released
		}
		cursor.Deliveries = append(cursor.Deliveries, d)
	}
	se.Queue.Retained(func(it *session.Item) {
		cursor.Waiting = append(cursor.Waiting, cluster.Waiting{Filter: it.Of.Filter, From: it.Value.Name, Newest: it.Of.Newest})
	})
	return cursor
}

// position is the place in the log before which the session has looked at all:
// entries that are unfinished are listed beside it. The lock is held.
func (c *connection) position() cluster.Position {
	se := c.session
	next := se.Position
	if c.tail {
		next = max(next, c.ws.dispatched())
	}
	// A position is an entry, and sequences have gaps: the last entry before next.
	last := c.seen
	if f := c.ws.feed.Load(); f != nil {
		if entry, at, ok := f.directory.before(next); ok && entry > last.Sequence {
			last = cluster.Position{Sequence: entry, Time: at}
		}
	}
	return last
}

// encodeReceived is the content of the record of open QoS 2 flows towards us. The
// lock is held.
func (c *connection) encodeReceived() (record []byte, landed func()) {
	r := cluster.Received{Session: c.held.record.ID, Writer: c.held.owner.Connection, PacketIDs: c.session.Inbound.IDs()}
	return r.Encode(c.server.shared.Member.Floor()), func() {}
}

// cursorEvery is how often a cursor that has only moved is written: what lies in
// between is delivered again at QoS 1 after a failure.
const cursorEvery = time.Second

// keepCursor has the cursor written once a second while it moves. The lock is held.
func (c *connection) keepCursor() {
	last, waiting := c.position().Sequence, c.session.Queue.Len()
	var again func()
	again = func() {
		c.lock.Lock()
		defer c.lock.Unlock()
		if c.ended {
			return
		}
		if now, waits := c.position().Sequence, c.session.Queue.Len(); now != last || waits != waiting {
			last, waiting = now, waits
			c.record(&c.held.cursor, nil)
		}
		c.held.tick = c.server.agenda.add(time.Now().Add(cursorEvery), again)
	}
	c.held.tick = c.server.agenda.add(time.Now().Add(cursorEvery), again)
}

// sessionRecord is the session's state record with its present subscriptions. The
// lock is held.
func (c *connection) sessionRecord() *cluster.Session {
	r := *c.held.record
	r.Writer = c.held.owner.Connection
	r.Expiry = c.session.Expiry
	r.Subscriptions = nil
	for _, sub := range c.session.Subscriptions() {
		s := cluster.Subscription{Filter: sub.Filter, QoS: sub.QoS, NoLocal: sub.NoLocal, RetainAsPublished: sub.RetainAsPublished, ID: sub.ID}
		if sub.Since > 0 {
			s.Since = cluster.Position{Sequence: sub.Since - 1, Time: c.ws.timeOf(sub.Since - 1)}
		}
		if e := sub.Earlier; e != nil && c.session.Position < e.Until {
			s.Earlier = cluster.Earlier{QoS: e.QoS, NoLocal: e.NoLocal}
			if e.Until != session.Live {
				s.Earlier.Until = cluster.Position{Sequence: e.Until - 1, Time: c.ws.timeOf(e.Until - 1)}
			}
		}
		r.Subscriptions = append(r.Subscriptions, s)
	}
	return &r
}

// saveSession writes the session's state and returns its revision; named are the
// filters that a SUBSCRIBE or UNSUBSCRIBE changed. It is called by the connection's own
// goroutine, or by its last writes after that has ended, one at a time.
func (c *connection) saveSession(ctx context.Context, named []string) (uint64, error) {
	c.lock.Lock()
	next, revision := c.sessionRecord(), c.held.recordRevision
	c.server.keepSubscriptions(c.client.id, next, c.held.record, named)
	c.lock.Unlock()
	sessions := c.server.shared.sessions
	var written uint64
	var err error
	for met, own := (time.Time{}), true; own; {
		written, err = retryUnknown(ctx, func() (uint64, error) {
			return sessions.Update(ctx, c.client.id, next.Encode(c.server.shared.Member.Floor()), revision)
		})
		if !errors.Is(err, state.ErrConflict) {
			break
		}
		revision, own = c.standing(ctx, sessions, revision, sessionWriter, &met)
	}
	if err != nil {
		return 0, err
	}
	c.lock.Lock()
	c.held.record, c.held.recordRevision = next, written
	c.lock.Unlock()
	return written, nil
}

// keepSubscriptions is asked before every write of a session's state that is no
// clean start: a session that would forget a subscription nobody ended, or get one
// nobody made, is written with those it has in the store.
func (s *Server) keepSubscriptions(client string, next, stored *cluster.Session, named []string) {
	kept := next.KeepSubscriptions(stored, named)
	if len(kept) == 0 {
		return
	}
	s.metrics.SessionSubscriptionsKept.Inc()
	s.log.Error("broker cluster: a write would have changed a session's stored subscriptions without a SUBSCRIBE; they were kept: this is a fault of the broker, report it",
		"client_id", client, "filters", kept)
}

// retryUnknown repeats a conditional write whose outcome is not known until it is:
// the store takes the repetition for the same write, or reports a conflict, which may
// be with that same write.
func retryUnknown(ctx context.Context, write func() (uint64, error)) (uint64, error) {
	for {
		revision, err := write()
		if err == nil || !errors.Is(err, state.ErrUnknown) && !errors.Is(err, state.ErrUnavailable) || ctx.Err() != nil {
			return revision, err
		}
		select {
		case <-ctx.Done():
			return 0, err
		case <-time.After(writePause):
		}
	}
}
