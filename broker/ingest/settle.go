package ingest

import (
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
//  3. Live copies leave in lane order, those of refused entries only if the log
//     takes the value all the same. One that must land first (QoS 2 in the
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
	proof      proof
	landings   landings
	cuts       cuts
	alarms     alarms
	timer      dueTimer

	audience Audience // nil if Live is none
	linked   Linked   // nil if Live is none
	heldLast int      // what countHeld last counted

	batch     []*value.Value // to deliver
	delivered bool           // Live is to be flushed
	flushes   flushes
	left      int    // entries that left pending in this advance, and their room
	sides     [2]int // the same by side of the lane's barrier
	freed     int
}

// work is what a store has to do for step 4.
type work struct {
	log      []*entry
	retained []*entry
}

// settle is the settling role: it handles events until there are none.
func (l *lane) settle() {
	if l.settled != nil {
		<-l.settled
		l.settled = nil
	}
	var spare []*entry
	for {
		l.mu.Lock()
		if !l.events.any() {
			l.settling = false
			l.trim()
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
			l.barrier.leave(l.step4.sides)
			l.step4.sides = [2]int{}
			l.release(l.step4.freed)
			l.mu.Unlock()
			l.step4.left, l.step4.freed = 0, 0
		}
		if len(w.log)+len(w.retained) > 0 && !l.perform(w) {
			return
		}
	}
}

// trim gives back what an idle lane need not keep: large buffers, and the
// connections that refusals remembered. l.mu is held, by the settling role.
func (l *lane) trim() {
	if cap(l.events.stored) > keptCapacity {
		l.events.stored = nil
	}
	if len(l.step4.logBatch) == 0 && cap(l.records) > keptRecords {
		l.records, l.ends = nil, nil
	}
	if l.count == 0 {
		clear(l.step4.cuts.of)
		l.step4.landings = landings{}
	}
	l.forgetEnded()
}

// keptRecords is the largest buffer for encoded records that an idle lane keeps.
const keptRecords = 64 << 10

// perform does the stores' work in this goroutine, which gives the settling role
// up meanwhile. It reports whether it has it back, with the result among the events.
func (l *lane) perform(w work) bool {
	both := len(w.log) > 0 && len(w.retained) > 0
	l.mu.Lock()
	if l.events.any() {
		go l.settle()
	} else {
		l.settling = false
	}
	l.out++
	if both {
		l.out++
	}
	l.mu.Unlock()
	if both {
		retained := w.retained
		go func() {
			l.putRetained(retained)
			l.post(func(ev *events) {
				l.out--
				ev.put = true
			})
		}()
		w.retained = nil
	}

	var a *appended
	if len(w.log) > 0 {
		a = l.appendLog(w.log)
	} else {
		l.putRetained(w.retained)
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	l.out--
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
	full := ev.full()
	if ev.appended != nil {
		s.logLanded(ev.appended)
	}
	if ev.put {
		s.retainedLanded()
	}
	fresh := len(s.pending)
	for _, e := range ev.stored {
		e.stored = now
		if e.refusal == 0 && !e.clear {
			e.kept = Stored
		}
		s.cuts.arrive(e)
		if e.refusal.Passing() && !e.follows {
			s.cut(e)
		}
	}
	s.pending = append(s.pending, ev.stored...)
	if ev.due {
		s.timer.armed = false
	}
	if ev.recheck {
		s.proof.armed = false
	}
	if ev.due {
		s.overdue(now)
	}
	if l.ctx.Err() != nil {
		full = true
		s.shed()
	}
	from := fresh // what is matched, and the first that may have its outcome
	if s.proof.look() {
		from, full = 0, true
	}
	for {
		if g := l.i.o.Wanted.Generation(); g != s.generation {
			from, full, s.generation = 0, true, g
		}
		s.match(from)
		s.forward(ev.notices)
		ev.notices = nil
		if full {
			from = 0
		}
		if s.finish(from, now) {
			break
		}
		// The index moved while outcomes were given: what is left is matched again.
		from = 0
	}
	if ev.due || full && s.heldLast > 0 {
		s.countHeld(now)
	}
	s.flushes.flush()
	if s.delivered {
		s.delivered = false
		l.i.o.Live.Flush()
	}
	w := s.nextWork()
	s.timer.arm(s, from, now)
	s.proof.recheck(l)
	return w
}
