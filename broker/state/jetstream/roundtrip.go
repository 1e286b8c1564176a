package jetstream

import (
	"slices"
	"sync"
	"time"
)

// roundTrip is how long the answers that came last took: the median of a few, so that
// one which waited out a leader election, or for a hung server to go on, says nothing
// of the next.
type roundTrip struct {
	mu   sync.Mutex
	last [5]time.Duration
	n    int
}

func (r *roundTrip) add(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last[r.n%len(r.last)] = d
	r.n++
}

// usual is 0 before the first answer.
func (r *roundTrip) usual() time.Duration {
	r.mu.Lock()
	last, n := r.last, min(r.n, len(r.last))
	r.mu.Unlock()
	if n == 0 {
		return 0
	}
	slices.Sort(last[:n])
	return last[n/2]
}

// overdue is how long an answer is waited for before what was asked is sent once more:
// three round trips, at least as long as least, and longer with each attempt. But not
// much longer: a stream has a new leader at any moment, and a read that a hung server
// swallowed is answered by the next that gets it.
func (r *roundTrip) overdue(attempt int, least, most time.Duration) time.Duration {
	first := max(3*r.usual(), least)
	wait := first
	for range min(attempt, 16) {
		wait += wait / 2
	}
	return min(wait, max(first, most), 10*time.Second)
}
