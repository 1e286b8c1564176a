package pebble

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	crdb "github.com/cockroachdb/pebble/v2"
)

// sweepEvery is how often age is looked at when no segment was added.
const sweepEvery = time.Minute

// retention decides which segments go. It measures and chooses in a goroutine of
// its own; the removal is a few deletes in the writer's next group.
type retention struct {
	maxAge   time.Duration
	maxBytes int64
	wakeup   chan struct{}
	seen     int // catalogue.changed at the last wake; the writer's

	mu       sync.Mutex
	segments []segment // copy of the catalogue, oldest first

	garbage int // segments removed since presence was cleaned
}

func (r *retention) init(o Options, c *catalogue) {
	r.maxAge, r.maxBytes = o.MaxAge, o.MaxBytes
	r.wakeup = make(chan struct{}, 1)
	r.seen = -1
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

	var drop []*segment
	for len(segments) > 0 && r.maxAge > 0 && segments[0].end <= now-int64(r.maxAge) {
		drop = append(drop, &segments[0])
		segments = segments[1:]
	}
	if r.maxBytes > 0 {
		excess, err := g.excess(segments)
		if err != nil {
			return err
		}
		for _, s := range removalOrder(segments, now) {
			if excess <= 0 {
				break
			}
			size, err := g.size(s.id)
			if err != nil {
				return err
			}
			drop = append(drop, s)
			excess -= size
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
	r.garbage += len(drop)
	if r.garbage < max(16, len(segments)/4) {
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

// excess returns by how much the rows of the segments are over maxBytes.
func (g *generation) excess(segments []segment) (int64, error) {
	var total int64
	for i := range segments {
		size, err := g.size(segments[i].id)
		if err != nil {
			return 0, err
		}
		total += size
	}
	return total - g.retention.maxBytes, nil
}

// size returns what the rows of a segment take on the disk, by Pebble's estimate;
// rows not flushed yet are not in it.
func (g *generation) size(id uint32) (int64, error) {
	from, to := segmentSpan(id)
	size, err := g.db.EstimateDiskUsage(from, to)
	return int64(size), err
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
