package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"maestrohub.io/uns/broker/cluster"
	"maestrohub.io/uns/tests/simulation/store"
)

// fault is one thing that is done to the cluster, and undone after a while.
type fault struct {
	at   time.Duration
	kind string
	a, b int // replicas
	long time.Duration
	by   time.Duration
}

func (f fault) String() string {
	s := fmt.Sprintf("%s %d", f.kind, f.a)
	if strings.Contains(f.kind, "mesh") {
		s += fmt.Sprintf("-%d", f.b)
	}
	if f.by > 0 {
		s += fmt.Sprintf(" by %v", f.by.Round(time.Millisecond))
	}
	return fmt.Sprintf("%v: %s for %v", f.at.Round(time.Millisecond), s, f.long.Round(time.Millisecond))
}

// kinds are the faults there are and how often each is drawn.
var kinds = []struct {
	name string
	of   int
	most time.Duration
}{
	{"kill", 5, 20 * time.Second},
	{"lose machine", 2, 25 * time.Second},
	{"stop", 2, 10 * time.Second},
	{"freeze", 3, 25 * time.Second},
	{"cut store", 2, 25 * time.Second},
	{"cut lease", 1, 25 * time.Second},
	{"cut shared", 1, 25 * time.Second},
	{"hang store", 2, 16 * time.Second},
	{"hang shared", 2, 16 * time.Second},
	{"hang lease", 1, 16 * time.Second},
	{"isolate shared", 3, 35 * time.Second},
	{"hold replies", 3, 20 * time.Second},
	{"slow store", 3, 20 * time.Second},
	{"cut mesh", 3, 20 * time.Second},
	{"stall mesh", 3, 20 * time.Second},
	{"slow mesh", 2, 20 * time.Second},
	{"hang historian", 2, 15 * time.Second},
	{"stop historian", 1, 15 * time.Second},
	{"reset devices", 3, 0},
	{"move devices", 3, 0},
	{"stall devices", 2, 20 * time.Second},
	{"storm", 1, 0},
	{"disable guest", 1, 150 * time.Second},
	{"narrow guest", 2, 150 * time.Second},
}

// schedule draws the faults of a seed, over a length of time.
func schedule(seed uint64, replicas int, long, every time.Duration) []fault {
	r := rand.New(rand.NewPCG(seed, 11))
	sum := 0
	for _, k := range kinds {
		sum += k.of
	}
	var all []fault
	// The first come when the cluster stands.
	for at := 15 * time.Second; at < long; at += every/4 + time.Duration(r.Int64N(int64(every*3/2))) {
		n := r.IntN(sum)
		for _, k := range kinds {
			if n -= k.of; n >= 0 {
				continue
			}
			f := fault{at: at, kind: k.name, a: r.IntN(replicas), b: r.IntN(replicas - 1)}
			if f.b >= f.a {
				f.b++
			}
			if k.most > 0 {
				f.long = 200*time.Millisecond + time.Duration(r.Int64N(int64(k.most)))
				if r.IntN(3) == 0 {
					f.long /= 8
				}
			}
			if k.name == "hold replies" || k.name == "slow store" {
				f.by = time.Duration(r.Int64N(int64(12 * time.Second)))
				if r.IntN(2) == 0 {
					f.by /= 8
				}
			}
			if k.name == "slow mesh" {
				f.by = time.Duration(r.Int64N(int64(4 * time.Second)))
			}
			all = append(all, f)
			break
		}
		if r.IntN(5) == 0 {
			at -= every / 4 // and another one at about the same time
		}
	}
	slices.SortStableFunc(all, func(a, b fault) int { return int(a.at - b.at) })
	return all
}

// do does a fault, and undoes it when its time is over.
func (w *world) do(f fault) {
	n := w.nodes[f.a]
	w.trace.say("! %s", f)
	undo := func(do func()) {
		w.later(f.long, func() {
			w.trace.say("! over: %s", f)
			do()
		})
	}
	link := func(kind string) (a, b string) { return n.name, w.nodes[f.b].name }
	toStore := func(which store.Which, do func(c *store.Client, which store.Which)) {
		n.with(func(p *process) {
			do(p.store, which)
			undo(func() { p.store.Heal(which) })
		})
	}
	switch f.kind {
	case "kill", "lose machine":
		n.kill(f.kind != "kill")
		undo(n.start)
	case "stop":
		n.stop()
	case "freeze":
		n.with(func(p *process) {
			freeze := func(frozen bool) {
				w.network.freeze(n.name, frozen)
				p.store.Freeze(frozen)
				p.history.Freeze(frozen)
			}
			freeze(true)
			undo(func() { freeze(false) })
		})
	case "cut store":
		toStore(store.Both, (*store.Client).Cut)
	case "cut lease":
		toStore(store.Lease, (*store.Client).Cut)
	case "cut shared":
		toStore(store.Shared, (*store.Client).Cut)
	case "hang store":
		toStore(store.Both, (*store.Client).Hang)
	case "hang shared":
		toStore(store.Shared, (*store.Client).Hang)
	case "hang lease":
		toStore(store.Lease, (*store.Client).Hang)
	case "isolate shared":
		toStore(store.Shared, (*store.Client).Isolate)
	case "hold replies":
		n.with(func(p *process) {
			p.store.Hold(f.by)
			undo(func() { p.store.Hold(0) })
		})
	case "slow store":
		n.with(func(p *process) {
			slow := w.lies
			slow.Request = store.Span{Min: f.by / 2, Max: f.by}
			slow.Lag = store.Span{Max: f.by}
			p.store.Lie(slow)
			undo(func() { p.store.Lie(w.lies) })
		})
	case "cut mesh":
		a, b := link(f.kind)
		w.network.refuse(a, b, true)
		undo(func() { w.network.refuse(a, b, false) })
	case "stall mesh":
		a, b := link(f.kind)
		w.network.stall(a, b, true)
		undo(func() { w.network.stall(a, b, false) })
	case "slow mesh":
		a, b := link(f.kind)
		set := func(d store.Span) { w.network.change(func() { w.network.between(a, b).delay = d }) }
		set(store.Span{Min: f.by / 2, Max: f.by})
		undo(func() { set(usualDelay) })
	case "hang historian":
		n.with(func(p *process) {
			p.history.Hang(true)
			undo(func() { p.history.Hang(false) })
		})
	case "stop historian":
		for _, n := range w.nodes {
			n.with(func(p *process) {
				p.history.Refuse(true)
				w.later(f.long, func() { p.history.Refuse(false) })
			})
		}
		undo(func() {})
	case "reset devices":
		w.network.reset(func(s *socket) bool { return s.a.name != n.name && s.b.name == n.name && isDevice(s.a.name) })
	case "storm": // every device connects at once
		w.network.reset(func(s *socket) bool { return isDevice(s.a.name) })
	case "move devices":
		w.network.move(n.name)
	case "upgrade", "roll back":
		n.mu.Lock()
		n.reads = 0
		if f.kind != "upgrade" {
			n.reads = cluster.Oldest
		}
		n.mu.Unlock()
		n.stop()
	case "disable guest", "narrow guest":
		if restore := w.revoke(f.kind); restore != nil {
			undo(restore)
		}
	case "stall devices":
		w.network.stallDevices(n.name, true)
		undo(func() { w.network.stallDevices(n.name, false) })
	default:
		panic("no such fault: " + f.kind)
	}
}
