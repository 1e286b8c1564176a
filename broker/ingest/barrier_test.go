package ingest

import (
	"math/rand/v2"
	"testing"
)

func TestABarrierIsOverWhenEverythingBeforeItHasLeft(t *testing.T) {
	// Against a plain list: never before the last of those that were there has left,
	// and always once the lane is empty.
	r := rand.New(rand.NewPCG(1, 9))
	var b barrier
	type inside struct {
		side uint8
		at   int
	}
	type wait struct {
		done chan struct{}
		at   int
	}
	var in []inside
	var waits []wait
	for step := range 50000 {
		switch r.IntN(3) {
		case 0:
			in = append(in, inside{b.enter(), step})
		case 1:
			if len(in) > 0 {
				i := r.IntN(len(in))
				var left [2]int
				left[in[i].side]++
				in = append(in[:i], in[i+1:]...)
				b.leave(left)
			}
		case 2:
			if len(waits) < 20 {
				w := wait{make(chan struct{}), step}
				b.await(w.done)
				waits = append(waits, w)
			}
		}
		open := waits[:0]
		for _, w := range waits {
			select {
			case <-w.done:
				for _, e := range in {
					if e.at < w.at {
						t.Fatalf("step %d: the barrier of step %d is over while an entry of step %d is there", step, w.at, e.at)
					}
				}
			default:
				if len(in) == 0 {
					t.Fatalf("step %d: the barrier of step %d is not over though nothing is there", step, w.at)
				}
				open = append(open, w)
			}
		}
		waits = open
	}
}
