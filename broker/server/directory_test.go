package server

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestDirectoryFindsWhatASessionWants(t *testing.T) {
	// Against a plain list, while topics come and go and the log drops its oldest:
	// every wanted entry is found, and no other.
	r := rand.New(rand.NewPCG(7, 7))
	d := newDirectory(10)
	type entry struct {
		sequence uint64
		name     string
	}
	var all []entry
	next, first := uint64(10), uint64(10)
	var v topicVerdicts
	wanted := func(name string) bool { return name[len(name)-1]%3 == 0 }
	for round := range 300 {
		for range 1 + r.IntN(40) {
			if r.IntN(20) == 0 {
				next += uint64(r.IntN(3)) // a gap between two batches
			}
			name := fmt.Sprintf("t%d", round/10*7+r.IntN(12))
			d.add(next, name, int64(next))
			all = append(all, entry{next, name})
			next++
		}
		if r.IntN(4) == 0 {
			first = min(next, first+uint64(r.IntN(60)))
			d.forget(first)
		}
		from := first + uint64(r.IntN(int(next-first)+1))
		var want []uint64
		for _, e := range all {
			if e.sequence >= from && wanted(e.name) {
				want = append(want, e.sequence)
			}
		}
		var got []uint64
		for at := from; ; {
			found, to, covered := d.scan(at, nil, 1+r.IntN(5), &v, wanted)
			if !covered {
				t.Fatalf("round %d: %d is not covered, the first entry is %d", round, at, first)
			}
			for _, run := range found {
				n := 0
				for _, e := range all {
					if e.sequence >= run.first && e.sequence <= run.last {
						got = append(got, e.sequence)
						n++
					}
				}
				if n != run.entries {
					t.Fatalf("round %d: the stretch %d to %d is said to have %d entries, and has %d", round, run.first, run.last, run.entries, n)
				}
			}
			if to == at {
				break
			}
			at = to
		}
		if !slices.Equal(got, want) {
			t.Fatalf("round %d, from %d: found %v, want %v", round, from, got, want)
		}
	}
	if live := len(d.ids); live > 200 {
		t.Errorf("%d topics are numbered after most were forgotten", live)
	}
	if _, _, covered := d.scan(first-1, nil, 1, &v, wanted); covered {
		t.Error("an entry before the first is said to be covered")
	}
}
