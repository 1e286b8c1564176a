package cluster

import (
	"math"
	"sync/atomic"
	"time"
)

// Deadline is until when one incarnation may act. Everything that leaves a
// replica (socket flush, frame, append, retained put, will, judgment) compares the
// clock with it immediately before, so that a process that was paused between its
// decision and the effect does nothing after its fence.
//
// It belongs to one incarnation and once over stays over: whoever began something
// keeps the Deadline it began under and asks that one, never "the current one", or
// the answer to a write sent before a fence would be acted on after it.
//
// Reading takes no lock. A nil Deadline is over. A suspended virtual machine stops
// the monotonic clock and is out of scope, like clocks that step.
type Deadline struct {
	incarnation Incarnation
	base        time.Time
	fence       atomic.Int64 // ns since base; 0: over
	decide      atomic.Int64
	over        chan struct{}
}

func newDeadline(i Incarnation, base time.Time) *Deadline {
	return &Deadline{incarnation: i, base: base, over: make(chan struct{})}
}

// Alone is the Deadline of a single node, which shares nothing and is never
// fenced.
func Alone(replica string) *Deadline {
	d := newDeadline(Incarnation{Replica: replica, ID: NewID()}, time.Now())
	d.fence.Store(math.MaxInt64)
	d.decide.Store(math.MaxInt64)
	return d
}

// Incarnation is whose Deadline it is.
func (d *Deadline) Incarnation() Incarnation {
	if d == nil {
		return Incarnation{}
	}
	return d.incarnation
}

// MayAct reports whether the incarnation may serve its devices at now.
func (d *Deadline) MayAct(now time.Time) bool {
	return d != nil && int64(now.Sub(d.base)) < d.fence.Load()
}

// MayDecide reports whether it may decide for other replicas at now: judge them
// gone, send their wills, sweep.
func (d *Deadline) MayDecide(now time.Time) bool {
	return d != nil && int64(now.Sub(d.base)) < d.decide.Load()
}

// Over is closed at the fence. It can be closed later than MayAct turns false,
// never earlier.
func (d *Deadline) Over() <-chan struct{} {
	if d == nil {
		return closed
	}
	return d.over
}

var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// extend and end are called by the goroutine that runs the lease alone; nothing
// extends what has ended.
func (d *Deadline) extend(fence, decide time.Time) {
	d.fence.Store(int64(fence.Sub(d.base)))
	d.decide.Store(int64(decide.Sub(d.base)))
}

func (d *Deadline) end() {
	d.decide.Store(0)
	d.fence.Store(0)
	close(d.over)
}
