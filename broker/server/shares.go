package server

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"maestrohub.io/uns/broker/cluster"
	"maestrohub.io/uns/broker/mesh"
	"maestrohub.io/uns/broker/session"
	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/value"
)

// shareMatch is a shared subscription that matches a topic, with its members.
type shareMatch struct {
	key     string
	members []member
	turn    *atomic.Uint64
}

// member is one session of a shared subscription, wherever it is.
type member struct {
	client string
	// local is its subscription here; nil if it is not here.
	local *binding
	// replica is where it is connected, if that is another one.
	replica    string
	qos        byte
	persistent bool
}

// add notes a member; one index may know of it what another does not.
func (s *shareMatch) add(m member) {
	for i := range s.members {
		old := &s.members[i]
		if old.client != m.client {
			continue
		}
		if m.local != nil {
			old.local, old.qos = m.local, m.qos
		}
		if m.replica != "" && old.local == nil {
			old.replica = m.replica
		}
		old.persistent = old.persistent || m.persistent
		return
	}
	s.members = append(s.members, m)
}

// connected reports whether the member could be given a message now.
func (m *member) connected() bool {
	return m.local != nil && m.local.client.online.Load() || m.local == nil && m.replica != ""
}

// fromLog reports whether the member takes v from the session log.
func (m *member) fromLog(v *value.Value) bool {
	return m.persistent && logged(v, min(v.QoS, m.qos))
}

// choose picks one member for each shared subscription that v matches, unless
// that was done: connected before offline, in turn. It reports whether a chosen
// member reads v from the log. Called by v's lane alone.
func (m *matches) choose(v *value.Value) (logged bool) {
	if v.Shares == nil && len(m.shares) > 0 {
		v.Shares = make([]value.Share, 0, len(m.shares))
		for i := range m.shares {
			if b, ok := m.shares[i].pick(v, ""); ok {
				v.Shares = append(v.Shares, value.Share{Key: m.shares[i].key, Session: b.client})
			}
		}
	}
	for _, share := range v.Shares {
		if b, ok := m.member(share); ok && b.fromLog(v) {
			logged = true
		}
	}
	return logged
}

// pick returns the member whose turn it is, leaving out one client.
func (s *shareMatch) pick(v *value.Value, leaveOut string) (*member, bool) {
	n := uint64(len(s.members))
	if n == 0 {
		return nil, false
	}
	turn := s.turn.Add(1)
	offline := -1
	for i := range n {
		at := int((turn + i) % n)
		b := &s.members[at]
		switch {
		case b.client == leaveOut:
		case b.connected():
			return b, true
		case offline < 0 && b.fromLog(v):
			offline = at
		}
	}
	if offline < 0 {
		return nil, false
	}
	return &s.members[offline], true
}

// member finds the chosen member of a share.
func (m *matches) member(share value.Share) (*member, bool) {
	for i := range m.shares {
		if m.shares[i].key != share.Key {
			continue
		}
		for j := range m.shares[i].members {
			if b := &m.shares[i].members[j]; b.client == share.Session {
				return b, true
			}
		}
	}
	return nil, false
}

// chosen returns the sessions here that a log record goes to, each with its own
// matching subscriptions first and then the shared ones it was chosen for.
func (m *matches) chosen(v *value.Value) []target {
	var list []target
	if !v.Redirected {
		list = append(list, m.targets...)
	}
	for _, share := range v.Shares {
		b, ok := m.member(share)
		if !ok || b.local == nil {
			continue
		}
		at := -1
		for i := range list {
			if list[i].session == b.local.session {
				at = i
			}
		}
		if at < 0 {
			list = append(list, target{client: b.local.client, session: b.local.session})
			at = len(list) - 1
		}
		// A full slice expression: the subscriptions of m.targets are not appended to.
		subs := list[at].subs
		list[at].subs = append(subs[:len(subs):len(subs)], b.local.sub)
	}
	return list
}

