package ingest

import "time"

// accept puts an entry in the lane, or says why not.
func (l *lane) accept(e *entry, wait time.Duration) Outcome {
	e.admitted = l.i.now()
	l.mu.Lock()
	if !l.fits(e.size) {
		if o := l.waitForRoom(e, wait); o.Refusal != 0 {
			return o
		}
	}
	start, o := l.push(e)
	l.mu.Unlock()
	if start {
		go l.store(nil)
	}
	return o
}

// acceptAll accepts several entries under one lock. The outcomes are nil if all
// were accepted.
func (l *lane) acceptAll(run []*entry, wait time.Duration) []Outcome {
	now := l.i.now()
	var outcomes []Outcome
	var start bool
	var o Outcome
	l.mu.Lock()
	for n, e := range run {
		e.admitted = now
		if o.Refusal == 0 && !l.fits(e.size) {
			if start {
				start = false
				go l.store(nil)
			}
			if o = l.waitForRoom(e, wait-(l.i.now()-now)); o.Refusal != 0 {
				l.mu.Lock()
			}
		}
		if o.Refusal == 0 { // else nothing behind it may overtake it
			var first bool
			first, o = l.push(e)
			start = start || first
		}
		if o.Refusal != 0 {
			if outcomes == nil {
				outcomes = make([]Outcome, len(run))
			}
			outcomes[n] = o
		}
	}
	l.mu.Unlock()
	if start {
		go l.store(nil)
	}
	return outcomes
}

// push gathers an entry that has its room; start tells the caller to start
// storing. l.mu is held.
func (l *lane) push(e *entry) (start bool, _ Outcome) {
	if l.closed {
		l.release(e.size)
		return false, l.shut()
	}
	if len(l.ended) > 0 {
		if ended, ok := l.ended[e.done]; ok {
			l.release(e.size)
			return false, Outcome{Refusal: ended.by, Detail: "an earlier publish of this connection was refused, which ends the connection"}
		}
	}
	e.seq = l.seq
	l.seq++
	l.count++
	e.side = l.barrier.enter()
	l.gather.push(e)
	start = !l.storing
	l.storing = true
	return start, Outcome{}
}

// ended is when and why an Ordered connection was ended.
type ended struct {
	at time.Duration
	by Refusal
}

// endConnection refuses whatever an Ordered connection still publishes. l.mu is held.
func (l *lane) endConnection(c Completion, by Refusal) {
	l.forgetEnded()
	if l.ended == nil {
		l.ended = make(map[Completion]ended)
	}
	l.ended[c] = ended{l.i.now(), by}
}

// forgetEnded forgets connections that have had time to close. l.mu is held.
func (l *lane) forgetEnded() {
	for c, e := range l.ended {
		if l.i.now()-e.at > time.Minute {
			delete(l.ended, c)
		}
	}
}
