package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"maestrohub.io/uns/broker/access"
	"maestrohub.io/uns/broker/cluster"
	"maestrohub.io/uns/broker/ingest"
	"maestrohub.io/uns/broker/state"
)

// how says how a connection ended as its owner record has it.
func (e ending) how() cluster.Ending {
	switch {
	case e.properly:
		return cluster.Left
	case e.fenced:
		return cluster.EndedFenced
	case e.why == "stopping":
		return cluster.EndedStopped
	}
	return cluster.Lost
}

// letGo takes the session of a cluster's connection out of memory; what it was
// lives in its records. The lock is held; the returned function runs without.
func (c *connection) letGo(ends bool) (after func()) {
	c.client.session = nil
	c.held.ends = ends
	if ends {
		c.server.metrics.SessionsEnded.WithLabelValues("disconnected").Inc()
	}
	c.server.agenda.cancel(c.held.tick)
	se := c.session
	return func() {
		for _, sub := range se.Subscriptions() {
			c.ws.remove(se, sub)
			c.server.shared.own.remove(c, sub, nil)
		}
	}
}

// flush reports whether the records of an ended connection say the last word, and
// sees to it that they will. settle asks it again whenever a write is back. The
// lock is held.
func (c *connection) flush() bool {
	h := c.held
	if h == nil || h.flushed || c.fenced {
		return true
	}
	if h.record != nil && !h.ends && !h.lost {
		if !h.last {
			h.last = true
			c.record(&h.cursor, nil)
		}
		if h.cursor.landed < h.cursor.wanted || h.received.landed < h.received.wanted {
			return false
		}
	}
	if !h.flushing {
		h.flushing = true
		c.server.background(c.lastWrites)
	}
	return false
}

// lastWrites writes how the connection ended. An answer that does not come in time
// changes nothing: the sweep finds out by itself.
func (c *connection) lastWrites(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, c.server.limits.ConnectBudget)
	defer cancel()
	h, sh, id := c.held, c.server.shared, c.client.id
	if h.record != nil && h.ends && !h.lost && c.mayAct() {
		if gone, err := sh.sessions.Delete(ctx, id, h.recordRevision); err == nil {
			c.lock.Lock()
			cursor := c.cursor()
			c.lock.Unlock()
			c.server.inheritEnded(ctx, id, h.record, cursor, gone)
			_, _ = sh.cursors.Delete(ctx, id, h.cursor.revision)
			_, _ = sh.received.Delete(ctx, id, h.received.revision)
		}
	}
	c.lock.Lock()
	changed := h.record != nil && !h.ends && !h.lost && h.record.Expiry != c.session.Expiry
	c.lock.Unlock()
	if changed && c.mayAct() { // by its DISCONNECT
		if _, err := c.saveSession(ctx, nil); err != nil && !errors.Is(err, state.ErrConflict) {
			c.server.log.Warn("broker cluster: the session expiry of a DISCONNECT could not be written", "client_id", id, "error", err)
		}
	}
	if c.mayAct() && !c.elsewhere { // else another replica's claim stands over the record
		ended := h.owner.End(c.how, time.Now())
		revision, err := sh.owners.Update(ctx, id, ended.Encode(sh.Member.Floor()), h.ownerRevision)
		switch {
		case err == nil:
			c.lock.Lock()
			h.owner, h.ownerRevision = ended, revision
			c.lock.Unlock()
			sh.holders.learn(id, ended, revision)
		case !errors.Is(err, state.ErrConflict):
			c.server.log.Warn("broker cluster: the end of a connection could not be written", "client_id", id, "error", err)
		}
	}
	c.lastWill(ctx)
	c.lock.Lock()
	h.flushed = true
	c.settle()
	c.lock.Unlock()
}

// giveBack takes back a claim that came to nothing, also one whose answer never came: it
// may land yet, and then nobody would hold what it says is held. Where the connection
// before had ended, its record stands again: its will is not dead, and its session goes on
// to expire. Else, so that nobody asks this replica to let go of what it does not hold, the
// record says that the claim has ended. The connection is settled then.
func (c *connection) giveBack() {
	settled := func() {
		c.server.claims.Delete(c)
		close(c.settled)
	}
	h := c.held
	if h == nil {
		settled()
		return
	}
	c.held = nil
	c.server.background(func(ctx context.Context) {
		defer settled()
		sh := c.server.shared
		if h.will != nil && h.willRevision != 0 && c.mayAct() {
			_, _ = sh.wills.Delete(ctx, cluster.WillKey(h.will.Connection), h.willRevision)
		}
		c.writeBack(ctx, h)
	})
}

