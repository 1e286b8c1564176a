package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"maestrohub.io/uns/broker/access"
	"maestrohub.io/uns/broker/cluster"
	"maestrohub.io/uns/broker/mesh"
	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/broker/session"
	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/topic"
	"maestrohub.io/uns/broker/value"
)

// found are the records of a client identifier as a CONNECT found them. Reads are
// hints; the conditional writes that follow prove them.
type found struct {
	owner            *cluster.Owner
	ownerRevision    uint64
	session          *cluster.Session
	sessionRevision  uint64
	sessionTime      time.Time
	cursor           *cluster.Cursor
	cursorRevision   uint64
	received         *cluster.Received
	receivedRevision uint64
}

// errForeign says that a client identifier is another identity's.
var errForeign = errors.New("client identifier held by another identity")

// takeOver claims the client identifier in the cluster and makes its session this
// connection's: claim, have the old owner let go, read, confirm by writing. What
// is confirmed fails every late write of whoever held it before.
//
// A round trip is a wait: the reads go out together, as do the writes that confirm.
func (c *connection) takeOver(ctx context.Context, p *mqtt.Connect, grants *access.Grants) (present bool, err error) {
	sh, id := c.server.shared, p.ClientID
	sh.announce(id)
	f, err := sh.read(ctx, id)
	if err != nil {
		return false, err
	}
	for {
		if f.foreign(grants, sh) {
			return false, errForeign
		}
		err = c.claimOwner(ctx, id, grants, f)
		if err == nil {
			break
		}
		if !errors.Is(err, state.ErrConflict) {
			return false, fmt.Errorf("claim client id %q: %w", id, err)
		}
		if f, err = sh.read(ctx, id); err != nil {
			return false, err
		}
	}
	if asked, err := sh.release(ctx, id, f.owner, c.held.owner.Connection); err != nil {
		return false, err
	} else if asked {
		// The old owner has flushed: what was read before is old.
		owner, revision := f.owner, f.ownerRevision
		if f, err = sh.read(ctx, id); err != nil {
			return false, err
		}
		f.owner, f.ownerRevision = owner, revision
	}
	for {
		present, err = c.confirm(ctx, p, grants, f)
		if !errors.Is(err, state.ErrConflict) {
			return present, err
		}
		// A record moved after it was read: what the old owner still wrote before it let
		// go, or another claim.
		if f, err = sh.read(ctx, id); err != nil {
			return false, err
		}
		if f.owner == nil || f.owner.Connection != c.held.owner.Connection {
			return false, fmt.Errorf("%w: another connection has claimed the client identifier", errBusy)
		}
		f.owner = nil // it is this connection's: nothing can be read from it any more
	}
}

// announce tells the cluster that a device is back, so that its will is held.
func (sh *shared) announce(id string) {
	sh.Returning(id)
	sh.Mesh.AnnounceReturning(id)
}

// read reads all records of a client identifier at once.
func (sh *shared) read(ctx context.Context, id string) (*found, error) {
	f := &found{}
	type result struct {
		record state.Record
		err    error
	}
	buckets := []state.Bucket{sh.owners, sh.sessions, sh.cursors, sh.received}
	results := make([]chan result, len(buckets))
	for i, b := range buckets {
		results[i] = make(chan result, 1)
		go func() {
			r, err := b.Get(ctx, id)
			results[i] <- result{r, err}
		}()
	}
	var all error
	take := func(i int, decode func(r state.Record) error) {
		r := <-results[i]
		switch {
		case errors.Is(r.err, state.ErrNotFound):
		case r.err != nil:
			all = errors.Join(all, r.err)
		default:
			all = errors.Join(all, decode(r.record))
		}
	}
	take(0, func(r state.Record) error {
		o, err := cluster.DecodeOwner(r.Value)
		f.owner, f.ownerRevision = &o, r.Revision
		return err
	})
	take(1, func(r state.Record) (err error) {
		f.session, err = cluster.DecodeSession(r.Value)
		f.sessionRevision, f.sessionTime = r.Revision, r.Time
		return err
	})
	take(2, func(r state.Record) (err error) {
		f.cursor, err = cluster.DecodeCursor(r.Value)
		f.cursorRevision = r.Revision
		return err
	})
	take(3, func(r state.Record) (err error) {
		f.received, err = cluster.DecodeReceived(r.Value)
		f.receivedRevision = r.Revision
		return err
	})
	if all != nil {
		return nil, fmt.Errorf("read the records of client id %q: %w", id, all)
	}
	return f, nil
}

