package simulation

import (
	"flag"
	"testing"
	"testing/synctest"
	"time"
)

var (
	seedFlag = flag.Uint64("seed", 0, "run this seed alone and print its history")
	longFlag = flag.Duration("long", 0, "how long faults go on in a run, in the cluster's time")
)

// simulate runs a cluster in a bubble.
func simulate(t *testing.T, o options) (r *result) {
	t.Helper()
	synctest.Test(t, func(*testing.T) { r = run(o) })
	return r
}

func TestACalmClusterKeepsItsPromises(t *testing.T) {
	o := usual(1)
	o.Faults, o.Long, o.Honest = []fault{}, 2*time.Minute, true
	for i := range 2 {
		o.Seed = uint64(1 + i)
		r := simulate(t, o)
		if len(r.violations) > 0 {
			t.Fatalf("seed %d:\n%v", o.Seed, r.history)
		}
		if c := r.counted; c.Acked == 0 || c.Delivered == 0 || c.CleanRequired == 0 || c.Once == 0 {
			t.Errorf("seed %d: nothing was looked at: %v", o.Seed, c)
		}
	}
}

func TestSeed(t *testing.T) {
	if *seedFlag == 0 {
		t.Skip("no -seed")
	}
	o := usual(*seedFlag)
	if *longFlag > 0 {
		o.Long = *longFlag
	}
	began := time.Now()
	r := simulate(t, o)
	t.Logf("\n%v", r.history)
	for _, v := range r.violations {
		t.Error(v)
	}
	t.Logf("%v: %v", time.Since(began), r.counted)
}
