package ingest

import "time"

// Freshness is a Wanted that knows whether what it says is proven complete. A
// value of QoS 1 or 2 that nobody seems to want is acknowledged only while it is.
// Otherwise it is appended to its workspace's log, whose readers choose for
// themselves; in a workspace without a log it is held until it is, at most
// AppendWait. A Wanted without Fresh is always complete.
//
// Fresh is read when the outcome is given, before the generation. It does not
// block.
type Freshness interface {
	Fresh() bool
}

// LogKnower says whether a workspace has a session log. It is looked for in
// Wanted, where the workspace is named by its slug as in a value, then in Logs,
// where it is named by its id as there. It does not block, and may say false of a log just made.
type LogKnower interface {
	HasLog(workspace string) bool
}

// freshAgain is how often a held value looks whether the proof has come. Nothing
// looks while nothing is held.
const freshAgain = 50 * time.Millisecond

// proof is what step 4 knows of how far Wanted can be trusted.
type proof struct {
	freshness Freshness // nil: always
	hasLog    func() bool
	logged    bool // an append of this lane has landed
	// all: Wanted is not to be trusted and there is a log, so everything of QoS 1
	// and 2 is appended.
	all    bool
	unsure bool // something is held for a proof
	timer  *time.Timer
	armed  bool
}

func newProof(l *lane) proof {
	p := proof{}
	p.freshness, _ = l.i.o.Wanted.(Freshness)
	if k, ok := l.i.o.Wanted.(LogKnower); ok {
		p.hasLog = func() bool { return k.HasLog(l.workspace) }
	} else if k, ok := l.i.o.Logs.(LogKnower); ok {
		p.hasLog = func() bool { return k.HasLog(l.logID()) }
	}
	return p
}

// fresh reports whether what Wanted says is complete.
func (p *proof) fresh() bool { return p.freshness == nil || p.freshness.Fresh() }

// log reports whether there is a log to append to without making one.
func (p *proof) log() bool { return p.logged || p.hasLog != nil && p.hasLog() }

// look decides whether everything is to be appended, and reports whether that is new.
func (p *proof) look() bool {
	was := p.all
	p.all = !p.fresh() && p.log()
	return p.all && !was
}

// wants reports whether the session log is to have the entry. The live copy's QoS
// counts: a value of a QoS 0 device that is left out now could be found wanted behind
// a later one.
func (s *step4) wants(e *entry) bool {
	return s.lane.i.o.Wanted.Wanted(e.v) || s.proof.all && e.v.QoS > 0
}

// unwanted reports whether an entry that no log holds is unwanted for certain, now.
// If not, it sets done to false if the entry is to be matched again. Freshness is
// read first: the generation, if it is still that of the match, is then of what
// was fresh.
func (s *step4) unwanted(e *entry, done *bool) bool {
	fresh := s.proof.fresh()
	switch {
	case !*done || s.lane.i.o.Wanted.Generation() != s.generation:
		*done = false
	case fresh:
		return true
	case s.proof.log():
		s.proof.all = true // until the next event, however freshness flaps
		*done = false
	default:
		e.unsure, s.proof.unsure = true, true
	}
	return false
}

// recheck sees to it that held entries are looked at again.
func (p *proof) recheck(l *lane) {
	if !p.unsure || p.armed {
		return
	}
	p.armed = true
	if p.timer == nil {
		p.timer = time.AfterFunc(freshAgain, func() { l.post(func(ev *events) { ev.recheck = true }) })
		return
	}
	p.timer.Reset(freshAgain)
}
