package timescale

import (
	"bytes"
	"cmp"
	"slices"
	"sync"

	"maestrohub.io/uns/broker/historian"
	"maestrohub.io/uns/broker/value"
)

// row is one value of a batch with its key.
type row struct {
	v      *value.Value
	index  int // of v in the batch
	micros int64
	topic  topicID
	identity
	nanos    int16
	ord      int32  // among the rows of its statement
	position uint64 // 0: not stored yet
	same     *row   // an equal value before it in the batch, nil if it is the first
}

// batch is one Append on its way.
type batch struct {
	rows    []row
	pending []*row // not stored yet, in the order of the batch, no row twice
	seen    map[key]*row
	scratch []byte
	arrays  arrays
}

// key is what makes two values of a batch the same row.
type key struct {
	topicName
	timestamp int64
	identity
}

var batches = sync.Pool{New: func() any { return &batch{seen: make(map[key]*row)} }}

// newBatch checks the values and makes their keys. The error is a
// *historian.ValueError.
func newBatch(values []*value.Value) (*batch, error) {
	b := batches.Get().(*batch)
	b.rows = slices.Grow(b.rows[:0], len(values))
	for i, v := range values {
		if err := storable(v); err != nil {
			b.recycle()
			return nil, &historian.ValueError{Index: i, Err: err}
		}
		b.rows = append(b.rows, row{v: v, index: i})
		r := &b.rows[i]
		r.micros, r.nanos = split(v.Timestamp)
		r.identity, b.scratch = identify(v, b.scratch)
		if len(values) > 1 {
			k := key{topicName{v.Workspace, v.Topic}, v.Timestamp, r.identity}
			if r.same = b.seen[k]; r.same != nil {
				continue
			}
			b.seen[k] = r
		}
		b.pending = append(b.pending, r)
	}
	return b, nil
}

// setPositions tells the values where they are stored.
func (b *batch) setPositions() {
	for i := range b.rows {
		r := &b.rows[i]
		if r.same != nil {
			r.position = r.same.position
		}
		r.v.Position = r.position
	}
}

// recycle lets go of the values. Nobody may hold a row then.
func (b *batch) recycle() {
	clear(b.rows)
	clear(b.pending)
	clear(b.seen)
	b.pending = b.pending[:0]
	if cap(b.scratch) > 1<<20 || cap(b.rows) > 1<<14 || b.arrays.large() {
		return
	}
	batches.Put(b)
}

// Bounds of one statement: the Positions of a block, and what the server should
// have to hold in memory at once.
const (
	positionBlock  = 4096
	statementBytes = 32 << 20
)

// next returns the first rows of pending that one statement takes.
func next(pending []*row) []*row {
	size := 0
	for i, r := range pending {
		size += len(r.v.Body)
		if i > 0 && (i == positionBlock || size > statementBytes) {
			return pending[:i]
		}
	}
	return pending
}

// keyOrder is the order rows are written in: two statements that write the same
// rows at once then wait for each other instead of both waiting for ever.
func keyOrder(a, b *row) int {
	return cmp.Or(cmp.Compare(a.topic.id, b.topic.id), cmp.Compare(a.micros, b.micros),
		cmp.Compare(a.nanos, b.nanos), bytes.Compare(a.identity[:], b.identity[:]))
}
