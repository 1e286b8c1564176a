package ingest

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/value"
)

// lane keeps the order of one workspace's values from Publish to outcome.
//
// Nobody waits in it for work: whoever brings the first value takes the storing
// role into a new goroutine, whoever brings the first event takes the settling
// role, and each role ends when there is nothing left for it. So an idle lane has
// no goroutine, and a value alone passes through one goroutine without a hand-over.
//
//   - storing: one goroutine carries one batch at a time to the historian
//     (store.go), while the next one gathers.
//   - settling: one goroutine at a time does step 4 and gives outcomes
//     (settle.go). It gives the role up while a log append or a retained put of
//     its own is out, so that live copies do not wait behind a stalled log.
//
// Invariants:
//
//  1. seq grows by one per accepted entry; gather, the storing role and l.events
//     hold entries in that order, so settling sees them in lane order.
//  2. An entry reaches settling only stored, refused, or with nothing to store:
//     no outcome without refusal is given anywhere else.
//  3. Room is taken before an entry is in gather and returned when it leaves
//     step 4, once.
type lane struct {
	i         *Ingest
	workspace string // its slug
	*feed
	// ctx ends when nobody waits for the stores any more: at a fence, or when
	// Stop gives up.
	ctx    context.Context
	cancel context.CancelFunc
	// over: a fence ended the lane. It has no effect any more.
	over atomic.Bool

	mu      sync.Mutex // guards what follows up to step4; taken last: Live, stores and Completions are called without it
	seq     uint64
	gather  queue
	used    int // bytes of room taken
	count   int // entries between accept and leaving step 4
	barrier barrier
	waiters []*waiter
	// ended holds the Ordered connections that a refusal is ending.
	ended   map[Completion]ended
	closed  bool
	out     int           // store calls of step 4 that have not returned
	drained chan struct{} // closed once closed and nothing is left
	gone    chan struct{} // closed once, besides, nothing is out

	storing bool
	writing *job // at the historian now
	writeID uint64
	// hung counts writes given up on that have not returned; each that does sends
	// on returned.
	hung     int
	returned chan struct{}
	// writeCtx is the write's context, replaced when a hung write cancels it.
	writeCtx    context.Context
	writeCancel context.CancelFunc
	writeStart  time.Duration
	watchdog    *time.Timer
	watching    bool // the watchdog is armed

	settling bool
	events   events

	// step4 belongs to the settling role.
	step4 step4
	// settled belongs to the settling role, appendable to the one append in flight.
	// They are the lane before's drained and gone, which step 4 waits for so that
	// neither live copies nor appends of the two mix; nil once they have come.
	settled    <-chan struct{}
	appendable <-chan struct{}
	// log, records and ends belong to the one append in flight.
	log     state.Log
	records []byte
	ends    []int
	// job0 is a finished job for the next batch; failures counts the historian's
	// in a row. Both belong to the storing role.
	job0     *job
	failures int
}

// events is what settling has to look at next.
type events struct {
	stored   []*entry       // in lane order
	notices  []*value.Value // errors to send
	appended *appended      // a log append returned
	put      bool           // a retained put returned
	arrived  bool           // live copies came to other replicas
	recheck  bool           // held values may be certain now
	due      bool           // the timer of AppendWait fired
	abandon  bool           // Stop waits no longer, or a fence came
}

// feed is what a workspace keeps when a fence changes its lane.
type feed struct {
	rejects rejects
	errors  limiter
}

func (ev *events) any() bool {
	return len(ev.stored) > 0 || len(ev.notices) > 0 || ev.full()
}

// full reports whether something came that may concern every entry in step 4.
func (ev *events) full() bool {
	return ev.appended != nil || ev.put || ev.arrived || ev.recheck || ev.due || ev.abandon
}

// newLane makes a workspace's lane, the first one or that which follows another.
func newLane(i *Ingest, workspace string, before *lane) *lane {
	l := &lane{i: i, workspace: workspace, drained: make(chan struct{}), gone: make(chan struct{}), returned: make(chan struct{}, 1)}
	if before != nil {
		l.feed, l.settled, l.appendable = before.feed, before.drained, before.gone
	} else {
		l.feed = &feed{}
		l.rejects.keep = i.o.RejectsKept
	}
	l.ctx, l.cancel = context.WithCancel(i.ctx)
	l.writeCtx, l.writeCancel = context.WithCancel(l.ctx)
	l.step4.lane = l
	l.step4.proof = newProof(l)
	l.step4.audience, _ = i.o.Live.(Audience)
	l.step4.linked, _ = i.o.Live.(Linked)
	return l
}

// post adds to the events and starts settling if nobody does.
func (l *lane) post(add func(*events)) {
	l.mu.Lock()
	add(&l.events)
	start := !l.settling
	l.settling = true
	l.mu.Unlock()
	if start {
		go l.settle()
	}
}

// rest is called by whoever gives a role up, with l.mu held.
func (l *lane) rest() {
	if !l.closed || l.count > 0 || l.storing || l.settling {
		return
	}
	closeOnce(l.drained)
	if l.out == 0 {
		closeOnce(l.gone)
	}
}

func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

// close ends the intake.
func (l *lane) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, w := range l.waiters {
		w.ready <- l.shut()
	}
	l.waiters = nil
	l.rest()
}

// shut is the outcome of what a closed lane is given.
func (l *lane) shut() Outcome {
	if l.over.Load() {
		return Outcome{Refusal: Shed, Detail: fenced}
	}
	return Outcome{Refusal: Shed, Detail: stopping}
}

// abandon gives every value left its outcome now. The lane's context has ended.
func (l *lane) abandon() (left int) {
	l.mu.Lock()
	left = l.count
	j := l.writing
	if j != nil {
		l.giveUpWrite()
	}
	l.mu.Unlock()
	l.post(func(ev *events) { ev.abandon = true })
	if j != nil {
		go l.store(j)
	}
	return left
}
