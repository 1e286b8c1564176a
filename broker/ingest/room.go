package ingest

import (
	"fmt"
	"time"
)

// waiter is a publish that waits for room, first come first served, so that a
// large value is not passed over for ever.
type waiter struct {
	size int
	// ready gets the answer once; the room has been taken if it is no refusal.
	ready chan Outcome
}

// fits takes room if there is some and nobody waits for it. l.mu is held. A value
// larger than all the room takes all of it.
func (l *lane) fits(size int) bool {
	if len(l.waiters) > 0 || l.used > 0 && l.used+size > l.i.o.Room {
		return false
	}
	l.used += size
	return true
}

// waitForRoom waits for room with l.mu released meanwhile; it is held again on
// return unless the outcome is a refusal.
func (l *lane) waitForRoom(e *entry, wait time.Duration) Outcome {
	if l.closed {
		l.mu.Unlock()
		return l.shut()
	}
	w := &waiter{size: e.size, ready: make(chan Outcome, 1)}
	l.waiters = append(l.waiters, w)
	l.mu.Unlock()
	l.i.metrics.SessionLogAppendsHeld.Inc()
	defer l.i.metrics.SessionLogAppendsHeld.Dec()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	var o Outcome
	select {
	case o = <-w.ready:
		l.mu.Lock()
	case <-timer.C:
		l.mu.Lock()
		if !l.forget(w) { // an answer came meanwhile
			o = <-w.ready
			break
		}
		o = Outcome{Refusal: NoRoom, Detail: fmt.Sprintf("the workspace's %d bytes of room for values on their way stayed used up", l.i.o.Room)}
		if e.ordered && e.qos > 0 {
			l.endConnection(e.done, NoRoom)
		}
		l.grant() // those behind may be smaller
	}
	if o.Refusal != 0 {
		l.mu.Unlock()
	} else {
		e.admitted = l.i.now()
	}
	return o
}

func (l *lane) forget(w *waiter) bool {
	for n, have := range l.waiters {
		if have == w {
			l.waiters = append(l.waiters[:n], l.waiters[n+1:]...)
			return true
		}
	}
	return false
}

// release gives room back. l.mu is held.
func (l *lane) release(size int) {
	l.used -= size
	if len(l.waiters) > 0 {
		l.grant()
	}
}

// grant hands free room to those who wait, in order. l.mu is held.
func (l *lane) grant() {
	for len(l.waiters) > 0 {
		w := l.waiters[0]
		if l.used > 0 && l.used+w.size > l.i.o.Room {
			return
		}
		l.used += w.size
		l.waiters = l.waiters[1:]
		w.ready <- Outcome{}
	}
}