// deliverShares gives v to the chosen members that are fed live. One that has
// gone since it was chosen is replaced. sent collects what the outcome of v waits
// for; nil if nothing waits.
func (w *workspace) deliverShares(m *matches, e *encoding, started *touched, sent *arrivals) {
	for _, share := range e.value.Shares {
		b, ok := m.member(share)
		if ok && b.fromLog(e.value) {
			continue
		}
		if !ok || !w.deliverShare(b, e, share.Key, started, sent) {
			w.again(e, share.Key, share.Session, started)
		}
	}
}

// deliverShare gives v to one member, here or at another replica; false if it is
// not there to take it.
func (w *workspace) deliverShare(m *member, e *encoding, key string, started *touched, sent *arrivals) bool {
	if m.local != nil {
		return m.local.deliver(e, key, nil, started)
	}
	sh := w.server.shared
	if sh == nil || m.replica == "" {
		return false
	}
	v, client := e.value, m.client
	err := sh.Mesh.SendShare(m.replica, mesh.Share{Value: v, Key: key, Session: client}, sent.add(), func(o mesh.ShareOutcome) {
		if o == mesh.ShareReturned || o == mesh.ShareInDoubt && v.QoS < 2 {
			w.server.background(func(context.Context) { w.redirect([]lostShare{{value: v, key: key}}, client) })
		}
	})
	if err != nil {
		sent.drop()
		return false
	}
	return true
}

// deliver gives v to a member here; settled, if not nil, is told what became of it.
func (b *binding) deliver(e *encoding, key string, settled func(taken bool), started *touched) bool {
	b.client.lock.Lock()
	defer b.client.lock.Unlock()
	c := b.client.conn
	if c == nil || b.client.session != b.session || c.out.closing {
		return false
	}
	subs := []*session.Subscription{b.sub}
	session.Decided(subs, e.value)
	effect, ok := session.Effective(subs, e.value, session.Live, b.client.id)
	if !ok || !effect.Covered && !c.grants.MayRead(e.value.Name) {
		if settled != nil {
			settled(true)
		}
		return true // chosen, and not allowed to read it: like any refusal, not passed on
	}
	c.offer(session.Item{Value: e.value, Effect: effect, Share: key, Settled: settled}, e)
	started.add(c)
	return true
}

// lostShare is a message of a shared subscription whose member was lost before
// it had the message.
type lostShare struct {
	value *value.Value
	key   string
	// settled answers the replica that chose the member; nil if that was this one.
	settled func(taken bool)
}

func sharedItems(items []session.Item) (lost []lostShare) {
	for _, it := range items {
		if it.Share != "" {
			lost = append(lost, lostShare{it.Value, it.Share, it.Settled})
		}
	}
	return lost
}

// sharedEntries are the unacknowledged QoS 1 deliveries of shared subscriptions.
// A QoS 2 delivery that has begun is nobody else's [MQTT-4.8.2-5].
func sharedEntries(entries []*session.Entry) (lost []lostShare) {
	for _, e := range entries {
		if e.Share != "" && e.QoS == 1 && e.Value != nil {
			lost = append(lost, lostShare{e.Value, e.Share, e.Settled})
		}
	}
	return lost
}

// redirect gives messages of shared subscriptions to other members.
func (w *workspace) redirect(lost []lostShare, from string) {
	var started touched
	for _, l := range lost {
		if l.settled != nil {
			l.settled(false) // it is for the publishing replica to choose again
			continue
		}
		w.again(&encoding{value: l.value}, l.key, from, &started)
	}
	started.start()
}

// again chooses another member for a message, and gives it to it: live, or by a
// log record for it alone. With no member left the message is nobody's.
func (w *workspace) again(e *encoding, key, from string, started *touched) {
	m := w.match(e.value.Name)
	for i := range m.shares {
		if m.shares[i].key != key {
			continue
		}
		for range len(m.shares[i].members) {
			b, ok := m.shares[i].pick(e.value, from)
			if !ok {
				break
			}
			if b.fromLog(e.value) {
				w.appendFor(e.value, value.Share{Key: key, Session: b.client})
				return
			}
			if w.deliverShare(b, e, key, started, nil) {
				return
			}
		}
	}
	w.server.metrics.MessagesDropped.Inc()
}

