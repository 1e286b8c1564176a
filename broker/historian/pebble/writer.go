package pebble

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	crdb "github.com/cockroachdb/pebble/v2"
)

// A group is what is committed and synced together: as many requests as were
// waiting, up to these bounds, and always at least one.
const (
	groupRows  = 4096
	groupBytes = 4 << 20
)

// group is a batch on its way to the disk and the requests it answers.
type group struct {
	batch    *crdb.Batch
	requests []*request
}

// write is the one writer of the generation. While a group waits for its sync the
// next is made and written behind it, so that a sync covers all that came since
// the one before began.
func (g *generation) write() {
	defer close(g.written)
	for {
		var first *request
		select {
		case first = <-g.queue:
		case <-g.failed:
			return
		case <-g.stop:
			// What was queued before the stop is still written.
			select {
			case first = <-g.queue:
			default:
				return
			}
		}
		next, err := g.commit(first)
		if err != nil {
			g.fail(err)
			return
		}
		select {
		case g.written <- next:
		case <-g.failed:
			return
		}
	}
}

// sync completes the requests of each group once it is durable.
func (g *generation) sync() {
	defer close(g.ended)
	for next := range g.written {
		if err := next.batch.SyncWait(); err != nil {
			g.fail(fmt.Errorf("sync history: %w", err))
		}
		if g.fs.raised.Load() {
			continue // the sync may have been none: nobody may be told that it is durable
		}
		_ = next.batch.Close()
		for _, r := range next.requests {
			r.done <- struct{}{}
		}
	}
}

// commit makes a group of first and the requests that wait behind it, and applies
// it without waiting for its sync.
func (g *generation) commit(first *request) (*group, error) {
	now := time.Now().UnixNano()
	next := &group{batch: g.db.NewBatch(crdb.WithMaxRetainedSizeBytes(2 * groupBytes))}
	rows, size := 0, 0
	for r := first; r != nil; {
		next.requests = append(next.requests, r)
		rows, size = rows+len(r.rows), size+len(r.data)
		if err := g.encode(next.batch, r, now); err != nil {
			return nil, fmt.Errorf("write history: %w", err)
		}
		r = nil
		if rows < groupRows && size < groupBytes {
			select {
			case r = <-g.queue:
			default:
			}
		}
	}
	g.catalogue.rate.add(int64(size), now)
	if g.filled {
		clear(g.inGroup)
		g.filled = false
	}
	if next.batch.Empty() {
		// Nothing new: the rows found may still wait for their own sync, and a sync
		// of anything written after them covers them.
		if err := next.batch.LogData(nil, nil); err != nil {
			return nil, fmt.Errorf("write history: %w", err)
		}
	}
	if err := g.db.ApplyNoSyncWait(next.batch, crdb.Sync); err != nil {
		return nil, fmt.Errorf("write history: %w", err)
	}
	if cause := g.cause.Load(); cause != nil {
		return nil, *cause
	}
	g.retention.wake(g.catalogue)
	return next, nil
}

// encode adds a request to the batch.
func (g *generation) encode(batch *crdb.Batch, r *request, now int64) error {
	for i := range r.rows {
		position, err := g.encodeRow(batch, r, &r.rows[i], now)
		if err != nil {
			return err
		}
		r.positions = append(r.positions, position)
	}
	for _, s := range r.drop {
		if err := g.dropSegment(batch, s); err != nil {
			return err
		}
	}
	for _, name := range r.forget {
		if err := g.forgetTopic(batch, name); err != nil {
			return err
		}
	}
	return nil
}

// encodeRow adds a row, unless it is stored already, and returns its Position.
func (g *generation) encodeRow(batch *crdb.Batch, r *request, p *pending, now int64) (uint64, error) {
	topic, err := g.topics.entry(g.db, batch, p.workspace, p.topic)
	if err != nil {
		return 0, err
	}
	data := r.data[p.from:p.to]
	s, err := g.catalogue.segmentOf(p.timestamp, int64(rowKeySize+len(data)), now, batch)
	if err != nil {
		return 0, err
	}
	key := &g.key
	appendRowPrefix(key[:0], s.id, topic.id)
	binary.BigEndian.PutUint64(key[keyTime:], orderedTime(p.timestamp))
	copy(key[keyIdentity:], p.identity[:])
	timed := p.identity[0] == identityTimed
	if timed {
		position, found, err := g.stored(batch, topic, key, p.timestamp)
		if err != nil || found {
			return position, err
		}
	}
	if err := topic.mark(s, batch); err != nil {
		return 0, err
	}
	topic.newest = max(topic.newest, p.timestamp)
	position, err := g.positions.take(batch)
	if err != nil {
		return 0, err
	}
	op := batch.SetDeferred(rowKeySize, len(data))
	copy(op.Key, key[:])
	copy(op.Value, data)
	binary.BigEndian.PutUint64(op.Value[rowPosition:], position)
	if err := op.Finish(); err != nil {
		return 0, err
	}
	if timed && g.filled {
		g.inGroup[*key] = position
	}
	return position, nil
}

// stored looks for a timed row: in the store, which holds all groups before this
// one, and in the group itself.
func (g *generation) stored(batch *crdb.Batch, topic *topicEntry, key *rowKey, timestamp int64) (position uint64, found bool, err error) {
	if !topic.newestKnown {
		if err := topic.learnNewest(g.db); err != nil {
			return 0, false, err
		}
	}
	if timestamp > topic.newest {
		return 0, false, nil
	}
	if err := g.fillGroup(batch); err != nil {
		return 0, false, err
	}
	if position, found := g.inGroup[*key]; found {
		return position, true, nil
	}
	data, closer, err := g.db.Get(key[:])
	if errors.Is(err, crdb.ErrNotFound) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	defer func() { _ = closer.Close() }()
	if len(data) < rowHeader {
		return 0, false, fmt.Errorf("%w: %d bytes", errDamagedRow, len(data))
	}
	return binary.BigEndian.Uint64(data[rowPosition:]), true, nil
}

// fillGroup collects the timed rows the group has so far; from then on encodeRow
// keeps the collection up to date. Most groups never need it.
func (g *generation) fillGroup(batch *crdb.Batch) error {
	if g.filled {
		return nil
	}
	g.filled = true
	for reader := batch.Reader(); ; {
		_, key, data, ok, err := reader.Next()
		if err != nil || !ok {
			return err
		}
		if len(key) == rowKeySize && key[0] == spaceRow && key[keyIdentity] == identityTimed && len(data) >= rowHeader {
			g.inGroup[rowKey(key)] = binary.BigEndian.Uint64(data[rowPosition:])
		}
	}
}