// foreign reports whether the identifier is another identity's: by its session, or
// by a connection of it that is open.
func (f *found) foreign(grants *access.Grants, sh *shared) bool {
	if f.session != nil && f.session.Identity != grants.ClientID() && !f.expired() {
		return true
	}
	return f.owner != nil && f.owner.Identity != grants.ClientID() && f.owner.Ending == cluster.Held &&
		sh.Member.Ending(f.owner.Incarnation) == cluster.Held
}

// expired reports whether the session's expiry has run out since its connection
// ended: the sweep may be late.
func (f *found) expired() bool {
	if f.session == nil || f.owner == nil || f.owner.Ending == cluster.Held || f.owner.Ended == 0 {
		return false
	}
	return time.Since(time.Unix(0, f.owner.Ended)) > time.Duration(f.session.Expiry)*time.Second
}

// claimOwner writes this connection's owner record over what was found.
func (c *connection) claimOwner(ctx context.Context, id string, grants *access.Grants, f *found) error {
	sh := c.server.shared
	owner := cluster.Owner{Connection: cluster.NewID(), Incarnation: c.server.incarnation(), Identity: grants.ClientID(), Workspace: grants.Workspace()}
	if !c.mayAct() {
		return errBusy
	}
	var revision uint64
	var err error
	if f.ownerRevision == 0 {
		revision, err = sh.owners.Create(ctx, id, owner.Encode(sh.Member.Floor()))
	} else {
		revision, err = sh.owners.Update(ctx, id, owner.Encode(sh.Member.Floor()), f.ownerRevision)
	}
	if err != nil {
		return err
	}
	c.held = &holding{owner: owner, ownerRevision: revision}
	return nil
}

// release has the connection that held the identifier let go, wherever it is, and
// everything of it settled. asked is false if there was nobody to ask.
func (sh *shared) release(ctx context.Context, id string, old *cluster.Owner, by cluster.ID) (asked bool, err error) {
	if old == nil || old.Ending != cluster.Held || old.Incarnation.Replica == sh.Replica {
		return false, nil
	}
	// A replica that is stopping serves nobody, and still settles what it was sent: it is
	// asked like one that serves.
	var number uint64
	for _, m := range sh.Member.Members() {
		if m.Incarnation == old.Incarnation && (m.Phase == cluster.Serving || m.Phase == cluster.Stopping) {
			number = m.Number
		}
	}
	if number == 0 {
		return false, nil
	}
	_, err = sh.Mesh.Release(ctx, old.Incarnation.Replica, number, mesh.Release{ClientID: id, ConnectionID: by.String()})
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, mesh.ErrEnded), errors.Is(err, mesh.ErrNotLinked):
		// Nobody to wait for: its later writes fail by their revision.
		return true, nil
	default:
		return false, fmt.Errorf("%w: %w", errBusy, err)
	}
}

