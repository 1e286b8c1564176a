package jetstream

import "sync"

// recent remembers the last revisions known not to be deletions, so that
// deleting what was just read or written costs one round trip.
type recent struct {
	mu   sync.Mutex
	set  map[uint64]struct{}
	ring [4096]uint64
	at   int
}

func (r *recent) add(revision uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.set == nil {
		r.set = map[uint64]struct{}{}
	}
	delete(r.set, r.ring[r.at])
	r.ring[r.at] = revision
	r.set[revision] = struct{}{}
	r.at = (r.at + 1) % len(r.ring)
}

func (r *recent) has(revision uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.set[revision]
	return ok
}
