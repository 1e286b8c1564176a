package cluster

import (
	"container/heap"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"maestrohub.io/uns/broker/state"
)

// world runs whole clusters of cores in simulated time, over a members' bucket
// that lies as JetStream does: writes of unknown outcome that land up to 14 s later,
// watches that lag, go blind, or start again with records missing, and processes that
// are paused between any two steps or killed with their writes still under way.
type world struct {
	t        *testing.T
	seed     uint64
	r        *rand.Rand
	timing   Timing
	now      time.Time
	queue    events
	order    int
	revision uint64
	records  map[string]stored
	nodes    []*node
	bugs     bugs
	trace    []string
	failed   bool
	twins    bool                      // two processes share an id on purpose
	gone     map[Incarnation]time.Time // when judged
	wrote    map[Incarnation]time.Time // when a write of it last landed
}

// bugs are safeguards taken out, to show that the checks here need them.
type bugs struct {
	judgeByTime  bool // judge by the timer, without the proof by order
	judgeByPut   bool // and by an unconditional write
	landedRevive bool // a late landing revives a lease
	fenceLate    bool // the lease counts from when the answer came
}

type stored struct {
	value    []byte
	revision uint64
	at       time.Time
}

// node is a replica id and the process that has it now.
type node struct {
	w       *world
	name    string
	core    *core
	process int
	dead    bool
	paused  time.Time // until
	held    []func()  // what waits for the pause or the blindness to end
	blind   time.Time // its watch gives nothing until
	relist  bool      // and then begins anew
	hungAt  time.Time // its state connection receives nothing since; zero: it does
	ready   time.Time // deliveries are in order
	slow    func() time.Duration
	back    time.Duration // held longer by whoever brings answers
	cut     time.Time     // what it sends is lost until
	served  map[ID]*Deadline
}

type timed struct {
	at    time.Time
	order int
	do    func()
}
type events []timed

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at.Before(e[j].at) || e[i].at.Equal(e[j].at) && e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(timed)) }
func (e *events) Pop() any {
	old := *e
	x := old[len(old)-1]
	*e = old[:len(old)-1]
	return x
}

func newWorld(t *testing.T, seed uint64, replicas int) *world {
	w := &world{t: t, seed: seed, r: rand.New(rand.NewPCG(seed, 7)), timing: ten(), now: epoch, records: map[string]stored{},
		gone: map[Incarnation]time.Time{}, wrote: map[Incarnation]time.Time{}}
	for i := range replicas {
		n := &node{w: w, name: fmt.Sprintf("uns-%d", i)}
		n.slow = func() time.Duration { return time.Duration(w.r.IntN(20)) * time.Millisecond }
		w.nodes = append(w.nodes, n)
		n.start()
	}
	return w
}

func (w *world) after(d time.Duration, do func()) {
	w.order++
	heap.Push(&w.queue, timed{w.now.Add(d), w.order, do})
}

func (w *world) run(until time.Time) {
	for len(w.queue) > 0 && !w.queue[0].at.After(until) && !w.failed {
		e := heap.Pop(&w.queue).(timed)
		w.now = e.at
		e.do()
	}
	w.now = until
}

func (w *world) say(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("%8.3f  ", w.now.Sub(epoch).Seconds())+fmt.Sprintf(format, args...))
}

func (w *world) fail(format string, args ...any) {
	if !w.failed {
		w.failed = true
		w.say("FAILED: "+format, args...)
	}
}

func (n *node) start() {
	n.process++
	n.core = newCore(n.name, "", n.w.timing, n.w.now)
	n.dead, n.held, n.paused, n.blind, n.hungAt, n.ready = false, nil, time.Time{}, time.Time{}, time.Time{}, n.w.now
	n.cut = time.Time{}
	n.served = map[ID]*Deadline{}
	n.list(false)
	n.tick(n.process)
}

// alive runs do in the process, once it is not paused; not at all if it was killed.
func (n *node) alive(process int, do func()) {
	if n.dead || n.process != process || n.w.failed {
		return
	}
	if n.w.now.Before(n.paused) {
		n.held = append(n.held, do)
		if len(n.held) == 1 {
			n.w.after(n.paused.Sub(n.w.now), func() { n.resume(process) })
		}
		return
	}
	do()
}

func (n *node) resume(process int) {
	if n.process != process {
		return
	}
	held := n.held
	n.held = nil
	for _, do := range held {
		n.alive(process, do)
	}
}

func (n *node) tick(process int) {
	n.alive(process, func() {
		var silent time.Duration
		if !n.hungAt.IsZero() {
			silent = n.w.now.Sub(n.hungAt)
		}
		n.carryOut(n.core.tick(silent, n.w.now))
		if n.w.bugs.judgeByTime && n.core.deadline.MayDecide(n.w.now) {
			for _, l := range n.core.view.lives {
				if i := l.entry.Incarnation; i.Replica != n.name && l.entry.Phase < Stopped && n.w.now.Sub(l.seen) >= n.w.timing.Proof() {
					n.carryOut([]effect{{id: n.core.id, judge: &i}})
				}
			}
		}
		n.w.after(n.w.timing.TTL/100, func() { n.tick(process) })
	})
}