// confirm makes the session this connection's by a conditional write on each of
// its records, and writes the will before the CONNACK.
func (c *connection) confirm(ctx context.Context, p *mqtt.Connect, grants *access.Grants, f *found) (present bool, err error) {
	sh, id, floor := c.server.shared, p.ClientID, c.server.shared.Member.Floor()
	expiry := c.sessionExpiry(p)
	keep := f.session != nil && !p.CleanStart && !f.expired() && f.session.Workspace == grants.Workspace()
	if f.session != nil && !keep {
		// [MQTT-3.1.2-4]: tombstone first, so that no later record is taken for the old
		// session's.
		if _, err := sh.sessions.Delete(ctx, id, f.sessionRevision); err != nil {
			return false, fmt.Errorf("end the old session of %q: %w", id, err)
		}
		f.sessionRevision = 0
		// Where its replica was the cause of the end, the device is just back.
		if o := f.owner; o != nil && (o.Ending == cluster.Lost || o.Ending == cluster.Held && sh.Member.Ending(o.Incarnation) == cluster.Held) {
			c.server.background(func(ctx context.Context) { c.server.sendEndedWill(ctx, o.Connection) })
		}
	}
	h := c.held
	se := &session.Session{ClientID: id, Identity: grants.ClientID(), Workspace: grants.Workspace(), Persistent: keep || expiry > 0, Expiry: expiry}
	se.Queue.Limit = c.server.limits.MaxSubscriberQueue
	c.resumed = se
	var writes []func() error
	if w := p.Will; w != nil && h.willRevision == 0 {
		h.will = &cluster.Will{Client: id, Connection: h.owner.Connection, Incarnation: h.owner.Incarnation, Identity: grants.ClientID(), Workspace: grants.Workspace(),
			Delay: w.Delay, Expiry: expiry, Topic: w.Topic, Payload: w.Payload, QoS: w.QoS, Retain: w.Retain, MessageExpiry: w.MessageExpiry, HasExpiry: w.HasExpiry, Properties: w.Properties}
		writes = append(writes, func() (err error) {
			h.willRevision, err = sh.wills.Create(ctx, cluster.WillKey(h.owner.Connection), h.will.Encode(floor))
			return err
		})
	}
	if !se.Persistent {
		return false, together(writes)
	}
	h.cursor = recorder{bucket: sh.cursors, encode: c.encodeCursor}
	h.received = recorder{bucket: sh.received, encode: c.encodeReceived}
	next, err := c.ws.openFeed(ctx)
	if err != nil {
		return false, err
	}
	record := &cluster.Session{ID: cluster.NewID(), Identity: grants.ClientID(), Workspace: grants.Workspace(), Expiry: expiry}
	cursor := &cluster.Cursor{}
	received := &cluster.Received{}
	if keep {
		kept := *f.session
		kept.Expiry = expiry
		record = &kept
		if f.received != nil && f.received.Session == record.ID {
			received = f.received
		}
	}
	if keep && f.cursor != nil && f.cursor.Session == record.ID {
		cursor = f.cursor
		if err := c.restore(ctx, se, record, cursor); err != nil {
			return false, err
		}
	} else {
		// A lost cursor, like a new session: fed from the tail.
		se.Position = next
		cursor.Position = cluster.Position{Sequence: next - 1, Time: c.ws.timeOf(next - 1)}
		c.subscriptions(se, record, true)
	}
	cursor.Session, received.Session = record.ID, record.ID
	c.seen = cursor.Position
	for _, packet := range received.PacketIDs {
		se.Inbound.Add(packet)
	}
	put := func(b state.Bucket, content []byte, revision uint64, into *uint64) func() error {
		return func() (err error) {
			if revision == 0 {
				*into, err = b.Create(ctx, id, content)
			} else {
				*into, err = b.Update(ctx, id, content, revision)
			}
			return err
		}
	}
	writes = append(writes, put(sh.cursors, cursor.Encode(floor), f.cursorRevision, &h.cursor.revision),
		put(sh.received, received.Encode(floor), f.receivedRevision, &h.received.revision))
	writeState := put(sh.sessions, record.Encode(floor), f.sessionRevision, &h.recordRevision)
	if keep {
		writes = append(writes, writeState)
	}
	if err := together(writes); err != nil {
		return false, err
	}
	if !keep { // a session begins with its cursor, or a crash between would leave it without
		if err := writeState(); err != nil {
			return false, err
		}
	}
	h.record = record
	return keep, nil
}