// writeBack is giveBack's write, tried until it is decided, which only a conditional write
// is: one over what the claim was made over makes the claim fail that has not landed yet.
func (c *connection) writeBack(ctx context.Context, h *holding) {
	sh, id := c.server.shared, c.client.id
	back, at := h.owner.End(cluster.Lost, time.Now()), h.ownerRevision
	if over := h.over; over != nil && (over.Ending != cluster.Held || sh.Member.Ending(over.Incarnation) != cluster.Held) {
		back = *over
	}
	if at == 0 {
		at = h.overRevision
	}
	_ = retry(ctx, func() error {
		if !c.mayAct() {
			return nil // the incarnation's claims have ended with it
		}
		revision, err := write(ctx, sh.owners, id, back.Encode(sh.Member.Floor()), at)
		if err == nil {
			sh.holders.learn(id, back, revision)
			return nil
		}
		if !errors.Is(err, state.ErrConflict) {
			return err
		}
		r, err := sh.owners.Get(ctx, id)
		if err != nil {
			return err // it may be a read of before
		}
		if r.Revision <= at {
			return errBusy // so is this
		}
		there, err := cluster.DecodeOwner(r.Value)
		if err != nil || there.Connection != h.owner.Connection {
			return nil // another has claimed it, or this write had landed
		}
		at = r.Revision
		return errBusy
	})
}

// lastWill decides what becomes of the will of a connection that ended here. One
// that ended with its replica waits for the sweep.
func (c *connection) lastWill(ctx context.Context) {
	h, sh := c.held, c.server.shared
	if h.will == nil || !c.mayAct() {
		return
	}
	forget := func() { _, _ = sh.wills.Delete(ctx, cluster.WillKey(h.will.Connection), h.willRevision) }
	switch {
	case c.how == cluster.Left:
		forget() // [MQTT-3.14.4-3]
	case c.taken:
		if cluster.WillAtClaim(cluster.ClosedByTakeover, h.will.Delay, h.ends || c.clean) {
			sent := make(chan struct{})
			c.server.background(func(ctx context.Context) {
				c.server.sendWillNow(ctx, h.will)
				_, _ = sh.wills.Delete(ctx, cluster.WillKey(h.will.Connection), h.willRevision)
				close(sent)
			})
			// It comes before what the client says next, unless that would take too long.
			select {
			case <-sent:
			case <-ctx.Done():
			}
		} else if !c.elsewhere {
			forget() // else it is dead by its connection, or sent by a clean start there
		}
	case c.how == cluster.Lost:
		wait := cluster.WillWait(cluster.Lost, h.will.Delay, c.session.Expiry, c.server.options.Config.WillStopGrace)
		sh.lostWills.Store(h.will.Client, c)
		c.sendLostWillAt(time.Now().Add(wait), time.Now().Add(wait+time.Duration(c.server.longestExpiry())*time.Second))
	}
}

// sendLostWillAt has a lost connection's will sent at a time, and later while its device
// is back and its CONNECT not through yet: each that arrives holds the will for one
// connectBudget, until latest at most.
func (c *connection) sendLostWillAt(due, latest time.Time) {
	c.server.agenda.add(due, func() {
		held := time.Unix(0, c.returned.Load()).Add(c.server.limits.ConnectBudget)
		if now := time.Now(); held.After(now) && now.Before(latest) {
			c.sendLostWillAt(held, latest)
			return
		}
		c.server.background(c.sendLostWill)
	})
}

// returns notes that a CONNECT of a client has arrived, here or at another replica: its
// wills are held.
func (sh *shared) returns(client string) {
	sh.Returning(client)
	if c, waits := sh.lostWills.Load(client); waits {
		c.(*connection).returned.Store(time.Now().UnixNano())
	}
}

// sendLostWill sends the will of a connection lost at this serving replica, when
// its delay is over and nobody has come back.
func (c *connection) sendLostWill(ctx context.Context) {
	c.server.shared.lostWills.CompareAndDelete(c.held.will.Client, c)
	due := cluster.Due{Will: c.held.will, Revision: c.held.willRevision, How: cluster.Lost}
	if outcome, err := c.server.willSender().SendAtLast(ctx, due, c.deadline.Incarnation(), c.deadline.MayAct, time.Second); err == nil {
		c.server.willOver(outcome)
	}
}

