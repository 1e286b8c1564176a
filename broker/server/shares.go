package server

import (
	"context"
	"errors"

	"maestrohub.io/uns/broker/session"
	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/value"
)

// choose picks one member for each shared subscription that v matches, unless
// that was done: connected before offline, in turn. It reports whether a chosen
// member reads v from the log. Called by v's lane alone.
func (m *matches) choose(v *value.Value) (logged bool) {
	if v.Shares == nil && len(m.shares) > 0 {
		v.Shares = make([]value.Share, 0, len(m.shares))
		for i := range m.shares {
			if b, ok := m.shares[i].pick(v, nil); ok {
				v.Shares = append(v.Shares, value.Share{Key: m.shares[i].key, Session: b.session.ClientID})
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

// fromLog reports whether the member takes v from the session log.
func (b binding) fromLog(v *value.Value) bool {
	return b.session.Persistent && logged(v, min(v.QoS, b.sub.QoS))
}

// pick returns the member whose turn it is, leaving out one session.
func (m *shareMatch) pick(v *value.Value, leaveOut *session.Session) (binding, bool) {
	n := uint64(len(m.members))
	turn := m.turn.Add(1)
	offline := -1
	for i := range n {
		at := int((turn + i) % n)
		b := m.members[at]
		switch {
		case b.session == leaveOut:
		case b.client.online.Load():
			return b, true
		case offline < 0 && b.fromLog(v):
			offline = at
		}
	}
	if offline < 0 {
		return binding{}, false
	}
	return m.members[offline], true
}

// member finds the chosen member of a share.
func (m *matches) member(share value.Share) (binding, bool) {
	for i := range m.shares {
		if m.shares[i].key != share.Key {
			continue
		}
		for _, b := range m.shares[i].members {
			if b.session.ClientID == share.Session {
				return b, true
			}
		}
	}
	return binding{}, false
}

// chosen returns the sessions a log record goes to, each with its own matching
// subscriptions first and then the shared ones it was chosen for.
func (m *matches) chosen(v *value.Value) []target {
	var list []target
	if !v.Redirected {
		list = append(list, m.targets...)
	}
	for _, share := range v.Shares {
		b, ok := m.member(share)
		if !ok {
			continue
		}
		at := -1
		for i := range list {
			if list[i].session == b.session {
				at = i
			}
		}
		if at < 0 {
			list = append(list, target{client: b.client, session: b.session})
			at = len(list) - 1
		}
		// A full slice expression: the subscriptions of m.targets are not appended to.
		subs := list[at].subs
		list[at].subs = append(subs[:len(subs):len(subs)], b.sub)
	}
	return list
}

// deliverShares gives v to the chosen members that are fed live. One that has
// gone since it was chosen is replaced.
func (w *workspace) deliverShares(m *matches, e *encoding, started *touched) {
	for _, share := range e.value.Shares {
		b, ok := m.member(share)
		if ok && b.fromLog(e.value) {
			continue
		}
		if !ok || !b.deliverShare(e, share.Key, started) {
			w.again(e, share.Key, b.session, started)
		}
	}
}

// deliverShare gives v to one member; false if it is not there to take it.
func (b binding) deliverShare(e *encoding, key string, started *touched) bool {
	b.client.lock.Lock()
	defer b.client.lock.Unlock()
	c := b.client.conn
	if c == nil || b.client.session != b.session || c.out.closing {
		return false
	}
	effect, ok := session.Effective([]*session.Subscription{b.sub}, e.value, session.Live, b.client.id)
	if !ok || !effect.Covered && !c.grants.MayRead(e.value.Name) {
		return true // chosen, and not allowed to read it: like any refusal, not passed on
	}
	c.offer(session.Item{Value: e.value, Effect: effect, Share: key}, e)
	started.add(c)
	return true
}

// lostShare is a message of a shared subscription whose member was lost before
// it had the message.
type lostShare struct {
	value *value.Value
	key   string
}

func sharedItems(items []session.Item) (lost []lostShare) {
	for _, it := range items {
		if it.Share != "" {
			lost = append(lost, lostShare{it.Value, it.Share})
		}
	}
	return lost
}

// sharedEntries are the unacknowledged QoS 1 deliveries of shared subscriptions.
// A QoS 2 delivery that has begun is nobody else's [MQTT-4.8.2-5].
func sharedEntries(entries []*session.Entry) (lost []lostShare) {
	for _, e := range entries {
		if e.Share != "" && e.QoS == 1 && e.Value != nil {
			lost = append(lost, lostShare{e.Value, e.Share})
		}
	}
	return lost
}

// redirect gives messages of shared subscriptions to other members.
func (w *workspace) redirect(lost []lostShare, from *session.Session) {
	var started touched
	for _, l := range lost {
		w.again(&encoding{value: l.value}, l.key, from, &started)
	}
	started.start()
}

// again chooses another member for a message, and gives it to it: live, or by a
// log record for it alone. With no member left the message is nobody's.
func (w *workspace) again(e *encoding, key string, from *session.Session, started *touched) {
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
				w.appendFor(e.value, value.Share{Key: key, Session: b.session.ClientID})
				return
			}
			if b.deliverShare(e, key, started) {
				return
			}
		}
	}
	w.server.metrics.MessagesDropped.Inc()
}

// appendFor appends a record of v to the session log for one session alone.
func (w *workspace) appendFor(v *value.Value, share value.Share) {
	f := w.feed.Load()
	if f == nil {
		return
	}
	record := *v
	record.Shares, record.Redirected = []value.Share{share}, true
	w.server.background(func(ctx context.Context) {
		err := retry(ctx, func() error {
			_, err := f.log.Append(ctx, [][]byte{record.AppendRecord(nil)})
			return err
		})
		if err != nil && ctx.Err() == nil {
			w.server.log.Error("embedded broker: a shared message could not be given to another member", "workspace", w.slug, "topic", v.Name, "error", err)
		}
	})
}

// inherit gives what a session that has ended was chosen for, and had not read
// or not acknowledged, to other members of its shared subscriptions.
func (w *workspace) inherit(se *session.Session) {
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
	w.inheritFrom(se, from, keys)
}

// inheritFrom does so for the records from a position on. Records between the
// first unacknowledged and the session's position that were acknowledged are
// told by the window: only its entries are given away.
func (w *workspace) inheritFrom(se *session.Session, from uint64, keys []string) {
	f := w.feed.Load()
	if f == nil {
		return
	}
	unacknowledged := make(map[uint64]bool)
	for _, e := range se.Window.Entries() {
		if e.Share != "" && e.QoS == 1 && e.Source == session.FromLog {
			unacknowledged[e.Position] = true
		}
	}
	position := se.Position
	w.server.background(func(ctx context.Context) {
		_, last, err := f.log.Bounds(ctx)
		for next := from; err == nil && next <= last; {
			var entries []state.Entry
			if entries, err = f.log.Read(ctx, next, pumpBatch, nil); err != nil || len(entries) == 0 {
				break
			}
			var lost []lostShare
			for _, entry := range entries {
				next = entry.Sequence + 1
				if entry.Sequence < position && !unacknowledged[entry.Sequence] {
					continue
				}
				v, bad := value.DecodeRecord(entry.Data)
				if bad != nil {
					continue // the feed has reported it
				}
				for _, share := range v.Shares {
					if share.Session == se.ClientID && contains(keys, share.Key) {
						lost = append(lost, lostShare{v, share.Key})
					}
				}
			}
			w.redirect(lost, se)
		}
		if err != nil && !errors.Is(err, context.Canceled) {
			w.server.log.Error("embedded broker: the messages of a shared subscription's member that ended could not be read", "workspace", w.slug, "client_id", se.ClientID, "error", err)
		}
	})
}

func contains(keys []string, key string) bool {
	for _, k := range keys {
		if k == key {
			return true
		}
	}
	return false
}
