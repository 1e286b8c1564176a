package cluster

import "time"

// lease is the right of one incarnation to serve and to decide. It is renewed by
// writes of the own entry, each counted from when it was sent, because from then on
// the others may count. Once it has run out it stays out: the replica registers as
// another incarnation.
type lease struct {
	timing Timing
	held   time.Time // when the latest landed write was sent; zero: not registered
	next   time.Time // when the next heartbeat is due
	over   bool
}

// due reports whether a heartbeat is to be sent now, whether or not earlier ones
// are back, and counts it as sent. Beats missed in a pause are not made up for.
func (l *lease) due(now time.Time) bool {
	if now.Before(l.next) {
		return false
	}
	if l.next = l.next.Add(l.timing.Heartbeat()); !l.next.After(now) {
		l.next = now.Add(l.timing.Heartbeat())
	}
	return true
}

// begin starts the lease with the write that registered the incarnation, however
// long ago it was sent: from then on the others count, so a registration whose answer
// came too late may have been judged gone already and is given up like any lapsed one,
// and so is one that landed nobody knows when (the zero time).
func (l *lease) begin(sent time.Time) { l.held, l.over = sent, sent.IsZero() }

// landed notes that a write sent at sent is known at now to have landed. Answers
// may come in any order: the latest sending counts, and it is tested against now,
// so an answer that comes after the fence, or so late that it would have, renews
// nothing.
func (l *lease) landed(sent, now time.Time) {
	if l.held.IsZero() || l.expired(now) || !now.Before(sent.Add(l.timing.Fence())) {
		return
	}
	if sent.After(l.held) {
		l.held = sent
	}
}

// expired reports whether the lease has run out, and remembers it.
func (l *lease) expired(now time.Time) bool {
	if !l.held.IsZero() && !now.Before(l.fenceAt()) {
		l.over = true
	}
	return l.over
}

// holds reports whether the lease has begun and the fence is still ahead.
func (l *lease) holds(now time.Time) bool { return !l.held.IsZero() && !l.expired(now) }

func (l *lease) fenceAt() time.Time  { return l.held.Add(l.timing.Fence()) }
func (l *lease) decideAt() time.Time { return l.held.Add(l.timing.Decide()) }
