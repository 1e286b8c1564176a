package ingest

import (
	"time"

	"maestrohub.io/uns/broker/value"
)

// step4 is what happens to a stored value until its outcome: session log,
// retained store, live copies. It belongs to the settling role; nothing in it
// blocks. What it needs done by the stores it returns as work.
//
// Invariants:
//
//  1. pending is in lane order; an entry leaves it once its outcome is given and
//     no durable step of it waits or flies.
//  2. An outcome without refusal is given only to an entry that is stored, whose
//     live copy has left, whose log and retained steps are landed or unneeded, and
//     that was found unneeded under the generation current at that moment.
//  3. Live copies leave in lane order. One that must land first (QoS 2 in the
//     log, a deleted retained message) holds those behind it.
//  4. The log gets what it wants in lane order: one batch at a time, and an entry
//     found wanted late goes in front of what was not batched yet.
//  5. Outcomes of one Completion are given in lane order: held counts those it
//     still waits for.
type step4 struct {
	lane *lane

	pending  []*entry
	unsent   []*entry // whose live copy has not left, in lane order
	logNext  []*entry // wanted and in no batch, in lane order
	logBatch []*entry // flying
	retNext  []*entry
	retBatch []*entry
	held     map[Completion]int

	// generation is Wanted's under which all of pending was matched.
	generation uint64
	cuts       cuts
	alarms     alarms
	timer      dueTimer

	audience Audience // nil if Live is none
	heldLast int      // what overdue last counted as held

	batch     []*value.Value // to deliver
	delivered bool           // Live is to be flushed
	flushes   flushes
	left      int // entries that left pending in this advance, and their room
	freed     int
}

// work is what a store has to do for step 4.
type work struct {
	log      []*entry
	retained []*entry
}

// settle is the settling role: it handles events until there are none.
func (l *lane) settle() {
	var spare []*entry
	for {
		l.mu.Lock()
		if !l.events.any() {
			l.settling = false
			if cap(l.events.stored) > keptCapacity {
				l.events.stored = nil
			}
			l.rest()
			l.mu.Unlock()
			return
		}
		ev := l.events
		l.events = events{stored: spare[:0]}
		l.mu.Unlock()

		w := l.step4.advance(&ev)
		clear(ev.stored)
		spare = ev.stored

		if l.step4.left > 0 {
			l.mu.Lock()
			l.count -= l.step4.left
			l.release(l.step4.freed)
			l.mu.Unlock()
			l.step4.left, l.step4.freed = 0, 0
		}
		if len(w.log)+len(w.retained) > 0 && !l.perform(w) {
			return
		}
	}
}

