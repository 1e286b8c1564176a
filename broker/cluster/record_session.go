package cluster

import (
	"cmp"
	"slices"
	"time"
)

// Position is a place in a session log: a sequence and the store's time of the
// entry at it. A restored log reuses sequences, so the sequence alone would take
// another entry for the one that was read.
type Position struct {
	Sequence uint64
	Time     int64 // ns since 1970; 0 with Sequence 0: before the first entry
}

// Session is a persistent session in state.SessionState, keyed by client id.
type Session struct {
	// ID is random, of this life of the session. The session's other records
	// carry it; one with another ID belongs to an earlier life and counts as
	// absent.
	ID                  ID
	Writer              ID // the connection that wrote it, as in Cursor
	Identity, Workspace string
	// Expiry is the Session Expiry Interval in seconds, never more than
	// maxSessionExpiry.
	Expiry        uint32
	Subscriptions []Subscription
}

// Subscription is one filter of a persistent session.
type Subscription struct {
	Filter            string // as the client gave it, $share/ included
	QoS               byte
	NoLocal           bool
	RetainAsPublished bool
	ID                uint32 // subscription identifier; 0: none
	// Since is the last log position known before the subscription was written.
	Since Position
	// Earlier is what it has replaced, as far as entries of the log may wait for that; at
	// QoS 0 there is none.
	Earlier Earlier
}

// Earlier are the options of a replaced subscription.
type Earlier struct {
	QoS     byte
	NoLocal bool
	// Until is the last log position that is its; the zero Position while that is not known.
	Until Position
}

// Lifetime is the expiry as a duration, bounded by maxSessionExpiry.
func (s *Session) Lifetime(most time.Duration) time.Duration {
	return min(time.Duration(s.Expiry)*time.Second, most)
}

// KeepSubscriptions holds a record that is about to be written over stored to the
// rule that only a SUBSCRIBE or UNSUBSCRIBE changes subscriptions, and only those it
// names: every other that differs, in what it asks for, is replaced by the stored one. It
// returns the filters of those; there are none unless something is wrong.
func (s *Session) KeepSubscriptions(stored *Session, named []string) (kept []string) {
	asks := func(f *Subscription) Subscription {
		a := *f
		a.Since, a.Earlier = Position{}, Earlier{} // move with the log, not with the client
		return a
	}
	was := make(map[string]*Subscription, len(stored.Subscriptions))
	for i := range stored.Subscriptions {
		was[stored.Subscriptions[i].Filter] = &stored.Subscriptions[i]
	}
	is := s.Subscriptions[:0:0]
	for i := range s.Subscriptions {
		f := &s.Subscriptions[i]
		old := was[f.Filter]
		delete(was, f.Filter)
		switch {
		case slices.Contains(named, f.Filter) || old != nil && asks(old) == asks(f):
			is = append(is, *f)
		case old != nil:
			is, kept = append(is, *old), append(kept, f.Filter)
		default:
			kept = append(kept, f.Filter)
		}
	}
	for filter, old := range was {
		if !slices.Contains(named, filter) {
			is, kept = append(is, *old), append(kept, filter)
		}
	}
	if len(kept) > 0 {
		slices.SortFunc(is, func(a, b Subscription) int { return cmp.Compare(a.Filter, b.Filter) })
		slices.Sort(kept)
		s.Subscriptions = is
	}
	return kept
}

// Encode returns the record in the floor's format.
func (s *Session) Encode(floor Format) []byte {
	a := record(floor)
	a.id(s.ID)
	a.id(s.Writer)
	a.string(s.Identity)
	a.string(s.Workspace)
	a.uint(uint64(s.Expiry))
	a.uint(uint64(len(s.Subscriptions)))
	for _, f := range s.Subscriptions {
		a.string(f.Filter)
		a.byte(f.QoS)
		a.flags(f.NoLocal, f.RetainAsPublished, f.Earlier.QoS > 0)
		a.uint(uint64(f.ID))
		a.position(f.Since)
		if e := f.Earlier; e.QoS > 0 {
			a.byte(e.QoS)
			a.flags(e.NoLocal)
			a.position(e.Until)
		}
	}
	return a.b
}

// DecodeSession reads a Session.
func DecodeSession(b []byte) (*Session, error) {
	p, s := parse("session record", b), &Session{}
	s.ID = p.id("id")
	s.Writer = p.id("writer")
	s.Identity = p.string("identity")
	s.Workspace = p.string("workspace")
	s.Expiry = uint32(p.limited("expiry", 1<<32-1))
	for range p.count("subscriptions", 6) {
		var f Subscription
		f.Filter = p.string("filter")
		f.QoS = p.enum("granted QoS", 2)
		flags := p.flags("options", 3)
		f.NoLocal, f.RetainAsPublished = flags[0], flags[1]
		f.ID = uint32(p.limited("subscription identifier", 268435455))
		f.Since = p.position("since")
		if flags[2] {
			if f.Earlier.QoS = p.enum("earlier QoS", 2); f.Earlier.QoS == 0 {
				p.fail("earlier QoS")
			}
			f.Earlier.NoLocal = p.flags("earlier options", 1)[0]
			f.Earlier.Until = p.position("until")
		}
		s.Subscriptions = append(s.Subscriptions, f)
	}
	if err := p.end(); err != nil {
		return nil, err
	}
	return s, nil
}

func (a *appender) position(v Position) {
	a.uint(v.Sequence)
	a.int(v.Time)
}

func (p *parser) position(field string) Position {
	return Position{Sequence: p.uint(field), Time: p.int(field)}
}
