package timescale

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"maestrohub.io/uns/broker/historian"
	"maestrohub.io/uns/broker/value"
)

// Append implements historian.Historian.
func (h *Historian) Append(ctx context.Context, values []*value.Value) error {
	if err := h.enter(); err != nil {
		return err
	}
	defer h.calls.Done()
	if len(values) == 0 {
		return nil
	}
	b, err := newBatch(values)
	if err != nil {
		return err
	}
	err = h.bounded(ctx, h.opts.WriteTimeout, "append to history", func(ctx context.Context) error {
		return h.store(ctx, b)
	})
	if err == nil {
		b.setPositions()
		h.full.Store(false)
		h.noteRecovery()
	} else if errors.Is(err, historian.ErrUnavailable) {
		h.noteOutage(err)
	}
	b.recycle()
	return err
}

// errRepeat is returned by a step that found the world changed: the whole is done
// again.
var errRepeat = errors.New("the database changed meanwhile")

// attempts is how often an Append is tried before a failure that repeating may cure
// counts as an outage.
const attempts = 5

// store stores the pending rows of a batch. Repeating is always safe: rows have
// keys.
func (h *Historian) store(ctx context.Context, b *batch) error {
	for attempt := 1; ; attempt++ {
		err := h.tryStore(ctx, b)
		switch judge(err) {
		case fine:
			return nil
		case repeat:
			if ctx.Err() == nil && attempt < attempts {
				continue
			}
			return h.unavailable(err)
		case reconnect:
			h.writes.Reset()
			if ctx.Err() == nil && attempt == 1 {
				continue // the connections in the pool were dead, a new one may do
			}
			return h.unavailable(err)
		case valueFault:
			index, fault := h.culprit(ctx, b, err)
			switch {
			case index >= 0:
				return &historian.ValueError{Index: index, Err: fault}
			case fault != nil:
				return h.unavailable(fault)
			case ctx.Err() != nil || attempt == attempts:
				return h.unavailable(err)
			}
			// Now all of them can be stored.
		default:
			return h.unavailable(err)
		}
	}
}

func (h *Historian) tryStore(ctx context.Context, b *batch) error {
	s, err := h.session(ctx, h.writes)
	if err != nil {
		return err
	}
	defer s.release()
	if err := h.nameTopics(ctx, s, b.pending); err != nil {
		return err
	}
	if err := h.makeRoom(ctx, s, b.pending); err != nil {
		return err
	}
	if err := h.insert(ctx, s, b, b.pending, false); err != nil {
		if missingPartition(err) {
			s.known.partitions.forget()
		}
		return err
	}
	if b.settle(); len(b.pending) == 0 {
		return nil
	}
	if err := h.find(ctx, s, b); err != nil {
		return err
	}
	if b.settle(); len(b.pending) > 0 {
		// Neither stored nor found: removed in between, or passed over by a server
		// that ends INSERT at the first conflict (TimescaleDB 2.17 on a compressed
		// chunk). What is left is stored now.
		return errRepeat
	}
	return nil
}

// settle takes the rows that have a Position out of pending.
func (b *batch) settle() {
	left := b.pending[:0]
	for _, r := range b.pending {
		if r.position == 0 {
			left = append(left, r)
		}
	}
	clear(b.pending[len(left):])
	b.pending = left
}

// insert stores rows in one transaction and one round trip, and sets the Positions of
// those that were not there. With trial the transaction is rolled back and nothing
// set.
func (h *Historian) insert(ctx context.Context, s *session, b *batch, rows []*row, trial bool) error {
	statement, err := s.Conn.Conn().Prepare(ctx, "insert", h.sql.Replace(insert))
	if err != nil {
		return err
	}
	conn := s.Conn.Conn().PgConn()
	// All between two Syncs is one transaction (PostgreSQL, 55.2.3).
	var requests pgconn.Batch
	var parts [][]*row
	if trial {
		requests.ExecParams("BEGIN", nil, nil, nil, nil)
		parts = append(parts, nil)
	}
	for rest := rows; len(rest) > 0; {
		part := next(rest)
		rest = rest[len(part):]
		requests.ExecPrepared(statement.Name, b.arrays.insert(part), binaryFormat, binaryFormat)
		parts = append(parts, part)
	}
	if trial {
		requests.ExecParams("ROLLBACK", nil, nil, nil, nil)
	}
	type found struct {
		r        *row
		position uint64
	}
	var stored []found
	results := conn.ExecBatch(ctx, &requests)
	for n := 0; results.NextResult(); n++ {
		result := results.ResultReader()
		for result.NextRow() {
			position := binary.BigEndian.Uint64(result.Values()[0])
			at := int(position % positionBlock)
			if at >= len(parts[n]) {
				_ = results.Close()
				return &unusable{fmt.Errorf("position %d is not of the batch: the sequence %s.position_block was altered, it must count in steps of %d",
					position, h.opts.Schema, positionBlock)}
			}
			if !trial {
				stored = append(stored, found{parts[n][at], position})
			}
		}
	}
	if err := results.Close(); err != nil {
		if trial {
			conn.Close(ctx) // in a failed transaction
		}
		return err
	}
	// Only now is it known that the transaction is committed.
	for _, f := range stored {
		f.r.position = f.position
	}
	return nil
}

// find sets the Positions of pending rows that are stored already. What another
// transaction committed is visible once it is on disk here; the message makes this
// transaction write too, so that its end is waited for on synchronous standbys as
// well, behind everything it has seen.
func (h *Historian) find(ctx context.Context, s *session, b *batch) error {
	var requests pgconn.Batch
	requests.ExecParams("SELECT pg_logical_emit_message(true, 'maestrohub.historian', '')", nil, nil, nil, binaryFormat)
	requests.ExecParams(h.sql.Replace(find), b.arrays.keys(b.pending), nil, binaryFormat, binaryFormat)
	positions := make([]uint64, 0, len(b.pending))
	results := s.Conn.Conn().PgConn().ExecBatch(ctx, &requests)
	for n := 0; results.NextResult(); n++ {
		result := results.ResultReader()
		for result.NextRow() {
			if n == 0 {
				continue
			}
			var position uint64
			if field := result.Values()[0]; field != nil {
				position = binary.BigEndian.Uint64(field)
			}
			positions = append(positions, position)
		}
	}
	if err := results.Close(); err != nil {
		return err
	}
	if len(positions) != len(b.pending) {
		return fmt.Errorf("%d rows asked for, %d answers", len(b.pending), len(positions))
	}
	for i, r := range b.pending {
		r.position = positions[i]
	}
	return nil
}

func int64Of(field []byte) int64 { return int64(binary.BigEndian.Uint64(field)) }
func int32Of(field []byte) int32 { return int32(binary.BigEndian.Uint32(field)) }
func int16Of(field []byte) int16 { return int16(binary.BigEndian.Uint16(field)) }
