package jetstream

import (
	"sync"

	"maestrohub.io/uns/broker/state"
)

// ring keeps the end of a log as its feed gave it: whole messages, without a
// gap, bounded in bytes.
type ring struct {
	most int

	mu      sync.Mutex // below
	start   uint64     // sequence of the oldest message kept
	held    []kept
	bytes   int
	changed chan struct{} // closed and replaced when something came
}

type kept struct {
	entries []state.Entry
	bytes   int
}

func newRing(most int) *ring { return &ring{most: most, start: 1, changed: make(chan struct{})} }

// reset empties the ring; the next message has this sequence.
func (r *ring) reset(next uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.start, r.held, r.bytes = next, nil, 0
	r.wake()
}

// add appends a message, dropping the oldest beyond the bound.
func (r *ring) add(sequence uint64, entries []state.Entry, bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if sequence != r.start+uint64(len(r.held)) {
		r.start, r.held, r.bytes = sequence, nil, 0
	}
	bytes += 64 * len(entries)
	r.held = append(r.held, kept{entries, bytes})
	r.bytes += bytes
	drop := 0
	for r.bytes > r.most && drop < len(r.held)-1 {
		r.bytes -= r.held[drop].bytes
		r.held[drop] = kept{}
		drop++
	}
	r.held = r.held[drop:]
	r.start += uint64(drop)
	r.wake()
}

func (r *ring) wake() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// message returns the entries of one message, if it is kept.
func (r *ring) message(sequence uint64) (entries []state.Entry, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if sequence < r.start || sequence-r.start >= uint64(len(r.held)) {
		return nil, false
	}
	return r.held[sequence-r.start].entries, true
}

// take appends entries from a sequence on to dst, up to state.MaxAppend of them.
// behind: the sequence lies before what is kept, which begins with start.
func (r *ring) take(from uint64, dst []state.Entry) (entries []state.Entry, behind bool, start uint64, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := messageOf(from)
	if at < r.start {
		return dst, true, r.start, r.changed
	}
	for i := at - r.start; i < uint64(len(r.held)) && len(dst) < state.MaxAppend; i++ {
		for _, e := range r.held[i].entries {
			if e.Sequence >= from && len(dst) < state.MaxAppend {
				dst = append(dst, e)
			}
		}
	}
	return dst, false, r.start, r.changed
}
