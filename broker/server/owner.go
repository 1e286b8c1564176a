package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
// hints; the conditional writes that follow prove them. A revision without a record
// is that of a deletion.
type found struct {
	owner            *cluster.Owner
	ownerRevision    uint64
	session          *cluster.Session
	sessionRevision  uint64
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
// A round trip is a wait, and what need not wait does not:
//
//  1. The claim is a write over the owner record that this replica's watch has
//     told of. If that is behind, the write fails, and the record is read.
//  2. The session's records are read beside the claim. That is as good as after it:
//     each is confirmed by a write on the condition of the revision read, so whatever an
//     owner before wrote between the read and that write makes it fail. Where an owner
//     before has to let go first, they are read again once it has.
//  3. The position in the log is looked up beside the writes that confirm.
//
// So a CONNECT waits once for a clean session, twice to resume one, three times for
// a new one, and four times for a new one over an old one; once more each if a connection
// at another replica has to let go.
func (c *connection) takeOver(ctx context.Context, p *mqtt.Connect, grants *access.Grants) (present bool, err error) {
	sh, id := c.server.shared, p.ClientID
	sh.announce(id)
	f, known := sh.recall(id, grants)
	if !known {
		if f, err = sh.read(ctx, id, everything); err != nil {
			return false, err
		}
	}
	for {
		if known && c.foreign(f, id, grants) {
			// What is known may be old: another identity is refused only by what is stored.
			known = false
			if f, err = sh.read(ctx, id, everything); err != nil {
				return false, err
			}
		}
		if c.foreign(f, id, grants) {
			return false, errForeign
		}
		var beside chan *found
		var failed error
		if known {
			beside = make(chan *found, 1)
			go func() {
				var r *found
				r, failed = sh.read(ctx, id, c.needs(p, f))
				beside <- r
			}()
		}
		err = c.claimOwner(ctx, id, grants, f)
		if beside != nil {
			owner, revision := f.owner, f.ownerRevision
			if f = <-beside; f != nil {
				f.owner, f.ownerRevision = owner, revision
			}
		}
		if err == nil && failed != nil {
			return false, failed
		}
		if err == nil {
			break
		}
		if !errors.Is(err, state.ErrConflict) {
			return false, fmt.Errorf("claim client id %q: %w", id, err)
		}
		known = false
		if f, err = sh.read(ctx, id, everything); err != nil {
			return false, err
		}
	}
	silent, asked, err := sh.release(ctx, id, c.held.owner.Before, c.held.owner.Connection)
	if err != nil {
		return false, err
	}
	c.held.owner.Before = silent // the others have let go: nobody need ask them again
	if asked {
		// The old owner has flushed: what was read before is old.
		owner, revision := f.owner, f.ownerRevision
		if f, err = sh.read(ctx, id, records); err != nil {
			return false, err
		}
		f.owner, f.ownerRevision = owner, revision
	}
	if c.another(f, id, grants) {
		// Another identity's after all: given back at once.
		return false, errForeign
	}
	for {
		if c.gaveUp.Load() {
			return false, errOvertaken
		}
		present, err = c.confirm(ctx, p, grants, f)
		if !errors.Is(err, state.ErrConflict) {
			return present, err
		}
		// A record moved after it was read: what the old owner still wrote before it let
		// go, or another claim.
		if f, err = sh.read(ctx, id, everything); err != nil {
			return false, err
		}
		if f.owner == nil || f.owner.Connection != c.held.owner.Connection {
			return false, errOvertaken
		}
		f.owner = nil // it is this connection's: nothing can be read from it any more
	}
}

// recall is what this replica knows of a client identifier without asking. known is
// false where that is not enough to claim it: then it is read.
//
// Whoever wrote a record of the identifier had claimed it before. So a claim that
// lands on the owner record known here proves that nobody else has come meanwhile, and
// if that record is the same identity's, that no other identity's session can have. Where
// it is another's, or there is none, the index of sessions tells whose the identifier
// is, while it is proven fresh.
func (sh *shared) recall(id string, grants *access.Grants) (f *found, known bool) {
	f = &found{}
	holder, ok := sh.holders.of(id)
	if !ok {
		return nil, false
	}
	if holder.revision > 0 {
		f.owner, f.ownerRevision = &holder.owner, holder.revision
	}
	if (f.owner == nil || f.owner.Identity != grants.ClientID()) && !sh.Fresh.Fresh(time.Now()) {
		return nil, false
	}
	f.newest(sh, id)
	return f, true
}

// newest takes the session's state from the index where that has a later one. A
// read may be older than what the watch has told; whichever it is, the conditional
// write that follows proves it.
func (f *found) newest(sh *shared, id string) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if k := sh.known[id]; k != nil && k.revision > f.sessionRevision {
		f.session, f.sessionRevision = k.session, k.revision
	}
}

