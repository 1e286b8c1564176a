package ingest

import "maestrohub.io/uns/broker/value"

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
		if s.wants(e) {
			e.log, e.unsure = waiting, false
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
	if s.lane.over.Load() {
		s.unsent = reuse(s.unsent)
		return
	}
	n, copies, dropped, once := 0, 0, 0, 0
	var a *arrival
	for ; n < len(s.unsent); n++ {
		e := s.unsent[n]
		if e.refusal != 0 && !e.forwardedRefused() {
			if e.refusal != Shed { // which shed has counted
				dropped++ // its device is told that it was not taken
			}
			continue
		}
		if e.v.QoS == 2 && (e.log == waiting || e.log == flying) || e.clear && e.retained != landed {
			break
		}
		e.alive = true
		copies++
		if e.qos == 0 {
			once++
		}
		s.batch = append(s.batch, e.v)
		if s.linked != nil && e.qos > 0 && e.refusal == 0 && !e.out {
			if a == nil {
				a = &arrival{lane: s.lane}
			}
			e.arrival = a
		}
		if !e.watched {
			continue
		}
		switch alert := s.alert(e); {
		case alert == nil:
		case s.linked != nil:
			notices = append(notices, alert) // in a batch of their own, no outcome waits for them
		default:
			s.batch = append(s.batch, alert)
		}
	}
	s.unsent = dropFront(s.unsent, n)
	if s.linked == nil {
		s.batch, notices = append(s.batch, notices...), nil
	}
	if len(s.batch) > 0 {
		if !s.lane.mayAct() {
			s.shed()
			copies, dropped = 0, dropped+once
		} else {
			s.deliver(s.batch, a)
		}
	}
	s.lane.i.metrics.LiveMirrorDropped.Add(float64(dropped))
	if len(notices) > 0 && s.lane.mayAct() {
		s.deliver(notices, nil)
	}
	if len(s.batch) == 0 {
		return
	}
	s.lane.i.metrics.LiveMirrored.Add(float64(copies))
	clear(s.batch)
	s.batch = s.batch[:0]
	if cap(s.batch) > keptCapacity {
		s.batch = nil
	}
}

// forwardedRefused reports whether the live copy of a refused entry leaves all the
// same: the log has the value or is about to, and perhaps one behind it that was not
// refused. Without its live copy, that one would overtake it when it comes again.
func (e *entry) forwardedRefused() bool {
	late := e.refusal == LogTimeout || e.refusal == RetainedTimeout
	return late && !e.clear && (e.log == flying || e.log == landed)
}
