package cluster

import (
	"cmp"
	"slices"
	"time"
)

// WillWait is how long a will waits once its connection has ended: at a serving
// replica what the standard says, the Will Delay Interval or the end of the session
// if that comes first [MQTT-3.1.2-8]; where the replica was the cause, at least the
// grace, for the device did nothing wrong and is on its way to another.
func WillWait(how Ending, delay, expiry uint32, grace time.Duration) time.Duration {
	standard := time.Duration(min(delay, expiry)) * time.Second
	switch how {
	case EndedStopped, EndedFenced, EndedGone:
		return max(grace, standard)
	}
	return standard
}

// Claimed is how a CONNECT's claim of a client id found the connection before it.
type Claimed uint8

const (
	// ClosedByTakeover: it was open at a serving replica, which closed it for
	// this claim.
	ClosedByTakeover Claimed = iota
	// EndedBefore: it had ended already, or its replica stopped, was fenced, is
	// gone or did not answer.
	EndedBefore
)

// WillAtClaim says whether a will of the connection before is sent when another
// claims its client id. A takeover of an open connection follows the standard: at
// once without a delay, or when the session ends with the connection, else not at
// all [MQTT-3.1.3-9]. In every other case the device is back and nothing is sent.
func WillAtClaim(how Claimed, delay uint32, sessionEnds bool) (send bool) {
	return how == ClosedByTakeover && (delay == 0 || sessionEnds)
}

// dead reports whether the owner record that stands rules a will out: another
// connection has the client id, or this one left properly. Equality only, never
// order: mqtt-sessions may have been rebuilt. Without an owner record the will
// counts.
func (w *Will) dead(o *Owner) bool {
	return o != nil && (o.Connection != w.Connection || o.Ending == Left)
}

// Wills decides when the wills of ended incarnations are due. It is the state of one
// replica for as long as it serves; after a fence it begins with an empty one, for
// nobody could come back to it meanwhile. Every replica keeps one, elected to send or
// not: so the grace counts from when the replica that sends, serving and with a current
// lease, first saw the will waiting, and not from when it was elected, which may be much
// later where the one elected before is the one that was killed.
//
// Its clock counts only time in which no member refused a CONNECT for the store's
// sake: a device that is turned away cannot come back in time.
type Wills struct {
	grace, budget, most time.Duration

	clock     time.Duration
	last      time.Time
	wills     map[ID]*waiting
	returning map[string]returning // by client: its wills are held
}

// returning is a CONNECT that arrived.
type returning struct {
	at    time.Time
	until time.Time // its wills are held
}

// waiting is one will that is known, waiting or not.
type waiting struct {
	will     *Will
	seen     time.Time // when it became known
	revision uint64
	noted    bool // it waits
	since    time.Duration
	how      Ending
	need     time.Duration
	heldFrom time.Time // when a returning device first held it beyond its wait
	out      bool      // being sent
}

// Due is a will to be sent now.
type Due struct {
	Will     *Will
	Revision uint64
	How      Ending
}

// willTick bounds what one Tick counts: what happened in a longer pause is not
// known yet.
const willTick = 2 * time.Second

// NewWills returns an empty decider: grace is willStopGrace, budget connectBudget,
// most maxSessionExpiry, which bounds how long a returning device holds its will.
func NewWills(grace, budget, most time.Duration) *Wills {
	return &Wills{grace: grace, budget: budget, most: most, wills: map[ID]*waiting{}, returning: map[string]returning{}}
}

// Saw takes a will's record from the watch.
func (s *Wills) Saw(w *Will, revision uint64, now time.Time) {
	k := s.wills[w.Connection]
	if k == nil {
		k = &waiting{seen: now}
		s.wills[w.Connection] = k
	}
	if revision > k.revision {
		k.will, k.revision = w, revision
	}
}

// Removed notes that the will's record is gone: sent, dead or cancelled.
func (s *Wills) Removed(connection ID) { delete(s.wills, connection) }

// Returning notes that a CONNECT of the client has arrived somewhere, signed in or
// not: its wills are held for one connectBudget.
func (s *Wills) Returning(client string, now time.Time) {
	s.returning[client] = returning{now, now.Add(s.budget)}
}

// Arrived is when the CONNECTs arrived that may still be under way, by client.
func (s *Wills) Arrived(now time.Time) map[string]time.Time {
	all := make(map[string]time.Time, len(s.returning))
	for client, r := range s.returning {
		if now.Before(r.until) {
			all[client] = r.at
		}
	}
	return all
}

// SessionEnded notes that the client's session ended before its expiry: a will does
// not wait longer than its session, beyond the grace.
func (s *Wills) SessionEnded(client string) {
	for _, k := range s.wills {
		if k.will.Client == client {
			k.need = min(k.need, s.grace)
		}
	}
}

// Note moves the clock on and notes which wills wait. refusing says whether any member
// refuses CONNECTs for the store's sake; ending how an incarnation ended.
func (s *Wills) Note(now time.Time, refusing bool, ending func(Incarnation) Ending) {
	if !s.last.IsZero() && !refusing {
		s.clock += min(now.Sub(s.last), willTick)
	}
	s.last = now
	for client, r := range s.returning {
		if !now.Before(r.until) {
			delete(s.returning, client)
		}
	}
	for _, k := range s.wills {
		if k.noted {
			continue
		}
		if how := ending(k.will.Incarnation); how != Held {
			k.noted, k.how, k.since = true, how, s.clock
			k.need = WillWait(how, k.will.Delay, k.will.Expiry, s.grace)
		}
	}
}

// Tick is Note, and returns the wills that are due, those waiting longest first, each
// once until Unsent makes it due again.
func (s *Wills) Tick(now time.Time, refusing bool, ending func(Incarnation) Ending) []Due {
	s.Note(now, refusing, ending)
	var due []*waiting
	for _, k := range s.wills {
		if k.noted && !k.out && !refusing && s.clock-k.since >= k.need && !s.held(k, now) {
			due = append(due, k)
		}
	}
	slices.SortFunc(due, func(a, b *waiting) int {
		return cmp.Or(cmp.Compare(a.since+a.need, b.since+b.need), cmp.Compare(a.will.Connection.String(), b.will.Connection.String()))
	})
	list := make([]Due, len(due))
	for i, k := range due {
		k.out = true
		list[i] = Due{k.will, k.revision, k.how}
	}
	return list
}

// held reports whether a returning device still holds a will that would be due. The
// CONNECT that declared the will is none that returns: it came before the will did.
func (s *Wills) held(k *waiting, now time.Time) bool {
	if r, back := s.returning[k.will.Client]; !back || r.at.Before(k.seen) {
		return false
	}
	if k.heldFrom.IsZero() {
		k.heldFrom = now
	}
	return now.Sub(k.heldFrom) < s.most
}

// Unsent notes that sending failed for a reason that may pass: the will is due
// again at the next Tick after pause.
func (s *Wills) Unsent(connection ID, pause time.Duration) {
	if k := s.wills[connection]; k != nil {
		k.out = false
		k.since, k.need = s.clock, pause
	}
}

// Waiting is how many wills wait.
func (s *Wills) Waiting() (n int) {
	for _, k := range s.wills {
		if k.noted {
			n++
		}
	}
	return n
}
