package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"maestrohub.io/uns/broker/state"
)

// swept is what the sweepers of a cluster did.
type swept struct {
	mu           sync.Mutex
	sent         map[string][]time.Time // by client
	acts         map[string]int         // by reason and client
	unfit        bool                   // the historian takes nothing
	elected      int                    // how often Configure was called
	unconfigured error                  // what it returns
}

// sweepers runs one for each replica; the returned function ends them.
func sweepers(t *testing.T, c *replicas, all ...*replica) (*swept, []*Sweeper, func()) {
	return sweepersOver(t, c.store, all...)
}

func sweepersOver(t *testing.T, store state.Store, all ...*replica) (*swept, []*Sweeper, func()) {
	s := &swept{sent: map[string][]time.Time{}, acts: map[string]int{}}
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	var list []*Sweeper
	for _, r := range all {
		w := &Sweeper{Member: r.Member, Store: store, ConnectBudget: budget, Logger: slog.New(slog.DiscardHandler),
			Sweep: Sweep{Grace: grace, Most: most, Offline: 2},
			Publish: func(_ context.Context, w *Will) error {
				s.mu.Lock()
				defer s.mu.Unlock()
				if s.unfit {
					return errors.New("historian unavailable")
				}
				s.sent[w.Client] = append(s.sent[w.Client], time.Now())
				return nil
			},
			Did: func(a *Act, _ *Will, _ WillOutcome) {
				s.mu.Lock()
				defer s.mu.Unlock()
				if a != nil {
					s.acts[a.Reason.String()+" "+a.Client]++
				}
			},
			Configure: func(context.Context) error {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.elected++
				return s.unconfigured
			},
		}
		list = append(list, w)
		work.Go(func() { w.Run(ctx) })
	}
	return s, list, func() { cancel(); work.Wait() }
}

func (s *swept) times(client string) []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent[client]
}

