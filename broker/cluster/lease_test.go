package cluster

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// epoch is the beginning of the time that the tables count in seconds from.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return epoch.Add(time.Duration(seconds * float64(time.Second))) }

func ten() Timing { return Timing{10 * time.Second} }

func TestEveryIntervalFollowsFromTheTTL(t *testing.T) {
	for _, c := range []struct {
		ttl                                              time.Duration
		beat, fence, bound, decide, proof, latest, quiet time.Duration
	}{
		{ttl: 10 * time.Second, beat: time.Second, fence: 11666666666, bound: 10666666666, decide: 10 * time.Second, proof: 15 * time.Second, latest: 17 * time.Second, quiet: 3 * time.Second},
		{ttl: 20 * time.Second, beat: 2 * time.Second, fence: 23333333333, bound: 21333333333, decide: 20 * time.Second, proof: 30 * time.Second, latest: 34 * time.Second, quiet: 6 * time.Second},
		{ttl: 5 * time.Second, beat: 500 * time.Millisecond, fence: 5833333333, bound: 5333333333, decide: 5 * time.Second, proof: 7500 * time.Millisecond, latest: 8500 * time.Millisecond, quiet: 1500 * time.Millisecond},
	} {
		g := Timing{c.ttl}
		if g.Heartbeat() != c.beat || g.Fence() != c.fence || g.WriteBound() != c.bound || g.Decide() != c.decide || g.Proof() != c.proof || g.Quiet() != c.quiet {
			t.Errorf("T = %v: beat %v fence %v bound %v decide %v proof %v quiet %v", c.ttl, g.Heartbeat(), g.Fence(), g.WriteBound(), g.Decide(), g.Proof(), g.Quiet())
		}
		if latest := g.Proof() + g.Heartbeat(); latest >= c.latest {
			t.Errorf("T = %v: without any delay a judgment comes %v after the last write, promised is %v", c.ttl, latest, c.latest)
		}
		if g.Fence() >= g.Proof() {
			t.Errorf("T = %v: fenced after %v, judged from %v on: it must be the other way round", c.ttl, g.Fence(), g.Proof())
		}
	}
}

func TestALeaseHoldsFromTheSendingOfTheLastLandedWrite(t *testing.T) {
	type landing struct{ sent, back float64 }
	for _, c := range []struct {
		name     string
		landings []landing
		now      float64
		holds    bool
		held     float64
	}{
		{"registered", []landing{{0, 0.1}}, 11.66, true, 0},
		{"until 7/6 T", []landing{{0, 0.1}}, 11.67, false, 0},
		{"a late landing counts from its sending", []landing{{0, 0.1}, {5, 11}}, 16.6, true, 5},
		{"and no longer", []landing{{0, 0.1}, {5, 11}}, 16.7, false, 5},
		{"answers out of order: the latest sending stays", []landing{{0, 0}, {3, 4}, {1, 5}, {2, 6}}, 14.6, true, 3},
		{"an answer after the fence renews nothing", []landing{{0, 0.1}, {11, 12}}, 12, false, 0},
		{"nor does any later one", []landing{{0, 0.1}, {11, 12}, {12, 12.5}}, 13, false, 0},
		{"a registration known too late is no lease", []landing{{0, 12}}, 12, false, 0},
		{"and no later write makes it one", []landing{{0, 12}, {11, 12.5}}, 13, false, 0},
	} {
		l := lease{timing: ten()}
		for i, w := range c.landings {
			if i == 0 {
				l.begin(at(w.sent))
			} else {
				l.landed(at(w.sent), at(w.back))
			}
		}
		if got := l.holds(at(c.now)); got != c.holds {
			t.Errorf("%s: at %v s holds = %v", c.name, c.now, got)
		}
		if !l.held.Equal(at(c.held)) {
			t.Errorf("%s: held since %v", c.name, l.held.Sub(epoch))
		}
	}
}

