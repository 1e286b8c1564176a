package cluster

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// view is what a replica knows of the others' incarnations, from the watch of the
// members' bucket.
//
// That an entry is missing proves nothing: a watch can be blind, every NATS server
// expires entries by itself, and one that is cut off answers reads for as long as it
// lives. So absence is proven by order. An own heartbeat sent 1.5 T after another
// replica's last write was seen comes back through the same stream; if no write of the
// other stands before it, there was none. What follows is still only a conditional
// create of a Gone entry, which fails while an entry lives, and acting waits until
// that has landed.
type view struct {
	timing Timing
	self   string // the own replica id, never judged

	lives     map[string]*life // by replica id: the newest incarnation seen
	strangers map[Incarnation]*life
	ended     map[Incarnation]ended
	blind     bool // changes may be missing until the watch is ready again
}

// life is one incarnation as seen. A stranger has an empty entry.
type life struct {
	entry    Entry
	number   uint64 // orders incarnations of one id
	revision uint64
	seen     time.Time
	// proof is the first own heartbeat sent 1.5 T after seen; 0: none yet.
	proof   uint64
	judging bool
	// rival is an incarnation with a lower number that was written since this one
	// was: a write that came late, or the bucket was made anew and its revisions
	// began again. It is taken over when this one is proven silent.
	rival *life
}

type ended struct {
	how Ending
	at  time.Time
}

// change is what became different for the others: an incarnation joined, its
// entry says something new, or it ended (How is not Held).
type change struct {
	Entry Entry
	How   Ending
}

func newView(self string, timing Timing) *view {
	return &view{timing: timing, self: self, blind: true,
		lives: map[string]*life{}, strangers: map[Incarnation]*life{}, ended: map[Incarnation]ended{}}
}

// saw takes an entry the watch gave.
func (v *view) saw(e Entry, revision uint64, now time.Time) (changes []change) {
	i := e.Incarnation
	delete(v.strangers, i)
	l := v.lives[i.Replica]
	if l != nil && revision <= l.revision {
		return nil // a listing repeats it
	}
	if e.Phase == Gone {
		if l == nil || l.entry.Incarnation == i {
			if l == nil {
				l = &life{number: e.Number}
				v.lives[i.Replica] = l
			}
			l.entry, l.revision, l.judging = e, revision, false
		}
		return v.end(nil, e, EndedGone, now)
	}
	number := e.Number
	if number == 0 {
		number = revision
	}
	switch {
	case l == nil:
	case l.entry.Incarnation == i:
		if l.entry.Phase == Gone {
			return nil // gone stays gone, whatever arrives late
		}
		l.seen, l.proof, l.revision, l.rival = now, 0, revision, nil
		if e.Beat <= l.entry.Beat && e.Beat != 0 {
			return nil // an older write that came late shows life, not news
		}
		before := l.entry
		l.entry = e
		if e.Phase.Over() {
			return v.end(changes, e, phaseEnding(e.Phase), now)
		}
		if before.Phase != e.Phase || before.Refusing != e.Refusing || before.Applied != e.Applied || before.Newest != e.Newest {
			changes = append(changes, change{Entry: e})
		}
		return changes
	case number < l.number:
		// A write that came late does not bring an older life back.
		if _, over := v.ended[i]; !over {
			l.rival = &life{entry: e, number: number, revision: revision, seen: now}
		}
		return nil
	}
	if how := v.ended[i].how; how == EndedGone {
		return nil
	}
	if l != nil {
		how := phaseEnding(l.entry.Phase)
		if how == Held {
			how = EndedGone // ended without saying so, as a killed process does
		}
		changes = v.end(changes, l.entry, how, now)
	}
	v.lives[i.Replica] = &life{entry: e, number: number, revision: revision, seen: now}
	if e.Phase.Over() {
		return v.end(changes, e, phaseEnding(e.Phase), now)
	}
	return append(changes, change{Entry: e})
}

// phaseEnding is how a phase ends its incarnation's connections.
func phaseEnding(p Phase) Ending {
	switch p {
	case Fenced:
		return EndedFenced
	case Stopping, Stopped:
		return EndedStopped
	case Gone:
		return EndedGone
	}
	return Held
}

