package pebble

import (
	"cmp"
	"container/heap"
	"context"
	"encoding/binary"
	"fmt"
	"time"

	crdb "github.com/cockroachdb/pebble/v2"

	"maestrohub.io/uns/broker/historian"
	"maestrohub.io/uns/broker/topic"
)

// Read implements historian.Historian.
func (h *Historian) Read(ctx context.Context, q historian.Query) (historian.Page, error) {
	r, err := h.reading(ctx, q)
	if err != nil {
		return historian.Page{}, err
	}
	h.mu.Lock()
	g, t := h.current, h.trouble
	h.mu.Unlock()
	if g == nil || !g.acquire() {
		if t == nil {
			t = newTrouble(h.dir, errClosed)
			if g != nil {
				return historian.Page{}, g.unavailable()
			}
		}
		return historian.Page{}, t.said
	}
	defer g.release()
	r.db = g.db
	page, err := r.page()
	if err == nil {
		err = ctx.Err()
	}
	switch {
	case err == nil:
		return page, nil
	case ctx.Err() != nil:
		return historian.Page{}, fmt.Errorf("read history: %w", ctx.Err())
	case damaged(err):
		// What is stored next may be damaged in the same way, and retention may remove
		// what would tell: no more writes until all of the store reads well.
		g.fail(err)
	}
	return historian.Page{}, fmt.Errorf("read history: %w", newTrouble(h.dir, err).said)
}

// reading is one Read on its way.
type reading struct {
	ctx      context.Context
	db       *crdb.DB
	query    historian.Query
	from, to int64 // of the timestamps, with retention and cursor taken in
	after    *place
	out      page

	// fullAt is the start of the segment in which the page became full.
	fullAt int64

	rows     *crdb.Iterator
	presence *crdb.Iterator
	key      []byte
}

// reading checks a query.
func (h *Historian) reading(ctx context.Context, q historian.Query) (*reading, error) {
	if q.Workspace == "" {
		return nil, fmt.Errorf("%w: no workspace", historian.ErrQuery)
	}
	if err := topic.ValidateFilter(q.Topic); err != nil {
		return nil, fmt.Errorf("%w: %w", historian.ErrQuery, err)
	}
	if q.To <= q.From {
		return nil, fmt.Errorf("%w: to (%d) must be greater than from (%d)", historian.ErrQuery, q.To, q.From)
	}
	if q.Limit < 0 {
		return nil, fmt.Errorf("%w: limit %d, allowed 0 to %d", historian.ErrQuery, q.Limit, historian.MaxLimit)
	}
	r := &reading{ctx: ctx, query: q, from: max(q.From, 0), to: q.To}
	r.out = page{newest: q.Newest, limit: min(cmp.Or(q.Limit, historian.DefaultLimit), historian.MaxLimit)}
	if h.opts.MaxAge > 0 {
		r.from = max(r.from, time.Now().Add(-h.opts.MaxAge).UnixNano())
	}
	if q.After != "" {
		after, err := parseCursor(q.After, q.Newest)
		if err != nil {
			return nil, err
		}
		r.after = &after
		if q.Newest {
			r.to = min(r.to, after.timestamp+1)
		} else {
			r.from = max(r.from, after.timestamp)
		}
	}
	return r, nil
}

// page reads segment by segment, in the order of time: of each, the topics that
// have rows in it. All of it sees the store as it was at the start.
func (r *reading) page() (historian.Page, error) {
	snapshot := r.db.NewSnapshot()
	defer func() { _ = snapshot.Close() }()
	topics, err := matching(r.ctx, snapshot, r.query.Workspace, r.query.Topic, r.query.Visible)
	if err != nil {
		return historian.Page{}, err
	}
	if r.presence, err = snapshot.NewIter(&crdb.IterOptions{LowerBound: []byte{spacePresence}, UpperBound: []byte{spacePresence + 1}}); err != nil {
		return historian.Page{}, err
	}
	defer func() { _ = r.presence.Close() }()
	if r.rows, err = snapshot.NewIter(&crdb.IterOptions{LowerBound: []byte{spaceRow}, UpperBound: []byte{spaceRow + 1}}); err != nil {
		return historian.Page{}, err
	}
	defer func() { _ = r.rows.Close() }()

	visits := visits{newest: r.query.Newest}
	for i := range topics {
		v := visit{topic: &topics[i]}
		if err := r.first(&v); err != nil {
			return historian.Page{}, err
		}
		if v.present {
			visits.list = append(visits.list, v)
		}
	}
	heap.Init(&visits)
	for len(visits.list) > 0 {
		v := &visits.list[0]
		full := r.out.full
		if full && v.start != r.fullAt {
			break // segments do not overlap: all of this one comes after the page
		}
		if err := r.segment(v); err != nil {
			return historian.Page{}, err
		}
		if !full && r.out.full {
			r.fullAt = v.start
		}
		if err := r.next(v); err != nil {
			return historian.Page{}, err
		}
		if !v.present {
			heap.Pop(&visits)
		} else {
			heap.Fix(&visits, 0)
		}
	}
	return r.out.result(), nil
}

