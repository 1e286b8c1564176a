package ingest

// Settled returns a channel that is closed once every value of the workspace that
// was accepted before the call has its outcome. A SUBACK that waits for it means what it
// says: a value acknowledged after it was matched after its subscription was made.
func (i *Ingest) Settled(workspace string) <-chan struct{} {
	done := make(chan struct{})
	found, ok := i.lanes.Load(workspace)
	if !ok {
		close(done)
		return done
	}
	l := found.(*lane)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.barrier.await(done)
	return done
}

// barrier tells when everything that was in a lane at some moment has left it, for
// the price of a count. Entries are on one of two sides; a moment that is waited for
// turns the sides, and is over when the side before is empty. A moment asked for
// while another is waited for begins when that one is over: late rather than early.
//
// Owner: the lane's mutex.
type barrier struct {
	side  uint8  // of entries that come now
	count [2]int // entries on each side
	// waiting is for the other side to be empty; later begins after that.
	waiting, later []chan struct{}
}

// enter counts an entry and returns its side.
func (b *barrier) enter() uint8 {
	b.count[b.side]++
	return b.side
}

// leave counts entries that have left, by side.
func (b *barrier) leave(left [2]int) {
	b.count[0] -= left[0]
	b.count[1] -= left[1]
	for len(b.waiting) > 0 && b.count[b.side^1] == 0 {
		for _, done := range b.waiting {
			close(done)
		}
		b.waiting = nil
		if len(b.later) > 0 {
			b.side ^= 1
			b.waiting, b.later = b.later, nil
		}
	}
}

// await has done closed once everything that is in the lane now has left it.
func (b *barrier) await(done chan struct{}) {
	switch {
	case b.count[0]+b.count[1] == 0:
		close(done)
	case len(b.waiting) > 0:
		b.later = append(b.later, done)
	default:
		b.side ^= 1
		b.waiting = append(b.waiting, done)
	}
}