// list gives the node's watch every record there is, then Ready; lie leaves some out.
func (n *node) list(lie bool) {
	n.core.lost()
	for _, key := range slices.Sorted(maps.Keys(n.w.records)) {
		r := n.w.records[key]
		if n.w.now.Sub(r.at) < n.w.timing.TTL && !(lie && n.w.r.IntN(2) == 0) {
			e, _ := DecodeEntry(r.value)
			n.carryOut(n.core.saw(key, e, r.revision, false, n.w.now))
		}
	}
	n.carryOut(n.core.ready(n.w.now))
}

// land makes a write at the bucket and gives it to the watches.
func (w *world) land(key string, value []byte, conditional bool, expected uint64) (uint64, error) {
	r, there := w.records[key]
	there = there && w.now.Sub(r.at) < w.timing.TTL
	var current uint64
	if there {
		current = r.revision
	}
	if conditional && current != expected {
		return 0, state.ErrConflict
	}
	w.revision++
	w.records[key] = stored{value, w.revision, w.now}
	e, _ := DecodeEntry(value)
	if e.Phase == Gone {
		w.say("gone(%v) landed", e.Incarnation)
		if _, again := w.gone[e.Incarnation]; !again {
			w.gone[e.Incarnation] = w.now
		}
		w.checkOver(e.Incarnation, "was judged gone")
	} else {
		w.wrote[e.Incarnation] = w.now
	}
	for _, n := range w.nodes {
		n.deliver(key, e, w.revision)
	}
	return w.revision, nil
}

func (n *node) deliver(key string, e Entry, revision uint64) {
	process := n.process
	at := n.w.now.Add(n.slow())
	if at.Before(n.blind) {
		if n.relist {
			return // the watch lost it; what begins anew brings it
		}
		at = n.blind
	}
	if at.Before(n.ready) {
		at = n.ready
	}
	n.ready = at
	n.w.after(at.Sub(n.w.now), func() {
		n.alive(process, func() { n.carryOut(n.core.saw(key, e, revision, false, n.w.now)) })
	})
}

// write is a request on its way: it lands after a while, or never, and the answer
// comes back in time or the outcome is unknown.
func (n *node) write(key string, value []byte, conditional bool, expected uint64, done func(uint64, error)) {
	process, out := n.process, n.slow()
	if n.w.r.IntN(50) == 0 {
		out += time.Duration(n.w.r.Int64N(int64(14 * time.Second)))
	}
	sent, answered, cut := n.w.now, false, n.w.now.Before(n.cut)
	answer := func(revision uint64, err error) {
		n.alive(process, func() {
			if !answered {
				answered = true
				done(revision, err)
			}
		})
	}
	n.w.after(out, func() {
		if cut {
			return
		}
		revision, err := n.w.land(key, value, conditional, expected)
		back := n.slow() + n.back
		if n.w.r.IntN(40) == 0 || n.w.now.Add(back).Sub(sent) > n.w.timing.WriteBound() {
			return
		}
		n.w.after(back, func() { answer(revision, err) })
	})
	n.w.after(n.w.timing.WriteBound(), func() { answer(0, state.ErrUnknown) })
}

func (n *node) carryOut(effects []effect) {
	w := n.w
	for _, e := range effects {
		switch {
		case e.beat != nil:
			n.write(n.name, e.beat.value, false, 0, func(_ uint64, err error) {
				sent := e.beat.sent
				if w.bugs.fenceLate {
					sent = w.now
				}
				if d := n.served[e.id.ID]; w.bugs.landedRevive && d != nil && n.core.stage == lapsed && err == nil && w.now.Sub(sent) < w.timing.Fence() {
					n.revive(sent)
					return
				}
				n.carryOut(n.core.beatDone(e.id, sent, err == nil, w.now))
			})
		case e.claim != nil:
			n.write(n.name, e.claim.value, true, e.claim.revision, func(revision uint64, err error) {
				n.carryOut(n.core.claimDone(e.id, revision, err, w.now))
			})
		case e.readOwn:
			r, there := w.records[n.name]
			there = there && w.now.Sub(r.at) < w.timing.TTL
			var entry Entry
			if there {
				entry, _ = DecodeEntry(r.value)
			}
			w.after(n.slow(), func() {
				n.alive(n.process, func() { n.carryOut(n.core.ownRead(e.id, entry, r.revision, there, w.now)) })
			})
		case e.judge != nil:
			if !n.core.deadline.MayDecide(w.now) {
				w.fail("%s judges without a current lease", n.name)
			}
			w.say("%s judges %v", n.name, *e.judge)
			value := Entry{Incarnation: *e.judge, Phase: Gone, Oldest: 1, Newest: 1}.Encode(1)
			n.write(e.judge.Replica, value, !w.bugs.judgeByPut, 0, func(_ uint64, err error) {
				n.carryOut(n.core.judgeDone(e.id, *e.judge, err == nil, w.now))
			})
		case e.join:
			w.after(n.slow(), func() {
				process := n.process
				n.alive(process, func() { n.carryOut(n.core.joinDone(e.id, 1, false, nil, w.now)) })
			})
		case e.event != nil:
			n.event(*e.event)
		}
	}
}

