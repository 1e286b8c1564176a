package simulation

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

var (
	seedFlag = flag.Uint64("seed", 0, "run this seed alone and print its history")
	watched  = flag.String("watch", "", "with -seed: a device whose records are in the history")
	forget   = flag.Bool("forgetful", false, "with -seed: a calm cluster whose session log keeps little")
	longFlag = flag.Duration("long", 0, "how long faults go on in a run, in the cluster's time; 0: 3 minutes, 10 with -seed or -for")
	only     = flag.String("faults", "", "with -seed: the numbers of the faults to do, as the list of them has them, such as 0,3; empty: all")
	forFlag  = flag.Duration("for", 0, "run fresh seeds for that long")
)

// simulate runs a cluster in a bubble.
func simulate(t *testing.T, o options) (r *result) {
	t.Helper()
	synctest.Test(t, func(*testing.T) { r = run(o) })
	return r
}

// hold fails the test with the history of a run that broke a promise.
func (r *result) hold(t *testing.T) {
	t.Helper()
	if len(r.violations) == 0 {
		return
	}
	for n, f := range r.faults {
		t.Logf("fault %d: %v", n, f)
	}
	t.Logf("\n%v", r.history)
	for _, v := range r.violations {
		t.Error(v)
	}
	t.Errorf("seed %d, again: go test ./tests/simulation -run Seed -v -seed %d -long %v", r.options.Seed, r.options.Seed, r.options.Long)
}

func TestACalmClusterKeepsItsPromises(t *testing.T) {
	for seed := range uint64(2) {
		o := usual(seed + 1)
		o.Faults, o.Long, o.Honest = []fault{}, 90*time.Second, true
		r := simulate(t, o)
		r.hold(t)
		if c := r.counted; c.Acked == 0 || c.Delivered == 0 || c.CleanRequired == 0 || c.Once == 0 {
			t.Errorf("seed %d: nothing was looked at: %v", o.Seed, c)
		}
	}
}

func TestWhatTheLogHasDroppedCostsNothingElse(t *testing.T) {
	o := forgetful(1)
	o.Long = 4 * time.Minute
	r := simulate(t, o)
	r.hold(t)
	if r.counted.Delivered == 0 {
		t.Errorf("nothing was looked at: %v", r.counted)
	}
}

// TestAClusterThatIsHarmedKeepsItsPromises runs seeds that are always the same; fresh ones
// are TestFor's.
func TestAClusterThatIsHarmedKeepsItsPromises(t *testing.T) {
	for _, seed := range []uint64{1, 5} {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			o := usual(seed)
			o.Long = 3 * time.Minute
			if *longFlag > 0 {
				o.Long = *longFlag
			}
			began := time.Now()
			r := simulate(t, o)
			r.hold(t)
			t.Logf("%v: %v", time.Since(began), r.counted)
		})
	}
}

func TestFor(t *testing.T) {
	if *forFlag == 0 {
		t.Skip("no -for")
	}
	for began, runs := time.Now(), 0; time.Since(began) < *forFlag; runs++ {
		o := usual(rand.Uint64N(1 << 32))
		if *longFlag > 0 {
			o.Long = *longFlag
		}
		r := simulate(t, o)
		r.hold(t)
		t.Logf("run %d, seed %d: %v", runs, o.Seed, r.counted)
		if t.Failed() {
			return
		}
	}
}

func TestSeed(t *testing.T) {
	if *seedFlag == 0 {
		t.Skip("no -seed")
	}
	o := usual(*seedFlag)
	if *forget {
		o = forgetful(*seedFlag)
	}
	if *longFlag > 0 {
		o.Long = *longFlag
	}
	o.Watched = *watched
	if *only != "" {
		o.Faults = chosen(t, schedule(o.Seed, o.Replicas, o.Long, o.Every), *only)
	}
	began := time.Now()
	r := simulate(t, o)
	if len(r.violations) == 0 {
		t.Logf("\n%v", r.history)
	}
	r.hold(t)
	t.Logf("%v: %v", time.Since(began), r.counted)
}

// chosen are some of the faults, by number.
func chosen(t *testing.T, all []fault, numbers string) []fault {
	t.Helper()
	some := []fault{}
	for rest := numbers; rest != ""; {
		var n int
		if _, err := fmt.Sscanf(rest, "%d", &n); err != nil || n < 0 || n >= len(all) {
			t.Fatalf("-faults %q: want numbers from 0 to %d with commas between", numbers, len(all)-1)
		}
		some = append(some, all[n])
		skip := len(fmt.Sprint(n))
		rest = rest[min(skip+1, len(rest)):]
	}
	return some
}
