package cluster

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/state/memory"
)

// replicas are members over one store, each with a lease that can be cut and a
// state connection that can go silent.
type replicas struct {
	t     *testing.T
	store *memory.Store
}

// replica is one process.
type replica struct {
	*Member
	t *testing.T

	mu     sync.Mutex // below
	events []Event
	times  []time.Time
	cut    bool
	silent time.Time // since; zero: not
	writes []time.Time
}

func inCluster(t *testing.T, test func(t *testing.T, c *replicas)) {
	synctest.Test(t, func(t *testing.T) {
		store, err := memory.Open(memory.Options{TTL: map[string]time.Duration{state.Members: 10 * time.Second}})
		if err != nil {
			t.Fatal(err)
		}
		test(t, &replicas{t, store})
		store.Close()
		synctest.Wait()
	})
}

// leaseOf is a replica's lease: the members' bucket, unless cut.
type leaseOf struct {
	state.Bucket
	r *replica
}

func (l leaseOf) lost(ctx context.Context) bool {
	l.r.mu.Lock()
	cut := l.r.cut
	if !cut {
		l.r.writes = append(l.r.writes, time.Now())
	}
	l.r.mu.Unlock()
	if cut {
		<-ctx.Done()
	}
	return cut
}

func (l leaseOf) Put(ctx context.Context, key string, value []byte) (uint64, error) {
	if l.lost(ctx) {
		return 0, state.ErrUnknown
	}
	return l.Bucket.Put(ctx, key, value)
}

func (l leaseOf) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	if l.lost(ctx) {
		return 0, state.ErrUnknown
	}
	return l.Bucket.Update(ctx, key, value, revision)
}

func (l leaseOf) Create(ctx context.Context, key string, value []byte) (uint64, error) {
	if l.lost(ctx) {
		return 0, state.ErrUnknown
	}
	return l.Bucket.Create(ctx, key, value)
}

