package session

import "maestrohub.io/uns/broker/value"

// Subscription is one entry of a session's subscriptions, with the options of
// the SUBSCRIBE that made or replaced it.
type Subscription struct {
	// Filter is the topic filter as the client gave it, its key in the session
	// [MQTT-3.10.4-1]; Bare is the part that is matched: the same, without
	// $share/<name>/ for a shared subscription.
	Filter, Bare string
	// Share is the share name; empty for a subscription of the session's own.
	Share string
	// QoS is the maximum granted.
	QoS               byte
	NoLocal           bool
	RetainAsPublished bool
	// ID is the subscription identifier; 0 if the SUBSCRIBE carried none.
	ID uint32
	// Since is the first position of the session log the subscription is for. A
	// replacing SUBSCRIBE keeps it, so that no message is lost [MQTT-3.8.4-4].
	Since uint64
	// Covered says that the read grants cover the whole filter, so that a
	// delivery needs no check of its own. Set anew whenever the grants change.
	Covered bool
	// Earlier is the subscription this one has replaced, where entries of the session log
	// may wait that this one would not take from it; else nil.
	Earlier *Earlier
}

// Earlier are the options of a subscription that was replaced, or of several. Entries that
// were theirs are delivered all the same: replacing a subscription loses no message
// [MQTT-3.8.4-4], also where the one in its place asks for less.
type Earlier struct {
	QoS     byte
	NoLocal bool
	// Until is the first entry that is not theirs any more; Live while that is not known.
	Until uint64
	// decided are the values that have come live since they were replaced, by their position
	// in the historian: those are the replacing one's. Noted while Until is not known.
	decided map[uint64]bool
}

// replace has sub, which takes the place of old in a session that has looked at every entry
// before next, leave to old what it asked for and sub does not.
func (s *Subscription) replace(old *Subscription, next uint64) {
	e := &Earlier{QoS: old.QoS, NoLocal: old.NoLocal, Until: Live}
	if before := old.Earlier; before != nil && next < before.Until {
		e.QoS, e.NoLocal, e.decided = max(e.QoS, before.QoS), e.NoLocal && before.NoLocal, before.decided
	}
	if e.QoS > 0 && (s.QoS == 0 || s.NoLocal && !e.NoLocal) {
		s.Earlier = e
	}
}

// has reports whether the entry at a position of the session log, or Live, is theirs.
func (e *Earlier) has(v *value.Value, position uint64) bool {
	return e != nil && position < e.Until && !e.decided[v.Position]
}

// Decided notes that a stored value has come live: whether the session gets it so is up to
// the subscriptions it has now.
func Decided(subs []*Subscription, v *value.Value) {
	for _, s := range subs {
		if e := s.Earlier; e != nil && e.Until == Live && v.Position > 0 {
			if e.decided == nil {
				e.decided = make(map[uint64]bool)
			}
			e.decided[v.Position] = true
		}
	}
}

// Key names the share across sessions: share name and filter, "name/filter".
func (s *Subscription) Key() string { return s.Share + "/" + s.Bare }

// Effect is how one value goes to one session: the single copy that all its
// matching subscriptions together ask for.
type Effect struct {
	// QoS is the lower of the value's and the highest granted of the matching
	// subscriptions [MQTT-3.3.4-2], [MQTT-3.8.4-8].
	QoS byte
	// Retain is the RETAIN flag of the copy: the value's own where a subscription
	// asked for Retain As Published, else 0 [MQTT-3.3.1-12], [MQTT-3.3.1-13].
	Retain bool
	// IDs are the identifiers of the matching subscriptions [MQTT-3.3.4-4].
	IDs []uint32
	// Covered says that the read grants need not be asked.
	Covered bool
}

// Live is the position of a value that does not come from the log: every
// subscription is for it.
const Live = ^uint64(0)

// Effective merges the subscriptions of one session that match v into its single
// copy. position is the value's sequence in the session log, or Live; client is
// the session's client identifier, for No Local. ok is false if none of the
// subscriptions is for this value.
func Effective(subs []*Subscription, v *value.Value, position uint64, client string) (e Effect, ok bool) {
	granted := -1
	for _, s := range subs {
		qos, noLocal := s.QoS, s.NoLocal
		if s.Earlier.has(v, position) {
			qos, noLocal = max(qos, s.Earlier.QoS), noLocal && s.Earlier.NoLocal
		}
		if position < s.Since || noLocal && client == v.ClientID && client != "" { // [MQTT-3.8.3-3]
			continue
		}
		granted = max(granted, int(qos))
		e.Retain = e.Retain || v.Retain && s.RetainAsPublished
		e.Covered = e.Covered || s.Covered
		if s.ID != 0 {
			e.IDs = append(e.IDs, s.ID)
		}
	}
	if granted < 0 {
		return Effect{}, false
	}
	e.QoS = min(v.QoS, byte(granted))
	return e, true
}