// segment offers the rows a topic has in a segment to the page, until the page
// wants none that follow.
func (r *reading) segment(v *visit) error {
	r.key = appendRowPrefix(r.key[:0], v.segment, v.topic.id)
	prefix := len(r.key)
	var ok bool
	if r.query.Newest {
		r.key = binary.BigEndian.AppendUint64(r.key, orderedTime(r.to))
		ok = r.rows.SeekLT(r.key)
	} else {
		r.key = binary.BigEndian.AppendUint64(r.key, orderedTime(r.from))
		ok = r.rows.SeekGE(r.key)
	}
	for n := 0; ok; n++ {
		if n%1024 == 0 {
			if err := r.ctx.Err(); err != nil {
				return err
			}
		}
		key := r.rows.Key()
		if len(key) != rowKeySize {
			return fmt.Errorf("%w: key of %d bytes", errDamagedRow, len(key))
		}
		if string(key[:prefix]) != string(r.key[:prefix]) {
			break
		}
		p := placeOf(key)
		if p.timestamp < r.from || p.timestamp >= r.to {
			break
		}
		if r.after == nil || r.out.before(r.after, &p) {
			if !r.out.wants(&p) {
				break
			}
			data, err := r.rows.ValueAndErr()
			if err != nil {
				return err
			}
			row, err := decodeRow(key, data)
			if err != nil {
				return err
			}
			row.Topic = v.topic.name
			r.out.add(p, row)
		}
		if r.query.Newest {
			ok = r.rows.Prev()
		} else {
			ok = r.rows.Next()
		}
	}
	return r.rows.Error()
}

// visit is a topic and the segment of it that is to be read next.
type visit struct {
	topic   *found
	present bool // false: the topic has no more rows in the range
	segment uint32
	start   int64
}

// first finds the first segment that can have rows of the topic in the range.
func (r *reading) first(v *visit) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	if r.query.Newest {
		r.key = appendPresence(r.key[:0], v.topic.id, r.to, 0)
		return r.presentAt(v, r.presence.SeekLT(r.key))
	}
	// Segments are known by their start: the range may begin within the last one
	// that starts at or before from.
	r.key = appendPresence(r.key[:0], v.topic.id, r.from+1, 0)
	if err := r.presentAt(v, r.presence.SeekLT(r.key)); err != nil || v.present {
		return err
	}
	return r.presentAt(v, r.presence.SeekGE(r.key))
}

// next moves to the topic's next segment.
func (r *reading) next(v *visit) error {
	r.key = appendPresence(r.key[:0], v.topic.id, v.start, v.segment)
	if r.query.Newest {
		return r.presentAt(v, r.presence.SeekLT(r.key))
	}
	r.key = append(r.key, 0)
	return r.presentAt(v, r.presence.SeekGE(r.key))
}

// presentAt sets v's segment from where the presence iterator stands; none if that
// is another topic or out of the range.
func (r *reading) presentAt(v *visit, ok bool) error {
	v.present = false
	if !ok {
		return r.presence.Error()
	}
	id, start, segment, err := parsePresence(r.presence.Key())
	if err != nil {
		return err
	}
	if id == v.topic.id && start < r.to {
		v.present, v.segment, v.start = true, segment, start
	}
	return nil
}

// visits is a heap: the segment that comes first in the order of time on top.
type visits struct {
	newest bool
	list   []visit
}

func (h *visits) Len() int { return len(h.list) }

func (h *visits) Less(i, j int) bool {
	a, b := &h.list[i], &h.list[j]
	if a.start != b.start {
		return (a.start < b.start) != h.newest
	}
	return a.topic.id < b.topic.id
}

func (h *visits) Swap(i, j int) { h.list[i], h.list[j] = h.list[j], h.list[i] }
func (h *visits) Push(x any)    { h.list = append(h.list, x.(visit)) }

func (h *visits) Pop() any {
	last := len(h.list) - 1
	x := h.list[last]
	h.list = h.list[:last]
	return x
}