// which records are read.
type which uint8

const (
	owner which = 1 << iota
	stateOf
	deliveries

	records    = stateOf | deliveries
	everything = owner | records
)

// needs are the records a CONNECT has to read beside its claim.
func (c *connection) needs(p *mqtt.Connect, known *found) which {
	if !p.CleanStart || c.sessionExpiry(p) > 0 {
		return records
	}
	if known.ownerRevision == 0 && known.session == nil && c.server.shared.Fresh.Fresh(time.Now()) {
		// Nobody has ever claimed it, which the claim proves, and a session older than the
		// owner records are is in the index.
		return 0
	}
	return stateOf
}

// announce tells the cluster that a device is back, so that its will is held.
func (sh *shared) announce(id string) {
	sh.returns(id)
	sh.Mesh.AnnounceReturning(id)
}

// read reads records of a client identifier, all at once.
func (sh *shared) read(ctx context.Context, id string, w which) (*found, error) {
	f := &found{}
	type result struct {
		record state.Record
		err    error
	}
	type reading struct {
		done   chan result
		decode func(r state.Record) error
		at     *uint64
	}
	var readings []reading
	begin := func(b state.Bucket, at *uint64, decode func(r state.Record) error) {
		done := make(chan result, 1)
		go func() {
			r, err := b.Get(ctx, id)
			done <- result{r, err}
		}()
		readings = append(readings, reading{done, decode, at})
	}
	if w&owner != 0 {
		begin(sh.owners, &f.ownerRevision, func(r state.Record) error {
			o, err := cluster.DecodeOwner(r.Value)
			f.owner = &o
			return err
		})
	}
	if w&stateOf != 0 {
		begin(sh.sessions, &f.sessionRevision, func(r state.Record) (err error) {
			f.session, err = cluster.DecodeSession(r.Value)
			return err
		})
	}
	if w&deliveries != 0 {
		begin(sh.cursors, &f.cursorRevision, func(r state.Record) (err error) {
			f.cursor, err = cluster.DecodeCursor(r.Value)
			return err
		})
		begin(sh.received, &f.receivedRevision, func(r state.Record) (err error) {
			f.received, err = cluster.DecodeReceived(r.Value)
			return err
		})
	}
	var all error
	for _, reading := range readings {
		r := <-reading.done
		switch {
		case errors.Is(r.err, state.ErrNotFound):
			*reading.at = r.record.Revision
		case r.err != nil:
			all = errors.Join(all, r.err)
		default:
			*reading.at = r.record.Revision
			all = errors.Join(all, reading.decode(r.record))
		}
	}
	if all != nil {
		return nil, fmt.Errorf("read the records of client id %q: %w", id, all)
	}
	f.newest(sh, id)
	return f, nil
}

// foreign reports whether the identifier is another identity's: by its session, or
// by a connection of it that is open.
func (c *connection) foreign(f *found, id string, grants *access.Grants) bool {
	return c.another(f, id, grants) || f.owner != nil && f.owner.Identity != grants.ClientID() && f.owner.Ending == cluster.Held &&
		c.server.shared.Member.Ending(f.owner.Incarnation) == cluster.Held
}

// another reports whether the session is another identity's.
func (c *connection) another(f *found, id string, grants *access.Grants) bool {
	return f.session != nil && f.session.Identity != grants.ClientID() && !c.expired(f, id)
}

// expired reports whether the session's expiry had run out, since its connection ended,
// when this one's CONNECT arrived: the sweep may be late, and so may the store be.
func (c *connection) expired(f *found, id string) bool {
	if f.session == nil || f.owner == nil || f.owner.Ending == cluster.Held || f.owner.Ended == 0 {
		return false
	}
	since, _ := c.server.shared.holders.offlineSince(id, f.owner)
	return c.arrived.Sub(since) > time.Duration(f.session.Expiry)*time.Second
}

