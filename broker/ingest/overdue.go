package ingest

import (
	"fmt"
	"time"
)

// heldAfter is how long a value waits for its session log before it counts as
// held in the metrics.
const heldAfter = time.Second

// dueTimer wakes step 4 while values wait in it. It is armed when something
// waits and never moved, so that a busy lane pays for it once in a while only.
type dueTimer struct {
	timer *time.Timer
	armed bool
}

// arm sees to it that overdue is called in time for what waits. Nothing waits in
// pending before from if the timer is not armed.
func (t *dueTimer) arm(s *step4, from int, now time.Duration) {
	if t.armed || len(s.pending) <= from {
		return
	}
	l := s.lane
	after := time.Duration(-1)
	for _, e := range s.pending[from:] {
		if e.waits() && !e.overdue {
			after = max(0, e.stored+l.i.o.AppendWait-now)
			break
		}
	}
	if after < 0 {
		return
	}
	t.armed = true
	after = min(after, heldAfter)
	if t.timer == nil {
		t.timer = time.AfterFunc(after, func() { l.post(func(ev *events) { ev.due = true }) })
		return
	}
	t.timer.Reset(after)
}

// waits reports whether step 4 still owes an accepted entry something.
func (e *entry) waits() bool { return e.refusal == 0 && (e.open() || !e.alive || e.unsure) }

// overdue decides what AppendWait has passed over: refused, with those behind it,
// unless a QoS 2 value can no longer be refused without being forwarded twice.
func (s *step4) overdue(now time.Duration) {
	l := s.lane
	refused := false
	for _, e := range s.pending {
		age := now - e.stored
		if age < l.i.o.AppendWait {
			break // pending is in the order of stored
		}
		if !e.waits() || e.overdue {
			continue
		}
		e.overdue = true
		inFlight := e.log == flying || e.retained == flying
		switch {
		case e.out && inFlight, e.out && !e.alive:
			// QoS 0: nothing is owed to its device, and it may yet get there.
		case e.qos == 2 && (e.log == flying || e.log == landed || e.alive):
			if u, ok := e.done.(Unresolved); ok {
				u.Unresolved(e.slot)
			}
		default:
			s.refuseLate(e)
			refused = true
		}
	}
	if !refused {
		return
	}
	for _, e := range s.pending {
		if e.refusal == 0 && !e.out && (e.log == waiting || e.log == unneeded) && !(e.qos == 2 && e.alive) {
			s.cuts.apply(e)
		}
	}
	s.logNext = dropRefused(s.logNext)
	s.retNext = dropRefused(s.retNext)
}

// countHeld says how many values have waited for their session log for a while.
func (s *step4) countHeld(now time.Duration) {
	held := 0
	for _, e := range s.pending {
		if now-e.stored < heldAfter {
			break // pending is in the order of stored
		}
		if e.refusal == 0 && (e.log == waiting || e.log == flying || e.unsure) {
			held++
		}
	}
	s.lane.i.metrics.SessionLogAppendsHeld.Add(float64(held - s.heldLast))
	s.heldLast = held
}

// refuseLate refuses an entry because its time is up.
func (s *step4) refuseLate(e *entry) {
	wait := s.lane.i.o.AppendWait
	if e.unsure {
		e.refuse(LogTimeout, fmt.Sprintf("which subscriptions want the value was not certain within %s", wait))
	} else if (e.retained == waiting || e.retained == flying) && e.log != waiting && e.log != flying {
		e.refuse(RetainedTimeout, fmt.Sprintf("the retained store did not take the value within %s", wait))
	} else {
		e.refuse(LogTimeout, fmt.Sprintf("the session log did not take the value, or one before it, within %s", wait))
	}
	if e.out {
		s.lane.reportEntry(e)
		return
	}
	s.cut(e)
}

// cutKey names what falls with a refusal: a connection's publishes on one topic,
// or all of them (topic "").
type cutKey struct {
	done  Completion
	topic string
}

// cut is a range of places in the lane, from included, that a refusal takes along.
type cut struct {
	from, to uint64
	refusal  Refusal
}

// cuts remembers refusals for time's sake until everything has arrived that was
// in the lane at that moment. Without it a later value could be stored and
// acknowledged before the refused one comes again, and overtake it.
type cuts struct {
	of map[cutKey]cut
	to uint64 // the greatest
}

// cut refuses with e what came behind it from its connection on its topic, or,
// if a refusal ends the connection, everything.
func (s *step4) cut(e *entry) {
	if e.qos == 0 {
		return // never sent again
	}
	l := s.lane
	key := cutKey{e.done, e.v.Topic}
	l.mu.Lock()
	to := l.seq
	if e.ordered {
		key.topic = ""
		l.endConnection(e.done, e.refusal)
	}
	l.mu.Unlock()
	c, known := s.cuts.of[key]
	if !known {
		c = cut{from: e.seq, refusal: e.refusal}
	}
	c.from, c.to = min(c.from, e.seq), to
	if s.cuts.of == nil {
		s.cuts.of = make(map[cutKey]cut)
	}
	s.cuts.of[key] = c
	s.cuts.to = max(s.cuts.to, to)
}

// arrive refuses an entry that comes to step 4 behind a refused one.
func (c *cuts) arrive(e *entry) {
	if len(c.of) == 0 {
		return
	}
	if e.seq >= c.to {
		clear(c.of)
		return
	}
	if e.refusal == 0 {
		c.apply(e)
	}
}

// apply refuses an entry if a refused one takes it along.
func (c *cuts) apply(e *entry) {
	for _, key := range [...]cutKey{{e.done, e.v.Topic}, {e.done, ""}} {
		if cut, ok := c.of[key]; ok && e.seq >= cut.from && e.seq < cut.to {
			e.refuse(cut.refusal, "an earlier publish of this connection was refused, and this one must not overtake it")
			e.follows = true
			return
		}
	}
}