func put(t *testing.T, c *replicas, bucket, key string, value []byte) {
	t.Helper()
	b, err := c.store.Bucket(t.Context(), bucket)
	if err == nil {
		_, err = b.Put(t.Context(), key, value)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func there(t *testing.T, c *replicas, bucket, key string) bool {
	t.Helper()
	b, _ := c.store.Bucket(t.Context(), bucket)
	_, err := b.Get(t.Context(), key)
	return err == nil
}

// connected writes what a replica writes for a connected device with a will.
func connected(t *testing.T, c *replicas, client string, n byte, i Incarnation) {
	t.Helper()
	put(t, c, state.SessionWill, WillKey(id(n)), (&Will{Client: client, Connection: id(n), Incarnation: i, Expiry: 3600, Topic: "off"}).Encode(1))
	put(t, c, state.Sessions, client, Owner{Connection: id(n), Incarnation: i}.Encode(1))
	put(t, c, state.SessionState, client, (&Session{ID: id(n), Expiry: 3600}).Encode(1))
}

func TestTheWillsOfAKilledReplicaAreSentOnceOrNotAtAll(t *testing.T) {
	inCluster(t, func(t *testing.T, c *replicas) {
		a, b, x := c.start("uns-0"), c.start("uns-1"), c.start("uns-2")
		s, list, end := sweepers(t, c, a, b, x)
		a.serves(time.Second)
		b.serves(time.Second)
		i := x.serves(time.Second).Incarnation()
		rest(t.Context(), 10*time.Second)
		connected(t, c, "away", 1, i)
		connected(t, c, "back", 2, i)
		connected(t, c, "returning", 3, i)
		put(t, c, state.Routes, RouteKey(i, "a/#"), (&Route{Incarnation: i, Filter: "a/#"}).Encode(1))
		last := x.kill()
		a.ended(20*time.Second, i)
		gone := time.Now()
		rest(t.Context(), 20*time.Second)
		put(t, c, state.Sessions, "back", Owner{Connection: id(9), Incarnation: a.Deadline().Incarnation()}.Encode(1))
		rest(t.Context(), 9*time.Second)
		for _, w := range list[:2] {
			w.Returning("returning")
		}
		if n := len(s.times("away")); n != 0 {
			t.Errorf("sent %d times before the grace was over", n)
		}
		rest(t.Context(), 60*time.Second)
		times := s.times("away")
		if len(times) != 1 || times[0].Sub(gone) < grace || times[0].Sub(last) > 17*time.Second+grace+2*time.Second {
			t.Errorf("away: sent at %v, its replica was found gone at %v", times, gone)
		}
		if n := s.times("back"); len(n) != 0 {
			t.Errorf("the device is back and its will was sent")
		}
		if n := s.times("returning"); len(n) != 1 || n[0].Sub(gone) < 29*time.Second+budget {
			t.Errorf("returning: %v", n)
		}
		if there(t, c, state.SessionWill, WillKey(id(1))) || there(t, c, state.Routes, RouteKey(i, "a/#")) {
			t.Error("records of the gone replica are left")
		}
		s.mu.Lock()
		if s.acts["mark_ended away"] != 1 || s.elected < 1 {
			t.Errorf("did %v, elected %d", s.acts, s.elected)
		}
		s.mu.Unlock()
		end()
		c.stop(a, b)
	})
}

// C12: every replica fenced while the store was away; the grace counts from when one
// serves again, and a device back within it has no will sent.
func TestAfterAnOutageTheGraceBeginsWhenAReplicaServesAgain(t *testing.T) {
	inCluster(t, func(t *testing.T, c *replicas) {
		a, b := c.start("uns-0"), c.start("uns-1")
		s, _, end := sweepers(t, c, a, b)
		i := a.serves(time.Second).Incarnation()
		b.serves(time.Second)
		rest(t.Context(), 10*time.Second)
		connected(t, c, "away", 1, i)
		connected(t, c, "back", 2, i)
		for _, r := range []*replica{a, b} {
			r.set(func() { r.cut = true })
		}
		a.fenced(13*time.Second, LeaseLost)
		b.fenced(13*time.Second, LeaseLost)
		rest(t.Context(), 10*time.Minute)
		if len(s.times("away")) != 0 {
			t.Error("sent while nobody had a lease")
		}
		for _, r := range []*replica{a, b} {
			r.set(func() { r.cut = false })
		}
		i2 := a.serves(5 * time.Second).Incarnation()
		b.serves(5 * time.Second)
		again := time.Now()
		rest(t.Context(), 25*time.Second)
		put(t, c, state.Sessions, "back", Owner{Connection: id(9), Incarnation: i2}.Encode(1))
		rest(t.Context(), 60*time.Second)
		if n := s.times("away"); len(n) != 1 || n[0].Sub(again) < grace-5*time.Second {
			t.Errorf("away: %v after serving again", n)
		}
		if len(s.times("back")) != 0 {
			t.Error("the device was back within the grace and its will was sent")
		}
		end()
		c.stop(a, b)
	})
}

// W2: refused for longer than any grace, then back.
func TestNoWillIsSentWhileItsDeviceIsRefused(t *testing.T) {
	inCluster(t, func(t *testing.T, c *replicas) {
		a, b := c.start("uns-0"), c.start("uns-1")
		s, _, end := sweepers(t, c, a, b)
		a.serves(time.Second)
		b.serves(time.Second)
		connected(t, c, "dev", 1, life1("uns-0", 77)) // of a life before
		for range 60 {
			b.Refused()
			rest(t.Context(), 5*time.Second)
		}
		if n := s.times("dev"); len(n) != 0 {
			t.Fatalf("sent after %v of being refused", n)
		}
		rest(t.Context(), 2*time.Minute)
		if n := s.times("dev"); len(n) != 1 {
			t.Fatalf("sent %d times once nobody refused any more", len(n))
		}
		end()
		c.stop(a, b)
	})
}

func TestAWillIsKeptUntilTheHistorianTakesIt(t *testing.T) {
	inCluster(t, func(t *testing.T, c *replicas) {
		a := c.start("uns-0")
		s, list, end := sweepers(t, c, a)
		s.unfit = true
		a.serves(time.Second)
		connected(t, c, "dev", 1, life1("uns-9", 7)) // nobody ever saw it
		rest(t.Context(), 3*time.Minute)
		if !there(t, c, state.SessionWill, WillKey(id(1))) || list[0].Counts().Waiting != 1 || !list[0].Counts().Elected {
			t.Errorf("counts %+v", list[0].Counts())
		}
		s.mu.Lock()
		s.unfit = false
		s.mu.Unlock()
		rest(t.Context(), 5*time.Second)
		if n := s.times("dev"); len(n) != 1 || there(t, c, state.SessionWill, WillKey(id(1))) {
			t.Errorf("sent %d times", len(n))
		}
		end()
		c.stop(a)
	})
}

// C4, C8: whoever loses its lease stops sweeping, and another takes over.
func TestTheSweepMovesToAReplicaWithALease(t *testing.T) {
	inCluster(t, func(t *testing.T, c *replicas) {
		a := c.start("uns-0")
		a.serves(time.Second)
		s, list, end := sweepers(t, c, a)
		rest(t.Context(), 2*time.Second)
		b := c.start("uns-1")
		b.serves(time.Second)
		s2, list2, end2 := sweepers(t, c, b)
		rest(t.Context(), 5*time.Second)
		if !list[0].Counts().Elected || list2[0].Counts().Elected {
			t.Fatal("not the first one")
		}
		a.set(func() { a.cut = true })
		d := a.Deadline()
		rest(t.Context(), 10600*time.Millisecond)
		if list[0].Counts().Elected || !d.MayAct(time.Now()) {
			t.Error("sweeps without a current lease, before its fence")
		}
		rest(t.Context(), 3*time.Second)
		if !list2[0].Counts().Elected {
			t.Error("nobody sweeps")
		}
		for n := range 5 {
			client := fmt.Sprintf("dev-%d", n)
			put(t, c, state.Sessions, client, Owner{Connection: id(byte(n)), Ending: Lost, Ended: time.Now().Add(-time.Duration(n) * time.Minute).UnixNano()}.Encode(1))
			put(t, c, state.SessionState, client, (&Session{ID: id(byte(n)), Expiry: 3600}).Encode(1))
		}
		put(t, c, state.SessionState, state.ProbeKeys+"uns-0", nil)
		rest(t.Context(), 10*time.Second)
		s2.mu.Lock()
		if s2.acts["offline_limit dev-4"] != 1 || s2.acts["offline_limit dev-3"] != 1 || s2.acts["offline_limit dev-2"] != 0 || s2.acts["offline_limit dev-0"] != 0 {
			t.Errorf("did %v", s2.acts)
		}
		s2.mu.Unlock()
		s.mu.Lock()
		if len(s.acts) != 0 {
			t.Errorf("the one without a lease did %v", s.acts)
		}
		s.mu.Unlock()
		end()
		end2()
		a.set(func() { a.cut = false })
		a.serves(10 * time.Second)
		c.stop(a, b)
	})
}

// orphan is a store whose sweep lock a killed replica holds: nobody else has it before
// that one is said to be over, or before the record lapses.
type orphan struct {
	state.Store
	holder string
	lapses time.Time
	blind  bool // its lock knows no succession
}

func (o *orphan) Lock(name string) state.Lock {
	l := orphanLock{o.Store.Lock(name), o}
	if o.blind {
		return struct{ state.Lock }{l}
	}
	return l
}

type orphanLock struct {
	state.Lock
	o *orphan
}

func (l orphanLock) Acquire(ctx context.Context) (state.Held, error) {
	return l.Succeed(ctx, func(string) bool { return false })
}

func (l orphanLock) Succeed(ctx context.Context, over func(string) bool) (state.Held, error) {
	for time.Now().Before(l.o.lapses) && !over(l.o.holder) {
		if err := rest(ctx, 100*time.Millisecond); err != nil {
			return nil, err
		}
	}
	return l.Lock.Acquire(ctx)
}

// W1: the grace counts from when the others took the replica for gone, also if it was
// the one that swept and its lock is free much later only.
func TestTheGraceOfAKilledSweepersDevicesCountsFromWhenItIsGone(t *testing.T) {
	for _, blind := range []bool{false, true} {
		t.Run(fmt.Sprintf("the lock has to lapse: %v", blind), func(t *testing.T) {
			inCluster(t, func(t *testing.T, c *replicas) {
				a, b, x := c.start("uns-0"), c.start("uns-1"), c.start("uns-2")
				a.serves(time.Second)
				b.serves(time.Second)
				i := x.serves(time.Second).Incarnation()
				store := c.store
				lapses := time.Now().Add(10*time.Second + 17*time.Second + 25*time.Second)
				s, list, end := sweepersOver(t, &orphan{store, "uns-2", lapses, blind}, a, b)
				rest(t.Context(), 10*time.Second)
				connected(t, c, "away", 1, i)
				x.kill()
				a.ended(20*time.Second, i)
				gone := time.Now()
				rest(t.Context(), time.Second)
				if elected := list[0].Counts().Elected || list[1].Counts().Elected; elected == blind {
					t.Errorf("elected a second after the holder was found gone: %v", elected)
				}
				rest(t.Context(), time.Minute)
				if n := s.times("away"); len(n) != 1 || n[0].Sub(gone) < grace-willEvery || n[0].Sub(gone) > grace+2*time.Second {
					t.Errorf("sent at %v, want once, %v after %v", n, grace, gone)
				}
				end()
				c.stop(a, b)
			})
		})
	}
}

// A term that ends while a will is on its way out leaves it to the next one, of the same
// replica too.
func TestAWillThatATermLeavesUnsentIsSentByTheNextOne(t *testing.T) {
	inCluster(t, func(t *testing.T, c *replicas) {
		a := c.start("uns-0")
		s, list, end := sweepers(t, c, a)
		s.unfit = true // each try fails
		a.serves(time.Second)
		connected(t, c, "dev", 1, life1("uns-9", 7))
		rest(t.Context(), 2*time.Minute)
		a.set(func() { a.cut = true }) // decides nothing any more from T on; the fence comes at 7/6 T
		rest(t.Context(), 10500*time.Millisecond)
		if list[0].Counts().Elected {
			t.Fatal("elected without a current lease")
		}
		a.set(func() { a.cut = false })
		s.mu.Lock()
		s.unfit = false
		s.mu.Unlock()
		rest(t.Context(), 10*time.Second)
		if n := s.times("dev"); len(n) != 1 {
			t.Errorf("sent %d times, at %v", len(n), n)
		}
		end()
		c.stop(a)
	})
}

// A store that cannot be brought to the settings today, a server being down, is brought to
// them once it can, without another election.
func TestTheStoreIsConfiguredOnceItCanBe(t *testing.T) {
	inCluster(t, func(t *testing.T, c *replicas) {
		a := c.start("uns-0")
		s, _, end := sweepers(t, c, a)
		s.mu.Lock()
		s.unconfigured = errors.New("peer offline")
		s.mu.Unlock()
		a.serves(time.Second)
		rest(t.Context(), time.Minute)
		s.mu.Lock()
		tried := s.elected
		s.unconfigured = nil
		s.mu.Unlock()
		if tried < 2 {
			t.Errorf("tried %d times within a minute", tried)
		}
		rest(t.Context(), time.Minute)
		s.mu.Lock()
		if s.elected != tried+1 {
			t.Errorf("configured %d times after it could be, want once", s.elected-tried)
		}
		s.mu.Unlock()
		end()
		c.stop(a)
	})
}