// claimOwner writes this connection's owner record over what was found.
func (c *connection) claimOwner(ctx context.Context, id string, grants *access.Grants, f *found) error {
	sh := c.server.shared
	owner := cluster.Owner{Connection: cluster.NewID(), Incarnation: c.server.incarnation(), Identity: grants.ClientID(), Workspace: grants.Workspace()}
	owner.Before = sh.unsettled(f.owner)
	if !c.mayAct() {
		return errBusy
	}
	revision, err := write(ctx, sh.owners, id, owner.Encode(sh.Member.Floor()), f.ownerRevision)
	if err == nil || !errors.Is(err, state.ErrConflict) {
		c.held = &holding{owner: owner, ownerRevision: revision, over: f.owner, overRevision: f.ownerRevision}
	}
	if err != nil {
		return err
	}
	sh.holders.learn(id, owner, revision)
	c.claimed(f.owner)
	return nil
}

// unsettled are the claims that one over this record is made over, and that have to let
// go first. This replica's own have: a CONNECT waits for the connection before it (takeUp).
// One whose incarnation has ended writes nothing any more.
func (sh *shared) unsettled(over *cluster.Owner) []cluster.Claim {
	if over == nil {
		return nil
	}
	var list []cluster.Claim
	for _, claim := range over.Unsettled() {
		if claim.Incarnation.Replica != sh.Replica && sh.Member.Ending(claim.Incarnation) == cluster.Held {
			list = append(list, claim)
		}
	}
	return list
}

// claimed notes what this connection's claim was made over, and gives it up if it was
// asked to by a claim that is not among that and so is the newer one.
func (c *connection) claimed(over *cluster.Owner) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.over = []cluster.ID{}
	if over != nil {
		c.over = append(c.over, over.Connection)
		for _, claim := range over.Before {
			c.over = append(c.over, claim.Connection)
		}
	}
	for _, by := range c.asked {
		if !c.claimedOver(by) {
			c.gaveUp.Store(true)
		}
	}
	c.asked = nil
}

// claimedOver reports whether this connection's claim was made over that of another,
// which is then the older one. The lock is held.
func (c *connection) claimedOver(by string) bool {
	return slices.ContainsFunc(c.over, func(id cluster.ID) bool { return id.String() == by })
}

// write writes a record over what was found: at the revision, or where there is none.
func write(ctx context.Context, b state.Bucket, id string, content []byte, revision uint64) (uint64, error) {
	if revision == 0 {
		return b.Create(ctx, id, content)
	}
	return b.Update(ctx, id, content, revision)
}

// release has the claims before this one let go, wherever they are, and everything of
// them settled. silent are those of replicas that are not linked, and asked is false if
// there was nobody to ask.
func (sh *shared) release(ctx context.Context, id string, before []cluster.Claim, by cluster.ID) (silent []cluster.Claim, asked bool, err error) {
	members := sh.Member.Members()
	var asking []func() error
	unlinked := make([]bool, len(before))
	for i, claim := range before {
		// A replica that is stopping serves nobody, and still settles what it was sent: it is
		// asked like one that serves.
		at := slices.IndexFunc(members, func(m cluster.Entry) bool {
			return m.Incarnation == claim.Incarnation && (m.Phase == cluster.Serving || m.Phase == cluster.Stopping)
		})
		if at < 0 {
			continue
		}
		asking = append(asking, func() error {
			_, err := sh.Mesh.Release(ctx, claim.Incarnation.Replica, members[at].Number, mesh.Release{ClientID: id, ConnectionID: by.String()})
			if errors.Is(err, mesh.ErrEnded) || errors.Is(err, mesh.ErrNotLinked) {
				// Nobody to wait for: its later writes fail by their revision. Or it is this
				// replica's own life that has ended, and confirm, which asks, writes nothing.
				unlinked[i] = errors.Is(err, mesh.ErrNotLinked)
				return nil
			}
			return err
		})
	}
	if err := atOnce(asking); err != nil {
		return nil, true, fmt.Errorf("%w: %w", errBusy, err)
	}
	for i, claim := range before {
		if unlinked[i] {
			silent = append(silent, claim)
		}
	}
	return silent, len(asking) > 0, nil
}

