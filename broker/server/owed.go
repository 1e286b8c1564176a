package server

import "sync"

// owed counts PUBRECs that wait for their identifier to be recorded: their values have
// an outcome, and their devices have not been told. A SUBACK waits for them like for
// values without one, or it would come before an acknowledgment of a value that was
// matched before its subscription.
type owed struct {
	mu      sync.Mutex
	rounds  []*round // that are not over, oldest first; only the last takes more
	waiting []owing
}

// round is the PUBRECs that began to wait between two moments somebody waits for.
type round struct{ left int }

// owing is closed when the rounds up to one are over.
type owing struct {
	last *round
	done chan struct{}
}

// enter counts one more; the returned function says that it waits no longer.
func (o *owed) enter() (leave func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := len(o.rounds); n == 0 || len(o.waiting) > 0 && o.waiting[len(o.waiting)-1].last == o.rounds[n-1] {
		o.rounds = append(o.rounds, &round{})
	}
	r := o.rounds[len(o.rounds)-1]
	r.left++
	return sync.OnceFunc(func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		r.left--
		o.over()
	})
}

// over takes the rounds away that are over, and tells who waits. mu is held.
func (o *owed) over() {
	for len(o.rounds) > 0 && o.rounds[0].left == 0 {
		r := o.rounds[0]
		o.rounds = o.rounds[1:]
		for len(o.waiting) > 0 && o.waiting[0].last == r {
			close(o.waiting[0].done)
			o.waiting = o.waiting[1:]
		}
	}
}

// settled returns a channel that is closed once none of those that wait now does.
func (o *owed) settled() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	done := make(chan struct{})
	if len(o.rounds) == 0 {
		close(done)
		return done
	}
	o.waiting = append(o.waiting, owing{o.rounds[len(o.rounds)-1], done})
	return done
}
