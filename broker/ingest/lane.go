package ingest

import (
	"context"
	"sync"
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
	rejects   rejects
	errors    limiter

	mu      sync.Mutex // guards what follows up to step4
	seq     uint64
	gather  queue
	used    int // bytes of room taken
	count   int // entries between accept and leaving step 4
	waiters []*waiter
	// ended holds the Ordered connections that a refusal is ending.
	ended   map[Completion]ended
	closed  bool
	drained chan struct{} // closed once closed and nothing is left

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
	due      bool           // the timer of AppendWait fired
	abandon  bool           // Stop waits no longer
}

func (ev *events) any() bool {
	return len(ev.stored) > 0 || len(ev.notices) > 0 || ev.appended != nil || ev.put || ev.due || ev.abandon
}

func newLane(i *Ingest, workspace string) *lane {
	l := &lane{i: i, workspace: workspace, drained: make(chan struct{}), returned: make(chan struct{}, 1)}
	l.rejects.keep = i.o.RejectsKept
	l.writeCtx, l.writeCancel = context.WithCancel(i.ctx)
	l.step4.lane = l
	l.step4.audience, _ = i.o.Live.(Audience)
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
	if l.closed && l.count == 0 && !l.storing && !l.settling {
		select {
		case <-l.drained:
		default:
			close(l.drained)
		}
	}
}

// close ends the intake.
func (l *lane) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, w := range l.waiters {
		w.ready <- Outcome{Refusal: Shed, Detail: "this replica is stopping"}
	}
	l.waiters = nil
	l.rest()
}

// abandon gives every value left its outcome now. The ingest's context has ended.
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
		l.store(j)
	}
	return left
}
