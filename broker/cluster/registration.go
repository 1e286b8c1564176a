package cluster

import "time"

// registration is how an incarnation gets its entry, a conditional write whose
// revision orders the incarnations of one replica id. It watches the entry first:
// another process under the same id, if alive, rewrites it every heartbeat, and
// then this one is a duplicate and serves nobody. It never writes over an entry that
// was rewritten within three heartbeats, unless that says it stopped.
type registration struct {
	timing Timing
	id     Incarnation
	// mine tells the earlier lives of this process, whose heartbeats may still
	// land and are nobody's sign of life.
	mine func(ID) bool

	watching  bool      // the watch has given all there was
	since     time.Time // when the entry was last seen rewritten, or watching began
	there     bool
	revision  uint64
	other     Entry // the life that holds the entry, if there
	rewritten int   // times it was, at least half a heartbeat apart
	writing   bool
	first     time.Time // when the earliest write that may have landed was sent
	unsure    bool      // one of them may have landed
	retry     time.Time // not before

	number uint64 // of the entry that landed; 0: not registered
}

// begin is called when the watch has given every current record, with the own
// entry if there was one. It may be called again when the watch had to begin anew.
func (r *registration) begin(now time.Time) {
	if !r.watching {
		r.watching = true
		r.since = now
	}
}

// saw notes what stands on the own key, from the watch or from a read. It reports
// whether that completes the registration.
func (r *registration) saw(e Entry, revision uint64, now time.Time) (registered bool) {
	if r.number != 0 || revision <= r.revision {
		return false
	}
	if e.Incarnation == r.id && e.Number == 0 {
		r.number = revision
		return true
	}
	if r.there && !r.idle(e) && (r.rewritten == 0 || now.Sub(r.since) >= r.timing.Apart()) {
		r.rewritten++
	}
	r.there, r.revision, r.other, r.since = true, revision, e, now
	return false
}

// forget drops what was seen: it is given anew.
func (r *registration) forget() {
	r.watching, r.there, r.revision, r.rewritten = false, false, 0, 0
}

// absent notes that nothing stands on the own key any more.
func (r *registration) absent(revision uint64) {
	if revision >= r.revision {
		r.there, r.revision, r.rewritten = false, revision, 0
	}
}

// idle reports whether nobody rewrites that entry any more.
func (r *registration) idle(e Entry) bool {
	return e.Phase == Stopped || e.Phase == Gone || r.mine(e.Incarnation.ID)
}

// duplicate reports whether another process lives under this replica id.
func (r *registration) duplicate() bool { return r.number == 0 && r.rewritten >= 2 }

// claim is a write of the entry: over revision, or where nothing is if 0.
type claim struct{ revision uint64 }

// next returns the write to make now, if it is time for one.
func (r *registration) next(now time.Time) (c claim, ok bool) {
	if !r.watching || r.writing || r.number != 0 || now.Before(r.retry) {
		return c, false
	}
	if r.there {
		if !r.idle(r.other) && now.Sub(r.since) < r.timing.Quiet() {
			return c, false
		}
		if now.Sub(r.since) >= r.timing.Quiet() {
			r.rewritten = 0
		}
		c.revision = r.revision
	}
	r.writing = true
	if r.first.IsZero() {
		r.first = now
	}
	return c, true
}

// landed notes that the write landed at the revision.
func (r *registration) landed(revision uint64) {
	r.writing = false
	r.number = revision
}

// failed notes that it did not, or not for sure (unknown). The entry is then to be
// read and what stands there given to saw or absent; a further write comes a
// heartbeat later at the soonest.
func (r *registration) failed(unknown bool, now time.Time) {
	r.writing = false
	r.retry = now.Add(r.timing.Heartbeat())
	if r.unsure = r.unsure || unknown; !r.unsure {
		r.first = time.Time{}
	}
}

// guard is the watch an incarnation keeps over its entry once registered.
type guard struct {
	timing Timing
	id     Incarnation
	number uint64
	mine   func(ID) bool
	older  int       // heartbeats of an older life of another process
	last   time.Time // when the last of them was seen
}

// saw returns why the incarnation must fence itself at once, or 0.
func (g *guard) saw(e Entry, revision uint64, now time.Time) Cause {
	number := e.Number
	if number == 0 {
		number = revision
	}
	switch {
	case e.Incarnation == g.id && e.Phase == Gone:
		return JudgedGone
	case e.Incarnation == g.id, e.Phase == Gone, g.mine(e.Incarnation.ID):
		return 0
	case number > g.number:
		return NewerLife
	}
	// One was sent by a life that ended and arrived late; the next own heartbeat
	// overwrites it. A second one apart from it: that process lives, and this one
	// registered after it.
	if g.older == 0 || now.Sub(g.last) >= g.timing.Apart() {
		g.older++
	}
	g.last = now
	if g.older >= 2 {
		return DuplicateID
	}
	return 0
}

// Cause says why an incarnation was fenced.
type Cause uint8

// The causes. Whatever the cause, the effect is the same.
const (
	// LeaseLost: no write of the entry landed for T·7/6.
	LeaseLost Cause = iota + 1
	// HalfOpen: nothing was received on the shared-state connection for 15 s.
	HalfOpen
	// EntryGone: somebody deleted the entry.
	EntryGone
	// JudgedGone: another replica judged this incarnation gone.
	JudgedGone
	// NewerLife: a later incarnation registered under the replica id.
	NewerLife
	// DuplicateID: an earlier process lives under the replica id.
	DuplicateID
	// BelowFloor: the cluster writes a format this release does not read.
	BelowFloor
	// Stop: the replica was asked to stop.
	Stop
)

// String returns the cause in words.
func (c Cause) String() string {
	if int(c) < len(causeNames) {
		return causeNames[c]
	}
	return "invalid cause"
}

var causeNames = [...]string{"none", "lease lost", "shared-state connection silent", "member entry deleted",
	"judged gone by another replica", "a newer process runs under this replica id",
	"another process runs under this replica id", "below the format floor", "stopping"}
