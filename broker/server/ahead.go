package server

import (
	"context"
	"slices"

	"maestrohub.io/uns/broker/cluster"
	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/broker/session"
)

// ahead is what lets a QoS 2 PUBLISH of the session log leave without waiting for a
// record of it: its packet identifier follows from its sequence (session.FixedID), so
// that whoever resumes the session sends it under the same one, and the client, which
// may have it, takes it for the repetition that it is [MQTT-4.3.3-10]. Only the PUBREL
// has to be recorded before it leaves. So every entry behind the position of a record
// that says so may be with the client, up to its PUBREC (begun).
//
// Invariant: of the entries whose fixed identifiers the client may hold, as far as any
// record that is stored or on its way can tell, no two have the same one. They lie
// within FixedSpan from the lowest that the record last landed lists or stands at (kept):
// an entry beyond that gets an identifier given in turn and waits for its record.
//
// For whoever resumes to come to the same entries:
//
//   - subscriptions change only once a record has all that was sent under the old ones
//     (recordAhead); what the connection before may have sent under them and this one has not
//     come to is in none: if they come to ask for less, identifiers may stay with the client for
//     ever, as below;
//   - one begun that is not sent any more, because it has expired, may not be read now or
//     is too large, is ended with a PUBREL (abandon);
//   - if the log has dropped some before they were looked at, or the position is none
//     of this log, or lost, identifiers stay with the client for ever: from then on every
//     entry gets one given in turn (recorded).
//
// Owner: the client's lock.
type ahead struct {
	span uint64 // session.FixedSpan
	// kept is what the cursor last landed covers.
	kept coverage
	// begunTo: entries up to it may have been sent by the connection before.
	begunTo uint64
	// sent is the last entry that left, or waits to, without a record.
	sent uint64
	// used: an entry was sent under a fixed identifier.
	used bool
	// held: subscriptions are changing, and entries are recorded before they are sent.
	held     bool
	recorded bool // cluster.Cursor's
}

// coverage is what a cursor says of fixed identifiers.
type coverage struct {
	position uint64
	lowest   uint64 // entry at the position, or listed under a fixed identifier
	ahead    bool
}

func coverageOf(c *cluster.Cursor) coverage {
	k := coverage{position: c.Position.Sequence, lowest: c.Position.Sequence, ahead: c.Ahead}
	for _, d := range c.Deliveries {
		if d.PacketID >= session.FirstFixed && d.Sequence > 0 {
			k.lowest = min(k.lowest, d.Sequence)
		}
	}
	return k
}

// restore takes up what a connection before has left. valid says that the cursor's
// position is one of the log.
func (a *ahead) restore(cursor *cluster.Cursor, valid bool) {
	a.recorded = cursor.Recorded
	switch {
	case !valid:
		a.kept = coverage{}
		a.recorded = a.recorded || cursor.Ahead || len(cursor.Deliveries) > 0
	case cursor.Ahead:
		a.begunTo = a.kept.lowest + a.span - 1
	}
}

// sending is what a cursor at a position is to say of how entries are sent.
func (a *ahead) sending(position uint64, ended bool) (ahead, recorded bool) {
	return a.used && !ended || a.begunTo > position, a.recorded
}

// fixed reports whether a delivery is under the identifier that follows from its
// sequence, and begun whether a connection before may have sent it so. The lock is
// held.
func (c *connection) fixed(it *session.Item) (fixed, begun bool) {
	if it.Source != session.FromLog || it.Share != "" || it.Effect.QoS != 2 || !c.clustered() {
		return false, false
	}
	a := &c.held.ahead
	begun = it.Position <= a.begunTo
	return begun || !a.recorded && it.Position-a.kept.lowest < a.span, begun
}

// publish2 has publish called, which sends a delivery at QoS 2 that is in the window, once
// that may leave. false: it may now, and is the caller's to send. The lock is held.
func (c *connection) publish2(fixed bool, sequence uint64, publish func()) (waits bool) {
	h := c.held
	wait := func() {
		h.publishing--
		c.out.packets--
		publish()
	}
	if fixed {
		h.ahead.used = true
	}
	if !fixed || h.ahead.held || !h.ahead.kept.ahead {
		// It leaves once its identifier is recorded, so that whoever resumes the session
		// knows that the client may have it.
		h.publishing++
		c.out.packets++
		c.record(&h.cursor, wait)
		return true
	}
	h.ahead.sent = max(h.ahead.sent, sequence)
	if h.publishing == 0 {
		return false
	}
	// Behind those that wait for their record [MQTT-4.6.0-5].
	h.publishing++
	c.out.packets++
	c.after(&h.cursor, wait)
	return true
}

// finish ends a delivery that the client may have and that is not sent any more. false:
// there is no room for it now. The lock is held.
func (c *connection) finish(it *session.Item) bool {
	if _, begun := c.fixed(it); !begun {
		return true
	}
	if !c.room(2) {
		return false
	}
	entry := &session.Entry{QoS: 2, Source: session.FromLog, Position: it.Position}
	if c.session.Window.SendFixed(entry, c.held.ahead.span) {
		c.abandon(entry)
	}
	return true
}

// recordAhead waits until the cursor has every entry that was sent ahead of it, and has
// entries recorded before they are sent from now on, until goAhead. It is called before
// subscriptions change; less, which is called with the lock held, says whether the session
// asks for less then.
func (c *connection) recordAhead(less func() bool) error {
	if !c.clustered() {
		return nil
	}
	recorded := make(chan struct{})
	c.lock.Lock()
	a := &c.held.ahead
	a.held = true
	lost := !a.recorded && a.begunTo > c.position().Sequence && less()
	a.recorded = a.recorded || lost
	if !lost && a.sent <= a.kept.position {
		close(recorded)
	} else {
		c.record(&c.held.cursor, func() { close(recorded) })
	}
	c.lock.Unlock()
	select {
	case <-recorded:
		return nil
	case <-c.settled:
		return errEnded
	case <-c.server.ctx.Done():
		return context.Cause(c.server.ctx)
	}
}

// goAhead ends what recordAhead began.
func (c *connection) goAhead() {
	if !c.clustered() {
		return
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	c.held.ahead.held = false
}

// lowers reports whether subscriptions of a SUBSCRIBE replace some that ask for more. The
// lock is held.
func (c *connection) lowers(filters []mqtt.Subscription) bool {
	return slices.ContainsFunc(filters, func(f mqtt.Subscription) bool {
		sub := c.session.Subscription(f.Filter)
		return sub != nil && (f.QoS < sub.QoS || f.NoLocal && !sub.NoLocal)
	})
}

// ends reports whether an UNSUBSCRIBE of filters ends a subscription. The lock is held.
func (c *connection) ends(filters []string) bool {
	return slices.ContainsFunc(filters, func(f string) bool { return c.session.Subscription(f) != nil })
}