// appendFor appends a record of v to the session log for one session alone, behind
// those asked for before.
func (w *workspace) appendFor(v *value.Value, share value.Share) {
	record := *v
	record.Shares, record.Redirected = []value.Share{share}, true
	w.redirected.mu.Lock()
	defer w.redirected.mu.Unlock()
	w.redirected.records = append(w.redirected.records, record.AppendRecord(nil))
	if !w.redirected.appending {
		w.redirected.appending = true
		w.server.background(w.appendAgain)
	}
}

// redirected are the log records of messages chosen again, in order, that are not
// appended yet.
type redirected struct {
	mu        sync.Mutex
	records   [][]byte
	appending bool
}

// appendAgain appends what there is, one batch after the other.
func (w *workspace) appendAgain(ctx context.Context) {
	for {
		w.redirected.mu.Lock()
		batch := w.redirected.records[:min(len(w.redirected.records), state.MaxAppend)]
		w.redirected.records = w.redirected.records[len(batch):]
		if len(batch) == 0 {
			w.redirected.appending = false
			w.redirected.mu.Unlock()
			return
		}
		w.redirected.mu.Unlock()
		err := retry(ctx, func() error {
			// This replica may have had no persistent session of the workspace yet.
			if _, err := w.openFeed(ctx); err != nil {
				return err
			}
			_, err := w.feed.Load().log.Append(ctx, batch)
			return err
		})
		if err != nil && ctx.Err() == nil {
			w.server.log.Error("embedded broker: shared messages could not be given to another member", "workspace", w.slug, "messages", len(batch), "error", err)
		}
	}
}

// inherit gives what a session that has ended was chosen for, and had not read
// or not acknowledged, to other members of its shared subscriptions. last is the last
// record it may have been chosen for; 0: the last there is.
func (w *workspace) inherit(se *session.Session, last uint64) {
	var keys []string
	for _, sub := range se.Subscriptions() {
		if sub.Share != "" {
			keys = append(keys, sub.Key())
		}
	}
	if len(keys) == 0 || !se.Persistent {
		return
	}
	from := se.Position
	for _, e := range se.Window.Entries() {
		if e.Share != "" && e.QoS == 1 && e.Source == session.FromLog {
			from = min(from, e.Position)
		}
	}
	unacknowledged := make(map[uint64]bool)
	for _, e := range se.Window.Entries() {
		if e.Share != "" && e.QoS == 1 && e.Source == session.FromLog {
			unacknowledged[e.Position] = true
		}
	}
	w.inheritFrom(inheritance{client: se.ClientID, keys: keys, from: from, position: se.Position, unacknowledged: unacknowledged, last: last})
}

// inheritance is what a session was chosen for and leaves to others: the records of some
// shared subscriptions from its position on, and before that the unacknowledged ones.
type inheritance struct {
	client         string
	keys           []string
	from, position uint64
	unacknowledged map[uint64]bool
	// last is the last record it may have been chosen for; 0: the last there is.
	last uint64
}

// inheritFrom gives it to them.
func (w *workspace) inheritFrom(i inheritance) {
	f := w.feed.Load()
	if f == nil {
		return
	}
	w.server.background(func(ctx context.Context) {
		last, err, empty := i.last, error(nil), 0
		if last == 0 {
			_, last, err = f.log.Bounds(ctx)
		}
		for next := i.from; err == nil && next <= last; {
			var entries []state.Entry
			if entries, err = f.log.Read(ctx, next, pumpBatch, nil); err == nil && len(entries) == 0 {
				if i.last == 0 {
					break
				}
				// The read lags behind the last record, or the log was made anew meanwhile and
				// is shorter. Only an append tells, asked for ever more seldom.
				if empty++; empty&(empty-1) == 0 {
					var end uint64
					if end, err = f.mark(ctx); err != nil {
						break
					}
					last = min(last, end)
				}
				select {
				case <-time.After(pumpRetry):
				case <-ctx.Done():
					err = ctx.Err()
				}
				continue
			}
			var lost []lostShare
			for _, entry := range entries {
				next = entry.Sequence + 1
				if entry.Sequence > last || entry.Sequence < i.position && !i.unacknowledged[entry.Sequence] {
					continue
				}
				v, bad := value.DecodeRecord(entry.Data)
				if bad != nil {
					continue // the feed has reported it
				}
				for _, share := range v.Shares {
					if share.Session == i.client && contains(i.keys, share.Key) {
						lost = append(lost, lostShare{value: v, key: share.Key})
					}
				}
			}
			w.redirect(lost, i.client)
		}
		if err != nil && !errors.Is(err, context.Canceled) {
			w.server.log.Error("embedded broker: the messages of a shared subscription's member that ended could not be read", "workspace", w.slug, "client_id", i.client, "error", err)
		}
	})
}