// confirm makes the session this connection's by a conditional write on each of
// its records, and writes the will before the CONNACK.
func (c *connection) confirm(ctx context.Context, p *mqtt.Connect, grants *access.Grants, f *found) (present bool, err error) {
	if !c.mayAct() {
		return false, errBusy
	}
	sh, id, floor := c.server.shared, p.ClientID, c.server.shared.Member.Floor()
	expiry := c.sessionExpiry(p)
	keep := f.session != nil && !p.CleanStart && !c.expired(f, id) && f.session.Workspace == grants.Workspace()
	if f.session != nil && !keep {
		// [MQTT-3.1.2-4]: tombstone first, so that no later record is taken for the old
		// session's.
		gone, err := sh.sessions.Delete(ctx, id, f.sessionRevision)
		if err != nil {
			return false, fmt.Errorf("end the old session of %q: %w", id, err)
		}
		c.server.metrics.SessionsEnded.WithLabelValues("clean_start").Inc()
		c.server.inheritEnded(ctx, id, f.session, f.cursor, gone)
		f.session, f.sessionRevision = nil, gone
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
		return false, c.together(writes)
	}
	h.cursor = recorder{bucket: sh.cursors, encode: c.encodeCursor, writer: cursorWriter}
	h.received = recorder{bucket: sh.received, encode: c.encodeReceived, writer: receivedWriter}
	next, end, err := c.ws.end(ctx)
	if err != nil {
		return false, err
	}
	record := &cluster.Session{ID: cluster.NewID(), Identity: grants.ClientID(), Workspace: grants.Workspace(), Expiry: expiry}
	received := &cluster.Received{}
	var cursor *cluster.Cursor // nil: there is none, or a lost one
	if keep {
		kept := *f.session
		kept.Expiry = expiry
		c.server.keepSubscriptions(id, &kept, f.session, nil)
		record = &kept
		if f.received != nil && f.received.Session == record.ID {
			received = f.received
		}
		if f.cursor != nil && f.cursor.Session == record.ID {
			cursor = f.cursor
		}
	}
	valid := true
	if cursor != nil {
		writes = append(writes, func() (err error) {
			valid, err = c.ws.feed.Load().holds(ctx, cursor.Position)
			return err
		})
	} else {
		// A lost cursor, like a new session: fed from the tail. Which fixed identifiers the
		// client of a lost one holds nobody knows any more (ahead).
		cursor = &cluster.Cursor{Position: end, Recorded: keep}
		se.Position = next
	}
	restored := cursor == f.cursor
	if restored && (len(cursor.Waiting) > 0 || slices.ContainsFunc(cursor.Deliveries, func(d cluster.Delivery) bool { return d.Sequence == 0 })) {
		// It is owed retained messages, which the replica before may have known sooner.
		writes = append(writes, func() error { return c.server.options.Retained.CatchUp(ctx) })
	}
	cursor.Session, received.Session = record.ID, record.ID
	record.Writer, cursor.Writer, received.Writer = h.owner.Connection, h.owner.Connection, h.owner.Connection
	for _, packet := range received.PacketIDs {
		se.Inbound.Add(packet)
	}
	put := func(b state.Bucket, content []byte, revision uint64, into *uint64) func() error {
		return func() (err error) {
			*into, err = write(ctx, b, id, content, revision)
			return err
		}
	}
	writes = append(writes, put(sh.cursors, cursor.Encode(floor), f.cursorRevision, &h.cursor.revision),
		put(sh.received, received.Encode(floor), f.receivedRevision, &h.received.revision))
	writeState := put(sh.sessions, record.Encode(floor), f.sessionRevision, &h.recordRevision)
	if keep {
		writes = append(writes, writeState)
	}
	if err := c.together(writes); err != nil {
		return false, err
	}
	if !keep { // a session begins with its cursor, or a crash between would leave it without
		if err := c.together([]func() error{writeState}); err != nil {
			return false, err
		}
	}
	h.ahead = ahead{span: c.server.options.FixedIdentifiers, kept: coverageOf(cursor), recorded: cursor.Recorded}
	if restored {
		// The cursor was confirmed as it was found: what is made of one that is no position
		// any more is written with the next snapshot, and decided again if that is lost.
		c.restore(se, record, cursor, valid, next)
	} else {
		subscribeAgain(se, record, true, next)
	}
	c.seen = cursor.Position
	h.record = record
	return keep, nil
}