// willOver counts what became of a will that waited.
func (s *Server) willOver(outcome cluster.WillOutcome) {
	switch outcome {
	case cluster.WillSent:
		s.metrics.WillsPublished.Inc()
	case cluster.WillDead:
		s.metrics.WillsWithheld.Inc()
	case cluster.WillRefused:
		s.metrics.WillsRefused.Inc()
	}
}

// sendEndedWill sends the will of a connection that was lost or taken over, and
// whose session a clean start has ended before its delay was over [MQTT-3.1.2-8].
func (s *Server) sendEndedWill(ctx context.Context, connection cluster.ID) {
	ctx, cancel := context.WithTimeout(ctx, s.limits.ConnectBudget)
	defer cancel()
	record, err := s.shared.wills.Get(ctx, cluster.WillKey(connection))
	if err != nil {
		return // none, or sent already
	}
	will, err := cluster.DecodeWill(record.Value)
	if err != nil {
		s.log.Error("broker cluster: a will cannot be read", "key", record.Key, "error", err)
		return
	}
	// The owner record names another connection by now, so nobody else sends it: to
	// all others it is dead.
	s.sendWillNow(ctx, will)
	_, _ = s.shared.wills.Delete(ctx, record.Key, record.Revision) // left behind, the sweep takes it
}

// sendWillNow sends a will that is due at once and that nobody else would send,
// until ctx ends.
func (s *Server) sendWillNow(ctx context.Context, will *cluster.Will) {
	if will.Timestamp == 0 {
		will.Timestamp = time.Now().UnixNano()
	}
	err := retry(ctx, func() error {
		err := s.PublishWill(ctx, will)
		if !s.countWill(err) {
			return nil
		}
		return err
	})
	if err != nil {
		s.log.Warn("broker cluster: a will that was due could not be sent", "client_id", will.Client, "error", err)
	}
}

// countWill counts a will by the error of its publishing, and reports whether it is to be
// sent again.
func (s *Server) countWill(err error) (again bool) {
	switch {
	case err == nil:
		s.metrics.WillsPublished.Inc()
	case errors.Is(err, cluster.ErrWillRefused):
		s.metrics.WillsRefused.Inc()
	default:
		return true
	}
	return false
}

func (s *Server) willSender() *cluster.WillSender {
	return &cluster.WillSender{Wills: s.shared.wills, Owners: s.shared.owners, Floor: s.shared.Member.Floor, Publish: s.PublishWill}
}

// PublishWill puts a will through the chain and returns when its value is stored; the
// elected replica's sweep uses it for the wills of others.
func (s *Server) PublishWill(ctx context.Context, w *cluster.Will) error {
	outcome, err := s.offerWill(ctx, w)
	if err != nil {
		return err
	}
	return s.awaitWill(ctx, w, outcome)
}

// offerWill puts a will into the chain, as far as its API client may publish it now.
func (s *Server) offerWill(ctx context.Context, w *cluster.Will) (outcome <-chan ingest.Outcome, err error) {
	grants, err := s.options.Access.Present(ctx, w.Identity)
	if errors.Is(err, access.ErrRefused) {
		return nil, fmt.Errorf("%w: API client %q may not publish any more", cluster.ErrWillRefused, w.Identity)
	}
	if err != nil {
		return nil, err
	}
	done := make(willDone, 1)
	s.ingest.Publish(ingest.Publish{Name: w.Topic, QoS: w.QoS, Payload: w.Payload, Properties: w.Properties, Expiry: w.MessageExpiry, HasExpiry: w.HasExpiry,
		ClientID: w.Client, Grants: grants, Timestamp: w.Timestamp, RowID: w.RowID(), Done: done})
	return done, nil
}

// awaitWill waits for what becomes of it.
func (s *Server) awaitWill(ctx context.Context, w *cluster.Will, outcome <-chan ingest.Outcome) error {
	select {
	case o := <-outcome:
		switch {
		case o.Refusal == 0:
			return nil
		case o.Refusal.Passing() || o.Refusal == ingest.Shed:
			return errors.New(o.Refusal.Reason() + ": " + o.Detail)
		default:
			s.log.Warn("embedded broker: a Last Will was refused", "client_id", w.Client, "topic", w.Topic, "reason", o.Refusal.Reason(), "detail", o.Detail)
			return cluster.ErrWillRefused
		}
	case <-ctx.Done():
		return ctx.Err()
	}
}

// willDone takes the one outcome of a will.
type willDone chan ingest.Outcome

// Complete implements ingest.Completion.
func (d willDone) Complete(_ uint64, o ingest.Outcome) { d <- o }

// Flush implements ingest.Completion.
func (willDone) Flush() {}