// lastChosen returns a record of the log behind all that a session is chosen for that is
// no member any more since the write at a revision. Whoever becomes one after it has
// returned is chosen for later records only.
func (s *Server) lastChosen(ctx context.Context, w *workspace, revision uint64) (last uint64, err error) {
	if _, err = w.openFeed(ctx); err != nil {
		return 0, err
	}
	s.shared.awaitGone(ctx, revision)
	return w.feed.Load().mark(ctx)
}

// inheritEnded is inherit for a session of the cluster that ended with the write at a
// revision. cursor is read if it is nil.
func (s *Server) inheritEnded(ctx context.Context, client string, record *cluster.Session, cursor *cluster.Cursor, ended uint64) {
	if !slices.ContainsFunc(record.Subscriptions, func(sub cluster.Subscription) bool { return strings.HasPrefix(sub.Filter, "$share/") }) {
		return
	}
	if cursor == nil {
		r, err := s.shared.cursors.Get(ctx, client)
		if err == nil {
			cursor, err = cluster.DecodeCursor(r.Value)
		}
		if err != nil || cursor.Session != record.ID {
			return // nobody knows what it had read
		}
	}
	w := s.workspace(record.Workspace)
	last, err := s.lastChosen(ctx, w, ended)
	if err != nil {
		s.log.Error("embedded broker: the messages of a shared subscription's member that ended could not be read", "workspace", w.slug, "client_id", client, "error", err)
		return
	}
	se := &session.Session{ClientID: client, Workspace: record.Workspace, Persistent: true, Position: cursor.Position.Sequence + 1}
	subscribeAgain(se, record, true, 0)
	for _, d := range cursor.Deliveries {
		if d.Sequence > 0 && d.Progress == cluster.Sent {
			se.Window.Restore(&session.Entry{PacketID: d.PacketID, QoS: d.QoS, Position: d.Sequence, Share: d.Share, Source: session.FromLog})
		}
	}
	w.inherit(se, last)
}

// awaitGone waits until this replica and the others are known to have applied a
// deletion, and what they matched before it has its outcome.
func (sh *shared) awaitGone(ctx context.Context, revision uint64) {
	timeout, cancel := context.WithTimeout(ctx, reportsWait)
	defer cancel()
	_ = retry(timeout, func() error {
		if sh.reported().Sessions < revision {
			return errBusy
		}
		return nil
	})
	sh.awaitReports(ctx, reportsWait, true, func(r report) bool { return r.applied.Sessions >= revision })
}

// Swept takes what the elected replica's sweep has done: a session it ended leaves what
// it was chosen for to other members of its shared subscriptions.
func (s *Server) Swept(a *cluster.Act, outcome cluster.WillOutcome) {
	switch {
	case a == nil:
		s.willOver(outcome)
	case a.Session != nil:
		s.metrics.SessionsEnded.WithLabelValues(a.Reason.String()).Inc()
		switch a.Reason {
		case cluster.SessionDisowned:
			s.logDisowned(a.Client, a.Session.Identity)
		case cluster.SessionSurplus:
			s.log.Warn("embedded broker: session ended, more are offline than maxOfflineSessions", "client_id", a.Client, "limit", s.limits.MaxOfflineSessions)
		}
		s.background(func(ctx context.Context) { s.inheritEnded(ctx, a.Client, a.Session, a.Cursor, a.Landed) })
	}
}

func contains(keys []string, key string) bool {
	for _, k := range keys {
		if k == key {
			return true
		}
	}
	return false
}