// perform does the stores' work in this goroutine, which gives the settling role
// up meanwhile. It reports whether it has it back, with the result among the events.
func (l *lane) perform(w work) bool {
	if len(w.log) > 0 && len(w.retained) > 0 {
		retained := w.retained
		go func() {
			l.putRetained(retained)
			l.post(func(ev *events) { ev.put = true })
		}()
		w.retained = nil
	}
	l.mu.Lock()
	if l.events.any() {
		go l.settle()
	} else {
		l.settling = false
	}
	l.mu.Unlock()

	var a *appended
	if len(w.log) > 0 {
		a = l.appendLog(w.log)
	} else {
		l.putRetained(w.retained)
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	if a != nil {
		l.events.appended = a
	} else {
		l.events.put = true
	}
	mine := !l.settling
	l.settling = true
	return mine
}

// advance takes events in, does what they allow and returns what the stores have
// to do next.
func (s *step4) advance(ev *events) work {
	l := s.lane
	now := l.i.now()
	full := ev.appended != nil || ev.put || ev.due || ev.abandon
	if ev.appended != nil {
		s.logLanded(ev.appended)
	}
	if ev.put {
		s.retainedLanded()
	}
	fresh := len(s.pending)
	for _, e := range ev.stored {
		e.stored = now
		s.cuts.arrive(e)
		if e.refusal.passing() && !e.follows {
			s.cut(e)
		}
	}
	s.pending = append(s.pending, ev.stored...)
	if ev.due {
		s.timer.armed = false
	}
	if ev.due || full && s.heldLast > 0 {
		s.overdue(now)
	}
	if l.i.ctx.Err() != nil {
		full = true
		for _, e := range s.pending {
			if e.refusal == 0 {
				e.refuse(Shed, "this replica stopped before the value was settled")
			}
		}
		s.logNext, s.retNext = nil, nil
	}
	matched := false
	for {
		if g := l.i.o.Wanted.Generation(); g != s.generation || !matched {
			from := fresh
			if g != s.generation {
				from, full = 0, true
				s.generation = g
			}
			s.match(from)
			matched = true
		}
		s.forward(ev.notices)
		ev.notices = nil
		from := fresh
		if full {
			from = 0
		}
		if s.finish(from, now) {
			break
		}
		// The index moved while outcomes were given: what is left is matched again.
		fresh, full = 0, true
	}
	s.flushes.flush()
	if s.delivered {
		s.delivered = false
		l.i.o.Live.Flush()
	}
	w := s.nextWork()
	s.timer.arm(s, now)
	return w
}

// match decides what the session log and the retained store are to have of the
// entries from an index on. Those seen before are matched again.
func (s *step4) match(from int) {
	late := false
	for n := from; n < len(s.pending); n++ {
		e := s.pending[n]
		if e.refusal != 0 || e.log != unneeded || e.out {
			continue
		}
		first := !e.matched
		e.matched = true
		if s.lane.i.o.Wanted.Wanted(e.v) {
			e.log = waiting
			late = late || !first
			s.logNext = append(s.logNext, e)
		}
		if first {
			if e.v.Retain {
				e.retained = waiting
				s.retNext = append(s.retNext, e)
			}
			s.unsent = append(s.unsent, e)
		}
	}
	if late {
		sortBySeq(s.logNext)
	}
}

// forward sends the live copies that may leave, with the alerts they raise, and
// the errors.
func (s *step4) forward(notices []*value.Value) {
	n, copies := 0, 0
	for ; n < len(s.unsent); n++ {
		e := s.unsent[n]
		if e.refusal != 0 {
			continue // its device is told that it was not taken
		}
		if e.v.QoS == 2 && (e.log == waiting || e.log == flying) || e.clear && e.retained != landed {
			break
		}
		e.alive = true
		copies++
		s.batch = append(s.batch, e.v)
		if e.watched {
			if a := s.alert(e); a != nil {
				s.batch = append(s.batch, a)
			}
		}
	}
	s.unsent = dropFront(s.unsent, n)
	s.batch = append(s.batch, notices...)
	if len(s.batch) == 0 {
		return
	}
	s.lane.i.o.Live.Deliver(s.batch)
	s.delivered = true
	s.lane.i.metrics.LiveMirrored.Add(float64(copies))
	clear(s.batch)
	s.batch = s.batch[:0]
	if cap(s.batch) > keptCapacity {
		s.batch = nil
	}
}

// finish gives the outcomes that can be given, to the entries from an index on,
// and drops from pending what has nothing left to wait for. It returns false if
// the index moved, so that an entry can no longer be said to be unwanted.
func (s *step4) finish(from int, now time.Duration) (done bool) {
	if from == 0 {
		clear(s.held)
	}
	done = true
	kept := from
	stored := 0
	for _, e := range s.pending[from:] {
		if !e.out {
			switch {
			case !e.decided(), len(s.held) > 0 && s.held[e.done] > 0:
				s.hold(e)
			case e.refusal == 0 && e.qos > 0 && e.log == unneeded && (!done || s.lane.i.o.Wanted.Generation() != s.generation):
				done = false
				s.hold(e)
			default:
				s.outcome(e, now)
				if e.refusal == 0 {
					stored++
				}
			}
		}
		if e.out && !e.open() && (e.alive || e.refusal != 0) {
			s.left++
			s.freed += e.size
			e.done = nil // the value may live long, its connection need not
			continue
		}
		s.pending[kept] = e
		kept++
	}
	clear(s.pending[kept:])
	s.pending = s.pending[:kept]
	if kept == 0 && cap(s.pending) > keptCapacity {
		s.pending = nil
	}
	s.lane.i.metrics.ValuesAccepted.Add(float64(stored))
	return done
}

// decided reports whether the outcome of an entry is known: refused, or nothing
// of it is owed. QoS 0 waits for none of step 4.
func (e *entry) decided() bool {
	return e.refusal != 0 || e.qos == 0 || e.alive && !e.open()
}

func (s *step4) hold(e *entry) {
	if s.held == nil {
		s.held = make(map[Completion]int)
	}
	s.held[e.done]++
}

// outcome gives an entry its outcome, once.
func (s *step4) outcome(e *entry, now time.Duration) {
	l := s.lane
	o := Outcome{Refusal: e.refusal, Detail: e.detail}
	if e.refusal != 0 {
		l.reportEntry(e)
	} else if s.audience != nil && e.log == unneeded {
		o.NoSubscribers = !s.audience.Audience(e.v)
	}
	e.out = true
	l.i.metrics.OutcomeSeconds.Observe((now - e.admitted).Seconds())
	s.flushes.complete(e.done, e.slot, o)
}

// reportEntry reports a refusal in the lane.
func (l *lane) reportEntry(e *entry) {
	l.report(e.v.Publisher, rejection{
		topic: l.i.o.Grammar.Inbox(l.workspace, e.v.Publisher, e.v.Topic), clientID: e.v.ClientID, qos: e.qos,
		Outcome: Outcome{Refusal: e.refusal, Detail: e.detail},
	})
}
