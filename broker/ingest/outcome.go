package ingest

import "time"

// finish gives the outcomes that can be given, to the entries from an index on,
// and drops from pending what has nothing left to wait for. It returns false if
// the index moved, so that what is left has to be matched again.
func (s *step4) finish(from int, now time.Duration) (done bool) {
	if from == 0 {
		clear(s.held)
		s.proof.unsure = false
	}
	done = true
	kept := from
	stored := 0
	for _, e := range s.pending[from:] {
		if !e.out {
			switch {
			case !e.decided(), len(s.held) > 0 && s.held[e.done] > 0:
				// Whatever else it waits for, its time runs while nothing is certain.
				e.unsure = s.proof.unsure && e.refusal == 0 && e.qos > 0 && e.log == unneeded
				s.hold(e)
			case e.refusal == 0 && e.qos > 0 && e.log == unneeded && !s.unwanted(e, &done):
				s.hold(e)
			default:
				if e.refusal == 0 && !s.lane.mayAct() {
					s.shed()
				}
				s.outcome(e, now)
				if e.refusal == 0 {
					stored++
				}
			}
		}
		if e.out && !e.open() && (e.alive || e.refusal != 0) {
			s.left++
			s.sides[e.side]++
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
	return e.refusal != 0 || e.qos == 0 || e.alive && !e.open() && e.arrival.here()
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
	switch {
	case e.refusal != 0:
		o.Kept = e.kept
		l.reportEntry(e)
	case e.clear:
		o.Cleared = true
	}
	if e.refusal == 0 && s.audience != nil && e.log == unneeded {
		o.NoSubscribers = !s.audience.Audience(e.v)
	}
	e.out, e.unsure = true, false
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