// revive is the bug of a landing that brings a fenced incarnation back.
func (n *node) revive(sent time.Time) {
	c := n.core
	c.stage, c.lease.held, c.lease.over = serving, sent, false
	c.deadline = newDeadline(c.id, c.base)
	c.deadline.extend(c.lease.fenceAt(), c.lease.decideAt())
	n.served[c.id.ID] = c.deadline
	n.w.say("%s lives again", n.name)
	n.w.checkEnded(c.id)
}

// checkEnded fails if anybody already takes an incarnation that serves for ended.
func (w *world) checkEnded(i Incarnation) {
	for _, n := range w.nodes {
		if how := n.core.view.ended[i].how; how != Held && n.name != i.Replica {
			w.fail("%v serves and has %v at %s", i, how, n.name)
		}
	}
}

func (n *node) event(e Event) {
	switch e.Kind {
	case NowServing:
		n.w.say("%s serves as %v", n.name, e.Deadline.Incarnation())
		n.served[e.Deadline.Incarnation().ID] = e.Deadline
		if _, judged := n.w.gone[e.Deadline.Incarnation()]; judged {
			n.w.fail("%v serves after it was judged gone", e.Deadline.Incarnation())
		}
		n.w.checkEnded(e.Deadline.Incarnation())
	case NowFenced:
		n.w.say("%s fenced: %v", n.name, e.Cause)
		if d := n.served[e.Entry.Incarnation.ID]; d.MayAct(n.w.now) {
			n.w.fail("%s may act after its fence", n.name)
		}
	case NotServing:
		n.w.say("%s does not serve: %v", n.name, e.Cause)
	case MemberEnded:
		n.w.say("%s: %v ended: %v", n.name, e.Entry.Incarnation, e.How)
		// One that is stopping says so while it still settles; of two processes
		// under one id both hold a lease for a moment.
		if e.How != EndedStopped && !n.w.twins {
			n.w.checkOver(e.Entry.Incarnation, "counts as "+e.How.String()+" at "+n.name)
		}
	}
}

// checkOver fails if the incarnation still serves.
func (w *world) checkOver(i Incarnation, what string) {
	for _, n := range w.nodes {
		if d := n.served[i.ID]; n.name == i.Replica && !n.dead && d.MayAct(w.now) {
			w.fail("%v %s while it serves", i, what)
		}
	}
}

// report fails the test with the history of a run.
func (w *world) report() {
	w.t.Helper()
	if w.failed {
		w.t.Fatalf("seed %d:\n%s", w.seed, strings.Join(w.trace, "\n"))
	}
}

// serving is how many nodes serve.
func (w *world) serving() (n int) {
	for _, node := range w.nodes {
		if !node.dead && node.core.stage == serving && node.core.deadline.MayAct(w.now) {
			n++
		}
	}
	return n
}

// fault does one thing to one node, and undoes it later.
func (w *world) fault() {
	n := w.nodes[w.r.IntN(len(w.nodes))]
	long := time.Duration(w.r.Int64N(int64(40 * time.Second)))
	if w.r.IntN(3) == 0 {
		long /= 10
	}
	process := n.process
	switch w.r.IntN(10) {
	case 0:
		w.say("pause %s for %v", n.name, long)
		if until := w.now.Add(long); until.After(n.paused) && len(n.held) == 0 {
			n.paused = until
		}
	case 1:
		w.say("kill %s for %v", n.name, long)
		n.dead = true
		w.after(long, func() {
			if n.dead && n.process == process {
				w.say("start %s", n.name)
				n.start()
			}
		})
	case 2, 3, 4:
		// A hung server says nothing at all; an isolated one goes on talking.
		hung, relist, lie := w.r.IntN(2) == 0, w.r.IntN(2) == 0, w.r.IntN(2) == 0
		if w.now.Before(n.blind) {
			return
		}
		w.say("blind %s for %v (hung %v, begins anew %v, lies %v)", n.name, long, hung, relist, lie)
		n.blind, n.relist = w.now.Add(long), relist
		if hung {
			n.hungAt = w.now
		}
		w.after(long, func() {
			n.alive(process, func() {
				n.hungAt = time.Time{}
				if relist {
					n.list(lie)
				}
			})
		})
	case 5, 6:
		w.say("cut what %s sends for %v", n.name, long)
		n.cut = w.now.Add(long)
	case 7:
		n.back = time.Duration(w.r.Int64N(int64(10 * time.Second)))
		w.say("answers to %s held %v for %v", n.name, n.back, long)
		w.after(long, func() { n.back = 0 })
	default:
		d := time.Duration(w.r.Int64N(int64(9 * time.Second)))
		w.say("slow %s by %v for %v", n.name, d, long)
		fast := func() time.Duration { return time.Duration(w.r.IntN(20)) * time.Millisecond }
		n.slow = func() time.Duration { return d + fast() }
		w.after(long, func() { n.slow = fast })
	}
}