// together makes the writes at once and returns their errors: none after the fence, or
// they would make those fail of an owner before, which settles what it was sent.
func (c *connection) together(writes []func() error) error {
	if !c.mayAct() {
		return errBusy
	}
	return atOnce(writes)
}

// atOnce makes the calls at once and returns their errors.
func atOnce(calls []func() error) error {
	errs := make(chan error, len(calls))
	for _, call := range calls {
		go func() { errs <- call() }()
	}
	var all error
	for range calls {
		all = errors.Join(all, <-errs)
	}
	return all
}

// restore makes the session of its records. valid says that its position is one of
// the log (holds); next is the log's next sequence as far as it is known.
func (c *connection) restore(se *session.Session, record *cluster.Session, cursor *cluster.Cursor, valid bool, next uint64) {
	se.Missed = cursor.Missed
	se.Position = cursor.Position.Sequence + 1
	c.held.ahead.restore(cursor, valid)
	if !valid {
		cursor.Position = cluster.Position{}
		c.server.log.Warn("broker cluster: a persistent session's cursor is not a position in its session log any more — the session reads the log from its start",
			"client_id", se.ClientID, "workspace", c.ws.slug)
		se.Position = 0
	}
	subscribeAgain(se, record, valid, next)
	c.waiting = cursor.Waiting
	for _, d := range cursor.Deliveries {
		if d.Progress == cluster.Done {
			continue
		}
		e := &session.Entry{PacketID: d.PacketID, QoS: d.QoS, Released: d.Progress == cluster.Released, Position: d.Sequence, Topic: d.Topic, Share: d.Share, Source: session.FromLog, Restored: true}
		switch {
		case d.Sequence == 0:
			e.Source, e.Retain = session.FromRetained, true
			if d.Subscription != 0 {
				e.IDs = []uint32{d.Subscription}
			}
		case !valid && !e.Released:
			if d.QoS == 1 {
				continue // it comes again with the log
			}
			e.Source, e.Position = session.FromRetained, 0 // gone: its handshake is finished with a PUBREL
			e.Topic = ""
		}
		se.Window.Restore(e)
	}
}

// subscribeAgain makes the session's subscriptions of its record. since says that
// their positions are of this log, whose next sequence is next as far as it is known.
func subscribeAgain(se *session.Session, record *cluster.Session, since bool, next uint64) {
	for _, sub := range record.Subscriptions {
		share, bare, _, err := topic.ParseShare(sub.Filter)
		if err != nil {
			continue
		}
		s := &session.Subscription{Filter: sub.Filter, Bare: bare, Share: share, QoS: sub.QoS, NoLocal: sub.NoLocal, RetainAsPublished: sub.RetainAsPublished, ID: sub.ID}
		if since && sub.Since.Sequence > 0 {
			s.Since = sub.Since.Sequence + 1
		}
		if e := sub.Earlier; since && e.QoS > 0 {
			s.Earlier = &session.Earlier{QoS: e.QoS, NoLocal: e.NoLocal, Until: next}
			if e.Until.Sequence > 0 {
				s.Earlier.Until = e.Until.Sequence + 1
			}
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
	if at := f.directory.timeOf(p.Sequence); at != 0 && at == p.Time {
		return true, nil // the feed has seen it: of this log, whether it still has it or not
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
			if end, err = f.mark(ctx); err != nil {
				return false, err
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

// mark appends a record for nobody and returns its sequence: unlike what is read, it is
// certain that the log goes so far.
func (f *feed) mark(ctx context.Context) (uint64, error) {
	nobody := value.Value{Name: "nobody", Redirected: true}
	end, err := f.log.Append(ctx, [][]byte{nobody.AppendRecord(nil)})
	if err != nil {
		return 0, fmt.Errorf("append to session log: %w", err)
	}
	return end, nil
}
