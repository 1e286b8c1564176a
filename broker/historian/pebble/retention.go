package pebble

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"time"

	crdb "github.com/cockroachdb/pebble/v2"
)

// sweepEvery is how often age is looked at when no segment was added.
const sweepEvery = time.Minute

// garbageSegments is how many removed segments' presence entries may be left, and a
// quarter of those that live if that is more: cleaning reads all entries.
const garbageSegments = 16

// retention decides which segments go. It measures and chooses in a goroutine of
// its own; the removal is a few deletes in the writer's next group.
type retention struct {
	maxAge   time.Duration
	maxBytes int64
	wakeup   chan struct{}
	seen     int // catalogue.changed at the last wake; the writer's

	mu       sync.Mutex
	segments []segment // copy of the catalogue, oldest first

	// sizes are the segments' as last measured: all of them every minute, in
	// between the new ones and those being written.
	sizes    map[uint32]int64
	measured int64 // when all were, nanoseconds since the Unix epoch
	garbage  int   // segments removed since presence was cleaned
	// reclaim says that removed segments may still have files.
	reclaim bool
}

func (r *retention) init(o Options, c *catalogue) {
	r.maxAge, r.maxBytes = o.MaxAge, o.MaxBytes
	r.wakeup = make(chan struct{}, 1)
	r.seen = -1
	r.reclaim = true
	r.wake(c)
}

// wake is called by the writer after each group: if segments came or went, the
// sweep gets a copy of them and is started.
func (r *retention) wake(c *catalogue) {
	if c.changed == r.seen {
		return
	}
	r.seen = c.changed
	r.mu.Lock()
	r.segments = r.segments[:0]
	for _, s := range c.byStart {
		r.segments = append(r.segments, *s)
	}
	r.mu.Unlock()
	select {
	case r.wakeup <- struct{}{}:
	default:
	}
}

// retain sweeps whenever segments change, and every minute.
func (g *generation) retain() {
	if g.retention.maxAge <= 0 && g.retention.maxBytes <= 0 {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-g.retention.wakeup:
		case <-ticker.C:
		case <-g.failed:
			return
		case <-g.stop:
			return
		}
		if err := g.sweep(ctx, time.Now().UnixNano()); err != nil {
			select {
			case <-g.stop:
			default:
				g.fail(err)
			}
			return
		}
	}
}

// sweep removes the segments that are too old, then the oldest while all together
// are too large.
func (g *generation) sweep(ctx context.Context, now int64) error {
	r := &g.retention
	r.mu.Lock()
	segments := append([]segment(nil), r.segments...)
	r.mu.Unlock()

	if r.reclaim {
		if err := g.reclaim(ctx, segments); err != nil {
			return err
		}
		r.reclaim = false
	}
	var drop []*segment
	for len(segments) > 0 && r.maxAge > 0 && segments[0].end <= now-int64(r.maxAge) {
		drop = append(drop, &segments[0])
		segments = segments[1:]
	}
	if r.maxBytes > 0 {
		if err := g.measure(segments, now); err != nil {
			return err
		}
		excess := -r.maxBytes
		for i := range segments {
			excess += r.sizes[segments[i].id]
		}
		for _, s := range removalOrder(segments, now) {
			if excess <= 0 {
				break
			}
			drop = append(drop, s)
			excess -= r.sizes[s.id]
		}
	}
	if len(drop) == 0 {
		return nil
	}
	if err := g.submit(ctx, &request{drop: drop, done: make(chan struct{}, 1)}); err != nil {
		return err
	}
	oldest := time.Unix(0, drop[len(drop)-1].end).UTC()
	g.log.Info("embedded broker: removed history by its retention", "segments", len(drop), "until", oldest.Format(time.RFC3339))
	r.reclaim = true
	r.garbage += len(drop)
	if r.garbage < max(garbageSegments, len(segments)/4) {
		return nil
	}
	r.garbage = 0
	return g.cleanPresence(ctx)
}

// removalOrder returns the segments in the order size-based retention takes them:
// those of values stamped far ahead of the clock first, since they would outlive
// everything, then the oldest. The newest of the others is never taken: it is the
// one being written.
func removalOrder(segments []segment, now int64) []*segment {
	var ahead, order []*segment
	for i := range segments {
		if segments[i].start > now+int64(24*time.Hour) {
			ahead = append(ahead, &segments[i])
		} else {
			order = append(order, &segments[i])
		}
	}
	if len(order) > 0 {
		order = order[:len(order)-1]
	}
	return append(ahead, order...)
}

// measure asks Pebble what the rows of the segments take on the disk: its estimate,
// without the rows not flushed yet.
func (g *generation) measure(segments []segment, now int64) error {
	r := &g.retention
	if now-r.measured >= int64(sweepEvery) {
		r.sizes, r.measured = make(map[uint32]int64, len(segments)), now
	}
	for i := range segments {
		s := &segments[i]
		if r.sizes[s.id] > 0 && i < len(segments)-8 {
			continue // one of 0 was not flushed when it was measured
		}
		from, to := segmentSpan(s.id)
		size, err := g.db.EstimateDiskUsage(from, to)
		if err != nil {
			return err
		}
		r.sizes[s.id] = int64(size)
	}
	return nil
}

// reclaim takes the files of removed segments out of the store. Their rows are
// deleted already; Pebble itself would free the space only when it next merges
// those files, and it seldom has a reason to. It is done a sweep after the removal,
// when the deletion is likely on the disk: else it would flush it first.
func (g *generation) reclaim(ctx context.Context, live []segment) error {
	ids := make([]uint32, 0, len(live))
	for _, s := range live {
		ids = append(ids, s.id)
	}
	slices.Sort(ids)
	next := uint32(0) // the least id that is not looked at yet
	for _, id := range ids {
		if id > next {
			from, _ := segmentSpan(next)
			_, to := segmentSpan(id - 1)
			size, err := g.db.EstimateDiskUsage(from, to)
			if err != nil {
				return err
			}
			if size > 0 {
				if err := g.db.Excise(ctx, crdb.KeyRange{Start: from, End: to}); err != nil {
					return err
				}
			}
		}
		next = id + 1
	}
	return nil
}

// dropSegment removes a segment's rows and its entry; the writer's. The topics'
// presence entries stay until cleanPresence: they point at no rows.
func (g *generation) dropSegment(batch *crdb.Batch, s *segment) error {
	for _, live := range g.catalogue.byStart {
		if live.id != s.id {
			continue
		}
		g.catalogue.remove(live)
		from, to := segmentSpan(s.id)
		if err := batch.DeleteRange(from, to, nil); err != nil {
			return err
		}
		return batch.Delete(segmentKey(s.id), nil)
	}
	return nil
}

// forgetTopic removes a topic that has rows nowhere; the writer's.
func (g *generation) forgetTopic(batch *crdb.Batch, name topicName) error {
	// What the group itself added is not visible in the store yet, but it is marked.
	for _, half := range []map[topicName]*topicEntry{g.topics.young, g.topics.old} {
		if e := half[name]; e != nil && g.catalogue.anyLive(e) {
			return nil
		}
	}
	g.topics.forget(name)
	key := appendName(nil, name.workspace, name.topic)
	data, closer, err := g.db.Get(key)
	if errors.Is(err, crdb.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	id := binary.BigEndian.Uint32(data)
	_ = closer.Close()
	used, err := hasPresence(g.db, id)
	if err != nil || used {
		return err
	}
	return batch.Delete(key, nil)
}
