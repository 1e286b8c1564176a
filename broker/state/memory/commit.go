package memory

import (
	"context"
	"fmt"
	"time"

	"maestrohub.io/uns/broker/state"
)

// commit is a request to the committer: writes to one durable bucket, or none
// (a probe). Once sent it belongs to the committer until done is closed.
type commit struct {
	bucket  *bucket
	writes  []state.Write
	results []state.Result
	done    chan struct{}
	err     error // of a probe
}

// maxGroup bounds how many requests share a frame.
const maxGroup = 4096

// commit hands c over and waits. The error is that of the waiting: c's own are
// in its results.
func (s *Store) commit(ctx context.Context, c *commit) error {
	if err := s.open(); err != nil {
		return err
	}
	select {
	case s.commits <- c:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closing:
		return state.ErrClosed
	}
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", state.ErrUnknown, ctx.Err())
	case <-s.committed:
	}
	select {
	case <-c.done:
		return c.err
	default:
		return state.ErrClosed // the committer ended without having seen it
	}
}

// commitLoop is the committer: it decides what waits, writes it as one frame,
// and only then lets it be seen.
func (s *Store) commitLoop() {
	defer close(s.committed)
	g := &group{store: s, pending: map[pendingKey]*record{}, revisions: map[*bucket]uint64{}}
	for {
		select {
		case c := <-s.commits:
			g.run(c)
		case done := <-s.snapshot:
			s.snapshot = nil
			s.journal.replaced(done)
		case <-s.closing:
			for {
				select {
				case c := <-s.commits:
					g.run(c)
					continue
				default:
				}
				if s.snapshot != nil {
					s.journal.replaced(<-s.snapshot)
				}
				return
			}
		}
		s.maybeSnapshot()
	}
}

type pendingKey struct {
	bucket *bucket
	key    string
}

// group is the requests of one frame.
type group struct {
	store     *Store
	requests  []*commit
	pending   map[pendingKey]*record // decided, not yet written
	order     []pendingRecord
	revisions map[*bucket]uint64
}

type pendingRecord struct {
	bucket *bucket
	record *record
	result *state.Result
}

// run makes a group of first and of whatever waits already, and sees it
// through.
func (g *group) run(first *commit) {
	now := time.Now()
	g.add(first, now)
	for len(g.requests) < maxGroup {
		select {
		case c := <-g.store.commits:
			g.add(c, now)
			continue
		default:
		}
		break
	}
	g.finish(g.write(), now)
	clear(g.pending)
	clear(g.revisions)
	clear(g.requests)
	clear(g.order)
	g.requests, g.order = g.requests[:0], g.order[:0]
}

// add decides a request's writes upon the records there are and those already
// decided in this group.
func (g *group) add(c *commit, now time.Time) {
	g.requests = append(g.requests, c)
	b := c.bucket
	for i := range c.writes {
		w, result := &c.writes[i], &c.results[i]
		if result.Err != nil {
			continue
		}
		key := pendingKey{b, w.Key}
		last, decided := g.pending[key]
		if !decided {
			last = b.records[w.Key]
		}
		revision := max(g.revisions[b], b.revision) + 1
		r, err := b.decide(w, last, revision, now.UnixNano())
		switch {
		case err == nil:
			g.revisions[b] = revision
			g.pending[key] = r
			g.order = append(g.order, pendingRecord{b, r, result})
		case decided:
			// It lost against a write that has not landed either.
			result.Err = err
			g.order = append(g.order, pendingRecord{result: result})
		default:
			result.Err = err
		}
	}
}

// write puts the group on the disk. Groups that change nothing need none,
// unless somebody asks whether a write is possible.
func (g *group) write() error {
	probe, count := false, 0
	for _, c := range g.requests {
		probe = probe || c.bucket == nil
	}
	for _, p := range g.order {
		if p.record != nil {
			count++
		}
	}
	if count == 0 && !probe {
		return nil
	}
	return g.store.journal.append(count, func(yield func(string, *record)) {
		for _, p := range g.order {
			if p.record != nil {
				yield(p.bucket.name, p.record)
			}
		}
	})
}

// finish lets the group be seen and answers everyone.
func (g *group) finish(err error, now time.Time) {
	for _, p := range g.order {
		switch {
		case err != nil:
			*p.result = state.Result{Err: err}
		case p.record != nil:
			p.bucket.mu.Lock()
			p.bucket.install(p.record)
			p.bucket.dropOldTombstones(now)
			p.bucket.mu.Unlock()
			p.result.Revision = p.record.revision
		}
	}
	for _, c := range g.requests {
		if c.bucket == nil {
			c.err = err
		}
		close(c.done)
	}
}