// together makes the writes at once and returns their errors.
func together(writes []func() error) error {
	errs := make(chan error, len(writes))
	for _, w := range writes {
		go func() { errs <- w() }()
	}
	var all error
	for range writes {
		all = errors.Join(all, <-errs)
	}
	return all
}

// restore makes the session of its records. A position is valid only if the log
// has an entry at it of the same time: a restored log reuses sequences.
func (c *connection) restore(ctx context.Context, se *session.Session, record *cluster.Session, cursor *cluster.Cursor) error {
	f := c.ws.feed.Load()
	valid, err := f.holds(ctx, cursor.Position)
	if err != nil {
		return err
	}
	se.Missed = cursor.Missed
	se.Position = cursor.Position.Sequence + 1
	if !valid {
		cursor.Position = cluster.Position{}
		c.server.log.Warn("broker cluster: a persistent session's cursor is not a position in its session log any more — the session reads the log from its start",
			"client_id", se.ClientID, "workspace", c.ws.slug)
		se.Position = 0
	}
	c.subscriptions(se, record, valid)
	for _, d := range cursor.Deliveries {
		if d.Progress == cluster.Done {
			continue
		}
		e := &session.Entry{PacketID: d.PacketID, QoS: d.QoS, Released: d.Progress == cluster.Released, Position: d.Sequence, Topic: d.Topic, Source: session.FromLog}
		switch {
		case d.Sequence == 0:
			e.Source = session.FromRetained
		case !valid && !e.Released:
			if d.QoS == 1 {
				continue // it comes again with the log
			}
			e.Source, e.Position = session.FromRetained, 0 // gone: its handshake is finished with a PUBREL
			e.Topic = ""
		}
		se.Window.Restore(e)
	}
	return nil
}

// subscriptions makes the session's subscriptions of its record. since says that
// their positions are of this log.
func (c *connection) subscriptions(se *session.Session, record *cluster.Session, since bool) {
	for _, sub := range record.Subscriptions {
		share, bare, _, err := topic.ParseShare(sub.Filter)
		if err != nil {
			continue
		}
		s := &session.Subscription{Filter: sub.Filter, Bare: bare, Share: share, QoS: sub.QoS, NoLocal: sub.NoLocal, RetainAsPublished: sub.RetainAsPublished, ID: sub.ID}
		if since && sub.Since.Sequence > 0 {
			s.Since = sub.Since.Sequence + 1
		}
		se.Subscribe(s)
	}
}

// holds reports whether a position is one of this log: the entry at it is there
// with that time, or the log begins after it. Reads may lag behind what another replica
// has read, so a position beyond the end is judged only by an append of ours: the
// log went back if it lands at or before the position.
func (f *feed) holds(ctx context.Context, p cluster.Position) (bool, error) {
	if p.Sequence == 0 {
		return true, nil
	}
	var end uint64 // of an append of ours, once one was needed
	for {
		entries, err := f.log.Read(ctx, p.Sequence, 1, nil)
		if err != nil {
			return false, fmt.Errorf("read position %d of session log: %w", p.Sequence, err)
		}
		if len(entries) > 0 && entries[0].Sequence == p.Sequence {
			return p.Time == 0 || entries[0].Time.UnixNano() == p.Time, nil
		}
		first, last, err := f.log.Bounds(ctx)
		switch {
		case err != nil:
			return false, fmt.Errorf("read the bounds of session log: %w", err)
		case first > p.Sequence:
			return true, nil // what lies between is missed, and counted as it is read
		case len(entries) > 0:
			return false, nil // the log has gone past it without such an entry
		case last >= p.Sequence: // the read lags
		case end == 0:
			// A record for nobody.
			nobody := value.Value{Name: "nobody", Redirected: true}
			if end, err = f.log.Append(ctx, [][]byte{nobody.AppendRecord(nil)}); err != nil {
				return false, fmt.Errorf("append to session log: %w", err)
			}
			if end <= p.Sequence {
				return false, nil
			}
		}
		select {
		case <-ctx.Done():
			return false, fmt.Errorf("find position %d of session log: %w", p.Sequence, ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}
