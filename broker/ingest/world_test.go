package ingest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/value"
)

// world is what there is beside this replica in a history: other replicas that take
// their time, an index that is not always proven fresh, and fences. A nil world has
// none of it. It runs in its history's bubble of testing/synctest.
type world struct {
	h      *history
	others *replicas
	log    *ghosts

	over     atomic.Bool
	overAt   atomic.Int64 // when it became over; 0: it is not
	unsureAt atomic.Int64 // when freshness last changed
	fences   int

	mu    sync.Mutex
	out   map[*value.Value]bool // live copies on their way; guarded by mu
	waits int                   // batches that were waited for; guarded by mu
}

func TestNothingIsAcknowledgedUnkeptWhateverTheOtherReplicasDo(t *testing.T) {
	abandons := 0
	eachSeed(t, func(t *testing.T, seed uint64) {
		w := &world{out: make(map[*value.Value]bool)}
		runHistory(t, seed, w)
		if w.fences < 3 || w.waits < 100 {
			t.Errorf("a run that shows little: %d fences, %d batches waited for", w.fences, w.waits)
		}
		abandons += w.log.abandons
	})
	if os.Getenv("INGEST_SEED") == "" && abandons == 0 {
		t.Error("no append was ever abandoned")
	}
}

// join makes the world part of a history.
func (w *world) join(h *history, o *Options) {
	if w == nil {
		return
	}
	w.h = h
	w.others = &replicas{audience: o.Wanted.(*audience), send: w.send}
	w.log = &ghosts{journal: o.Retained.(*journal), w: w}
	o.Live, o.Wanted, o.Logs, o.Retained = w.others, w.others, w.log, keeper{w}
	o.MayAct = func() bool { return !w.over.Load() }
}

// run is the weather of the world.
func (w *world) run(fair func() bool) {
	h := w.h
	var both sync.WaitGroup
	both.Go(func() { // the index
		for !fair() {
			time.Sleep(time.Duration(h.IntN(30_000)) * time.Millisecond)
			w.unsureAt.Store(time.Now().UnixNano())
			w.others.unsure.Store(h.IntN(2) == 0)
			w.others.hasLog.Store(w.others.hasLog.Load() || h.IntN(8) == 0)
		}
		w.unsureAt.Store(time.Now().UnixNano())
		w.others.unsure.Store(false)
	})
	both.Go(func() { // the fences
		for {
			time.Sleep(time.Duration(h.IntN(90_000)) * time.Millisecond)
			if fair() {
				return
			}
			w.fence()
		}
	})
	both.Wait()
}

// fence is one fence: the time is up, then or a moment later the lanes are told,
// and after a while the next life begins.
func (w *world) fence() {
	h := w.h
	w.fences++
	w.overAt.Store(time.Now().UnixNano())
	w.over.Store(true)
	if h.IntN(2) == 0 {
		time.Sleep(time.Duration(h.IntN(300)) * time.Millisecond)
	}
	h.Fence()
	time.Sleep(time.Duration(1+h.IntN(5000)) * time.Millisecond)
	w.overAt.Store(0)
	w.over.Store(false)
	if h.IntN(2) == 0 {
		time.Sleep(time.Duration(h.IntN(300)) * time.Millisecond) // the next life, its door still closed
	}
	h.Serve()
}

// leaves fails the test if an effect leaves after the fence. At the very instant of
// the fence nobody can say which came first.
func (w *world) leaves(what string) {
	if w == nil {
		return
	}
	if at := w.overAt.Load(); at != 0 && time.Now().UnixNano() > at {
		w.h.t.Errorf("%s %s after the fence", what, time.Duration(time.Now().UnixNano()-at))
	}
}

// check holds an acknowledgment against the other replicas and the index.
func (w *world) check(key string, v *value.Value) {
	if w == nil {
		return
	}
	w.mu.Lock()
	out := w.out[v]
	w.mu.Unlock()
	if out {
		w.h.t.Errorf("%s acknowledged while its live copy is on its way to another replica", key)
	}
	if w.others.unsure.Load() && time.Now().UnixNano() > w.unsureAt.Load() && !w.h.logged(key) {
		w.h.t.Errorf("%s acknowledged, not in the log, and whether it is wanted was not certain", key)
	}
}

// send is the way to the other replicas: they want nothing, have it at once, late,
// or their link is found dead after 3 s.
func (w *world) send(batch []*value.Value, arrived func()) bool {
	w.leaves("live copy")
	kind := w.h.IntN(6)
	if kind == 0 {
		return false
	}
	values := append([]*value.Value(nil), batch...)
	w.mu.Lock()
	for _, v := range values {
		w.out[v] = true
	}
	w.waits++
	w.mu.Unlock()
	come := func() {
		w.mu.Lock()
		for _, v := range values {
			delete(w.out, v)
		}
		w.mu.Unlock()
		arrived()
	}
	switch kind {
	case 1:
		come()
	case 2:
		go come()
	case 3:
		time.AfterFunc(3*time.Second, come)
	default:
		time.AfterFunc(time.Duration(w.h.IntN(100))*time.Millisecond, come)
	}
	return true
}

// keeper is the retained store of a world.
type keeper struct{ w *world }

func (k keeper) Put(ctx context.Context, values []*value.Value) error {
	k.w.leaves("retained put")
	return k.w.log.journal.Put(ctx, values)
}

// ghosts is a session log as JetStream's is: an append whose caller goes away is not
// over. It lands when it likes, unless it is abandoned: then now or never.
type ghosts struct {
	*journal
	w *world

	lock     sync.Mutex
	ghost    [][]byte // guarded by lock; nil: none
	abandons int      // guarded by lock
}

func (g *ghosts) Log(_ context.Context, id string) (state.Log, error) { return g, nil }

func (g *ghosts) Append(ctx context.Context, records [][]byte) (uint64, error) {
	g.w.leaves("append")
	type result struct {
		first uint64
		err   error
	}
	g.lock.Lock()
	if g.ghost != nil {
		g.w.h.t.Error("an append while another one is out")
	}
	own := make([][]byte, len(records))
	for n, r := range records {
		own[n] = append([]byte(nil), r...)
	}
	g.ghost = own
	g.lock.Unlock()
	done := make(chan result, 1)
	go func() {
		var err error
		if g.journal.behave != nil {
			err = g.journal.behave(len(own))
		}
		g.lock.Lock()
		defer g.lock.Unlock()
		if len(g.ghost) == 0 || &g.ghost[0] != &own[0] {
			return // abandoned
		}
		g.ghost = nil
		first := uint64(0)
		if err == nil || g.w.h.IntN(2) == 0 {
			first = g.take(own)
		}
		done <- result{first, err}
	}()
	select {
	case r := <-done:
		return r.first, r.err
	case <-ctx.Done():
		return 0, fmt.Errorf("%w: %w", state.ErrUnknown, ctx.Err())
	}
}

// take lands records.
func (g *ghosts) take(records [][]byte) uint64 {
	g.journal.mu.Lock()
	defer g.journal.mu.Unlock()
	first := uint64(len(g.taken) + 1)
	for _, r := range records {
		v, err := value.DecodeRecord(r)
		if err != nil {
			g.w.h.t.Error(err)
			continue
		}
		g.taken = append(g.taken, v)
	}
	return first
}

func (g *ghosts) Abandon() {
	g.lock.Lock()
	defer g.lock.Unlock()
	if g.ghost == nil {
		return
	}
	g.abandons++
	if g.w.h.IntN(2) == 0 {
		g.take(g.ghost)
	}
	g.ghost = nil
}