// end notes that an incarnation has ended, once.
func (v *view) end(changes []change, e Entry, how Ending, now time.Time) []change {
	before, over := v.ended[e.Incarnation]
	if over && (before.how == EndedGone || how != EndedGone) {
		return changes
	}
	v.ended[e.Incarnation] = ended{how, now}
	delete(v.strangers, e.Incarnation)
	if len(v.ended) > 4096 {
		// What is forgotten here is judged again when a record still names it.
		maps.DeleteFunc(v.ended, func(_ Incarnation, e ended) bool { return now.Sub(e.at) > 2*time.Hour })
	}
	return append(changes, change{e, how})
}

// lost: the watch may have missed changes and gives everything again.
func (v *view) lost() {
	v.blind = true
	for _, l := range v.all() {
		l.proof, l.revision = 0, 0 // the bucket may have been made anew
	}
}

// ready: the watch is complete from here on. What was missed meanwhile counts as
// seen now.
func (v *view) ready(now time.Time) {
	v.blind = false
	for _, l := range v.all() {
		l.seen, l.proof = now, 0
	}
}

func (v *view) all() []*life {
	return slices.Concat(slices.Collect(maps.Values(v.lives)), slices.Collect(maps.Values(v.strangers)))
}

// sent notes an own heartbeat: it will prove, by its echo, the silence of all who
// have been silent for long enough.
func (v *view) sent(beat uint64, at time.Time) {
	for _, l := range v.all() {
		if l.proof == 0 && at.Sub(l.seen) >= v.timing.Proof() {
			l.proof = beat
		}
	}
}

// echo is an own heartbeat that came through the watch. It returns whom to judge,
// each by a conditional create; and the strangers whose replica has another life,
// which needs no judgment: they ended before it.
func (v *view) echo(beat uint64, now time.Time) (judge []Incarnation, changes []change) {
	if v.blind {
		return nil, nil
	}
	proven := func(l *life) bool { return l.proof != 0 && beat >= l.proof && !l.judging }
	for i, l := range v.strangers {
		switch {
		case !proven(l):
		case v.lives[i.Replica] != nil:
			changes = v.end(changes, Entry{Incarnation: i}, EndedGone, now)
		default:
			l.judging = true
			judge = append(judge, i)
		}
	}
	for replica, l := range v.lives {
		if replica == v.self || l.entry.Phase >= Stopped || !proven(l) {
			continue
		}
		if l.rival != nil {
			changes = v.end(changes, l.entry, EndedGone, now)
			v.lives[replica] = l.rival
			changes = append(changes, change{Entry: l.rival.entry})
			continue
		}
		l.judging = true
		judge = append(judge, l.entry.Incarnation)
	}
	slices.SortFunc(judge, func(a, b Incarnation) int { return cmp.Compare(a.String(), b.String()) })
	return judge, changes
}

// judged is the answer to a judgment. Only a landed one means anything: after any
// other the next echo leads to another try, if still nothing was seen.
func (v *view) judged(i Incarnation, landed bool, now time.Time) []change {
	l := v.strangers[i]
	if cur := v.lives[i.Replica]; cur != nil && cur.entry.Incarnation == i {
		l = cur
	}
	if l == nil {
		return nil
	}
	l.judging, l.proof = false, 0
	if !landed {
		return nil
	}
	e := l.entry
	e.Incarnation, e.Phase = i, Gone
	l.entry = e
	if v.lives[i.Replica] == nil {
		v.lives[i.Replica] = l
	}
	return v.end(nil, e, EndedGone, now)
}

// ending tells how an incarnation ended, or Held. One that was never seen is noted
// as a stranger: a record names it, so it lived once, and the silence since then is
// proven like anybody's.
func (v *view) ending(i Incarnation, now time.Time) Ending {
	if e, over := v.ended[i]; over {
		return e.how
	}
	if l := v.lives[i.Replica]; l != nil && l.entry.Incarnation == i {
		return Held
	}
	if v.strangers[i] == nil {
		v.strangers[i] = &life{seen: now}
	}
	return Held
}

// over reports whether the newest life under a replica id has stopped or is gone; false
// also if none was ever seen.
func (v *view) over(replica string) bool {
	l := v.lives[replica]
	return l != nil && l.entry.Phase >= Stopped
}

// members are the entries of all who are neither gone nor stopped, by replica id.
func (v *view) members() []Entry {
	var entries []Entry
	for _, l := range v.lives {
		if l.entry.Phase < Stopped {
			entries = append(entries, l.entry)
		}
	}
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Incarnation.Replica, b.Incarnation.Replica) })
	return entries
}