func (c *replicas) start(name string) *replica {
	c.t.Helper()
	r := &replica{t: c.t}
	b, err := c.store.Bucket(c.t.Context(), state.Members)
	if err != nil {
		c.t.Fatal(err)
	}
	r.Member, err = Start(c.t.Context(), Options{
		Replica: name, TTL: 10 * time.Second, ConnectBudget: budget, Store: c.store, Lease: leaseOf{b, r},
		Silent: func() time.Duration {
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.silent.IsZero() {
				return 0
			}
			return time.Since(r.silent)
		},
		On: func(e Event) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.events, r.times = append(r.events, e), append(r.times, time.Now())
		},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return r
}

func (r *replica) set(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

// kill ends the process as a kill does: nothing more is written.
func (r *replica) kill() (lastWrite time.Time) {
	r.cancel()
	r.work.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.writes[len(r.writes)-1]
}

// wait waits for an event.
func (r *replica) wait(within time.Duration, what string, is func(Event) bool) (Event, time.Time) {
	r.t.Helper()
	for until := time.Now().Add(within); ; {
		r.mu.Lock()
		for i, e := range r.events {
			if is(e) {
				at := r.times[i]
				r.events, r.times = r.events[i+1:], r.times[i+1:]
				r.mu.Unlock()
				return e, at
			}
		}
		r.mu.Unlock()
		if time.Now().After(until) {
			r.t.Fatalf("%s within %v: did not happen; status %+v", what, within, r.Status())
		}
		rest(r.t.Context(), 10*time.Millisecond)
	}
}

func (r *replica) serves(within time.Duration) *Deadline {
	r.t.Helper()
	e, _ := r.wait(within, "serves", func(e Event) bool { return e.Kind == NowServing })
	return e.Deadline
}

func (r *replica) fenced(within time.Duration, cause Cause) time.Time {
	r.t.Helper()
	e, at := r.wait(within, "fenced", func(e Event) bool { return e.Kind == NowFenced })
	if e.Cause != cause {
		r.t.Fatalf("fenced for %v, want %v", e.Cause, cause)
	}
	return at
}

func (r *replica) ended(within time.Duration, i Incarnation) (Ending, time.Time) {
	r.t.Helper()
	e, at := r.wait(within, i.String()+" ended", func(e Event) bool { return e.Kind == MemberEnded && e.Entry.Incarnation == i })
	return e.How, at
}

func (c *replicas) stop(all ...*replica) {
	for _, r := range all {
		if err := r.Stop(c.t.Context()); err != nil {
			c.t.Error(err)
		}
	}
}

func TestAKilledReplicaIsTakenForGoneBetweenOneAndAHalfAndOnePointSevenTTLs(t *testing.T) {
	inCluster(t, func(t *testing.T, c *replicas) {
		a, b, x := c.start("uns-0"), c.start("uns-1"), c.start("uns-2")
		a.serves(time.Second)
		b.serves(time.Second)
		i := x.serves(time.Second).Incarnation()
		rest(t.Context(), 20*time.Second)
		if m := a.Members(); len(m) != 3 || m[2].Phase != Serving {
			t.Fatalf("members %+v", m)
		}
		last := x.kill()
		for _, r := range []*replica{a, b} {
			how, at := r.ended(20*time.Second, i)
			if took := at.Sub(last); how != EndedGone || took < 15*time.Second || took > 17*time.Second {
				t.Errorf("%v %v after its last write", how, took)
			}
			if r.Ending(i) != EndedGone || len(r.Members()) != 2 {
				t.Errorf("ending %v, members %v", r.Ending(i), r.Members())
			}
		}
		c.stop(a, b)
	})
}

func TestAReplicaCutOffFromTheStoreFencesAndComesBack(t *testing.T) {
	inCluster(t, func(t *testing.T, c *replicas) {
		a, b := c.start("uns-0"), c.start("uns-1")
		d := a.serves(time.Second)
		b.serves(time.Second)
		rest(t.Context(), 20*time.Second)
		a.set(func() { a.cut = true })
		var last time.Time
		a.set(func() { last = a.writes[len(a.writes)-1] })
		at := a.fenced(20*time.Second, LeaseLost)
		if took := at.Sub(last); took < 11666*time.Millisecond || took > 11800*time.Millisecond {
			t.Errorf("fenced %v after the sending of its last landed write", took)
		}
		if d.MayAct(last.Add(11667*time.Millisecond)) || a.Deadline() != nil {
			t.Error("may act after the fence")
		}
		<-d.Over()
		if how, _ := b.ended(20*time.Second, d.Incarnation()); how != EndedGone {
			t.Errorf("for the others it %v", how)
		}
		a.set(func() { a.cut = false })
		next := a.serves(5 * time.Second)
		if next.Incarnation() == d.Incarnation() || d.MayAct(time.Now()) {
			t.Error("the same incarnation serves again")
		}
		c.stop(a, b)
	})
}

func TestAHalfOpenConnectionFencesAndTheLeaseStaysRenewed(t *testing.T) {
	inCluster(t, func(t *testing.T, c *replicas) {
		a, b := c.start("uns-0"), c.start("uns-1")
		d := a.serves(time.Second)
		b.serves(time.Second)
		rest(t.Context(), 20*time.Second)
		silent := time.Now()
		a.set(func() { a.silent = silent })
		at := a.fenced(17*time.Second, HalfOpen)
		if took := at.Sub(silent); took < 15*time.Second || took > 17*time.Second {
			t.Errorf("fenced after %v of silence", took)
		}
		if how, _ := b.ended(50*time.Millisecond, d.Incarnation()); how != EndedFenced {
			t.Errorf("for the others it %v", how)
		}
		rest(t.Context(), 60*time.Second)
		if b.Ending(d.Incarnation()) != EndedFenced || len(b.Members()) != 2 {
			t.Errorf("after a minute: %v, members %v", b.Ending(d.Incarnation()), b.Members())
		}
		a.set(func() { a.silent = time.Time{} })
		a.serves(3 * time.Second)
		c.stop(a, b)
	})
}

func TestADeletedMemberEntryFencesAtOnce(t *testing.T) {
	inCluster(t, func(t *testing.T, c *replicas) {
		a := c.start("uns-0")
		a.serves(time.Second)
		bucket, _ := c.store.Bucket(t.Context(), state.Members)
		r, _ := bucket.Get(t.Context(), "uns-0")
		if _, err := bucket.Delete(t.Context(), "uns-0", r.Revision); err != nil {
			t.Fatal(err)
		}
		a.fenced(200*time.Millisecond, EntryGone)
		a.serves(5 * time.Second)
		c.stop(a)
	})
}

func TestASecondProcessUnderOneIDIsNotReady(t *testing.T) {
	inCluster(t, func(t *testing.T, c *replicas) {
		a := c.start("uns-0")
		d := a.serves(time.Second)
		rest(t.Context(), 10*time.Second)
		second := c.start("uns-0")
		second.wait(5*time.Second, "says that it is a duplicate", func(e Event) bool { return e.Kind == NotServing && e.Cause == DuplicateID })
		rest(t.Context(), 60*time.Second)
		if s := second.Status(); s.Serving || !s.Duplicate {
			t.Errorf("the second: %+v", s)
		}
		if !d.MayAct(time.Now()) {
			t.Error("the first was fenced")
		}
		a.kill()
		second.serves(5 * time.Second)
		c.stop(second)
	})
}

func TestAStoppedReplicaIsReplacedAtOnce(t *testing.T) {
	inCluster(t, func(t *testing.T, c *replicas) {
		a, b := c.start("uns-0"), c.start("uns-1")
		d := a.serves(time.Second)
		b.serves(time.Second)
		rest(t.Context(), 10*time.Second)
		a.Stopping()
		if how, _ := b.ended(time.Second, d.Incarnation()); how != EndedStopped || !d.MayAct(time.Now()) {
			t.Errorf("while it stops: %v, may act %v", how, d.MayAct(time.Now()))
		}
		rest(t.Context(), 20*time.Second)
		if !d.MayAct(time.Now()) {
			t.Error("its lease was not renewed while it stopped")
		}
		c.stop(a)
		if d.MayAct(time.Now()) {
			t.Error("may act after its stop")
		}
		again := c.start("uns-0")
		again.serves(time.Second)
		c.stop(again, b)
	})
}

func TestTheOthersLearnWhoRefuses(t *testing.T) {
	inCluster(t, func(t *testing.T, c *replicas) {
		a, b := c.start("uns-0"), c.start("uns-1")
		a.serves(time.Second)
		b.serves(time.Second)
		a.Refused()
		rest(t.Context(), 1500*time.Millisecond)
		if !b.Refusing() || !a.Refusing() {
			t.Error("nobody knows")
		}
		rest(t.Context(), budget+time.Second)
		if b.Refusing() || a.Refusing() {
			t.Error("for longer than a connectBudget")
		}
		c.stop(a, b)
	})
}

func TestTheFloorRisesOnceTheLastOldReplicaIsGone(t *testing.T) {
	inCluster(t, func(t *testing.T, c *replicas) {
		a, b := c.start("uns-0"), c.start("uns-1")
		a.Member.mu.Lock()
		a.core.newest = 2
		a.Member.mu.Unlock()
		d := a.serves(time.Second)
		b.serves(time.Second)
		rest(t.Context(), 3*time.Second)
		if !a.Current(time.Now()) {
			t.Error("the view is not proven complete in a quiet cluster")
		}
		if f, err := a.RaiseFloor(t.Context(), d); f != 1 || err != nil {
			t.Fatalf("with an old member: %d, %v", f, err)
		}
		i := b.Deadline().Incarnation()
		b.kill()
		if f, err := a.RaiseFloor(t.Context(), d); f != 1 || err != nil {
			t.Fatalf("before the old member is known to be gone: %d, %v", f, err)
		}
		a.ended(20*time.Second, i)
		if f, err := a.RaiseFloor(t.Context(), d); f != 2 || err != nil {
			t.Fatalf("without an old member: %d, %v", f, err)
		}
		a.wait(time.Second, "floor raised", func(e Event) bool { return e.Kind == FloorRaised && e.Floor == 2 })
		if a.Floor() != 2 || !d.MayAct(time.Now()) {
			t.Errorf("floor %d", a.Floor())
		}
		// A release that reads no more than format 1 cannot join.
		old := c.start("uns-1")
		old.wait(5*time.Second, "below the floor", func(e Event) bool { return e.Kind == NotServing && e.Cause == BelowFloor })
		if s := old.Status(); s.Serving || !s.Below {
			t.Errorf("%+v", s)
		}
		old.kill()
		c.stop(a)
	})
}

// lagging is a store whose watches give everything late.
type lagging struct {
	state.Store
	by time.Duration
}

type laggingBucket struct {
	state.Bucket
	by time.Duration
}

type laggingWatch struct {
	state.Watch
	updates chan state.Update
}

func (w laggingWatch) Updates() <-chan state.Update { return w.updates }

func (l lagging) Bucket(ctx context.Context, name string) (state.Bucket, error) {
	b, err := l.Store.Bucket(ctx, name)
	return laggingBucket{b, l.by}, err
}

func (l laggingBucket) Watch(ctx context.Context, prefix string) (state.Watch, error) {
	inner, err := l.Bucket.Watch(ctx, prefix)
	if err != nil {
		return nil, err
	}
	w := laggingWatch{inner, make(chan state.Update)}
	type late struct {
		state.Update
		at time.Time
	}
	queue := make(chan late, 1000)
	go func() {
		defer close(queue)
		for u := range inner.Updates() {
			queue <- late{u, time.Now().Add(l.by)}
		}
	}()
	go func() {
		defer close(w.updates)
		for u := range queue {
			if rest(ctx, time.Until(u.at)) == nil {
				w.updates <- u.Update
			}
		}
	}()
	return w, nil
}

// B14: the raiser's watch lags, so the old replica that has just joined is not yet in
// its view.
func TestTheFloorIsNotRaisedOverAMemberNotYetSeen(t *testing.T) {
	inCluster(t, func(t *testing.T, c *replicas) {
		m, err := Start(t.Context(), Options{Replica: "uns-0", TTL: 10 * time.Second, Store: lagging{c.store, 2 * time.Second}})
		if err != nil {
			t.Fatal(err)
		}
		m.mu.Lock()
		m.core.newest = 2
		m.mu.Unlock()
		rest(t.Context(), 10*time.Second)
		old := c.start("uns-1")
		old.serves(time.Second)
		if len(m.Members()) != 1 {
			t.Fatalf("members %v", m.Members())
		}
		if f, err := m.RaiseFloor(t.Context(), m.Deadline()); f != 1 || err != nil {
			t.Errorf("raised to %d, %v", f, err)
		}
		c.stop(old)
		if err := m.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// B19: the process was paused between the decision and the write, and is another
// incarnation now.
func TestAJudgmentLeavesOnlyUnderTheDeadlineItWasDecidedUnder(t *testing.T) {
	inCluster(t, func(t *testing.T, c *replicas) {
		a := c.start("uns-0")
		d := a.serves(time.Second)
		a.judge(t.Context(), life1("uns-0", 5), life1("z", 1))
		if there(t, c, state.Members, "z") {
			t.Error("a judgment of an earlier incarnation was written")
		}
		a.judge(t.Context(), d.Incarnation(), life1("z", 1))
		if !there(t, c, state.Members, "z") {
			t.Error("no judgment was written")
		}
		c.stop(a)
	})
}

func TestASlowListenerDelaysNoHeartbeat(t *testing.T) {
	inCluster(t, func(t *testing.T, c *replicas) {
		release := make(chan struct{})
		m, err := Start(t.Context(), Options{Replica: "uns-0", TTL: 10 * time.Second, Store: c.store, On: func(Event) { <-release }})
		if err != nil {
			t.Fatal(err)
		}
		rest(t.Context(), 60*time.Second)
		if d := m.Deadline(); !d.MayAct(time.Now()) || !m.Status().Serving {
			t.Errorf("status %+v", m.Status())
		}
		close(release)
		if err := m.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestAMemberWithoutANameOrAStoreDoesNotStart(t *testing.T) {
	inCluster(t, func(t *testing.T, c *replicas) {
		if _, err := Start(t.Context(), Options{TTL: 10 * time.Second, Store: c.store}); err == nil {
			t.Error("started without a replica id")
		}
		c.store.Close()
		if _, err := Start(t.Context(), Options{Replica: "a", TTL: 10 * time.Second, Store: c.store}); !errors.Is(err, state.ErrClosed) {
			t.Errorf("started without a store: %v", err)
		}
	})
}