func TestHeartbeatsKeepTheirPaceAndAreNotMadeUpFor(t *testing.T) {
	l := lease{timing: ten()}
	var sent []float64
	for ms := 0; ms < 20000; ms += 100 {
		if ms > 5000 && ms < 9500 {
			continue // paused
		}
		if now := at(float64(ms) / 1000); l.due(now) {
			sent = append(sent, now.Sub(epoch).Seconds())
		}
	}
	want := []float64{0, 1, 2, 3, 4, 5, 9.5, 10.5, 11.5, 12.5, 13.5, 14.5, 15.5, 16.5, 17.5, 18.5, 19.5}
	if len(sent) != len(want) {
		t.Fatalf("sent at %v, want %v", sent, want)
	}
	for i := range want {
		if sent[i] != want[i] {
			t.Fatalf("sent at %v, want %v", sent, want)
		}
	}
}

// Whatever order answers come in: the lease never holds 7/6 T after the latest
// sending that had come back by then, and once out it stays out.
func TestALeaseNeverOutlivesItsWrites(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		l := lease{timing: ten()}
		l.landed(epoch, epoch)
		if l.holds(epoch) {
			t.Fatal("a lease before the registration")
		}
		l.begin(epoch)
		latest := epoch
		now, out := epoch, false
		for range 60 {
			now = now.Add(time.Duration(r.Int64N(int64(4 * time.Second))))
			if r.IntN(3) > 0 {
				sent := now.Add(-time.Duration(r.Int64N(int64(14 * time.Second))))
				l.landed(sent, now)
				if sent.After(latest) {
					latest = sent
				}
			}
			holds := l.holds(now)
			if holds && now.Sub(latest) >= ten().Fence() {
				t.Fatalf("seed %d: holds %v after the latest sending", seed, now.Sub(latest))
			}
			if out && holds {
				t.Fatalf("seed %d: holds again after it ran out", seed)
			}
			out = out || !holds
		}
	}
}

func TestADeadlineOnceOverStaysOver(t *testing.T) {
	d := newDeadline(life1("a", 1), epoch)
	if d.MayAct(epoch) || d.MayDecide(epoch) {
		t.Error("may act before a write landed")
	}
	d.extend(at(11.6), at(10))
	for _, c := range []struct {
		now         float64
		act, decide bool
	}{{0, true, true}, {9.9, true, true}, {10, true, false}, {11.5, true, false}, {11.6, false, false}} {
		if d.MayAct(at(c.now)) != c.act || d.MayDecide(at(c.now)) != c.decide {
			t.Errorf("at %v s: may act %v, may decide %v", c.now, d.MayAct(at(c.now)), d.MayDecide(at(c.now)))
		}
	}
	select {
	case <-d.Over():
		t.Error("over before its end")
	default:
	}
	d.end()
	<-d.Over()
	if d.MayAct(epoch) || d.MayDecide(epoch) {
		t.Error("may act after its end")
	}
	var none *Deadline
	if none.MayAct(epoch) || none.MayDecide(epoch) || none.Incarnation() != (Incarnation{}) {
		t.Error("nobody's deadline lets act")
	}
	<-none.Over()
	if a := Alone("a"); !a.MayAct(time.Now().Add(1000*time.Hour)) || !a.MayDecide(time.Now()) {
		t.Error("a single node is fenced")
	}
}

func TestADeadlineIsReadWithoutALock(t *testing.T) {
	d := newDeadline(life1("a", 1), epoch)
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for !func() bool {
				d.MayAct(at(1))
				select {
				case <-d.Over():
					return true
				default:
					return false
				}
			}() {
			}
			if d.MayAct(at(1)) {
				t.Error("may act after its end")
			}
		})
	}
	for i := range 1000 {
		d.extend(at(float64(i)), at(float64(i)))
	}
	d.end()
	readers.Wait()
	if n := testing.AllocsPerRun(100, func() { d.MayAct(epoch) }); n != 0 {
		t.Errorf("MayAct allocates %v times", n)
	}
}
