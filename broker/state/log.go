package state

import (
	"context"
	"time"
)

// Entry is one record of a log.
type Entry struct {
	Sequence uint64
	Time     time.Time // when the store took it; of the whole batch
	Data     []byte    // shared: not to be changed
}

// Log is the session log of one workspace: what its persistent sessions want,
// in order, bounded in bytes and age by the store's configuration.
//
// Sequences begin at 1 and grow; within one batch by one, between batches there
// may be a gap. Entries were dropped before a position only if Bounds says that
// the first sequence lies beyond it.
type Log interface {
	// Append adds 1 to MaxAppend records as one batch: all or none, in this
	// order, at consecutive sequences of which the first is returned. Batches
	// appended one after the other stand in that order. After ErrUnknown the
	// same batch is appended again by the caller, and may stand there twice.
	// A record that the configured bounds can never hold: ErrQuota.
	Append(ctx context.Context, records [][]byte) (first uint64, err error)
	// Read appends up to max entries to dst, in order, beginning with the
	// first available at or after from; dst unchanged means that there is none
	// now. Like every read it may lag behind an acknowledged append.
	Read(ctx context.Context, from uint64, max int, dst []Entry) ([]Entry, error)
	// Bounds returns the first and the last sequence there is. Of an empty
	// log, first is the next sequence and last = first - 1.
	Bounds(ctx context.Context) (first, last uint64, err error)
	// Tail follows the log from the first available entry at or after from.
	Tail(from uint64) Tail
}

// Tail gives a log's entries in order, without a gap but for what the log
// itself dropped. Used by one goroutine; Stop may come from another.
type Tail interface {
	// Next waits for further entries and returns as many as are there, up to
	// MaxAppend. The slice is valid until the next call; Data stays valid.
	// Errors: ctx's, or ErrClosed once stopped or the store closed.
	Next(ctx context.Context) ([]Entry, error)
	// Stop ends the tail. Stopping twice is allowed.
	Stop()
}

// Knower is a Log that can say, without asking anybody, what it is known to hold.
type Knower interface {
	// Known is the sequence after the last entry this replica knows to be there: by an
	// append of its own, a read or the tail. Entries beyond it may be there too.
	Known() uint64
}

// Known is a position of a log that every entry appended from now on lies behind,
// and that asks the store only if the log does not know one by itself.
func Known(ctx context.Context, log Log) (uint64, error) {
	if k, ok := log.(Knower); ok {
		return k.Known(), nil
	}
	_, last, err := log.Bounds(ctx)
	return last + 1, err
}

// Skipper is a Log of which a further read costs as much as reading over some entries.
type Skipper interface {
	// ReadOver is how many entries that are not wanted between two that are it is
	// cheaper to read than to begin another read.
	ReadOver() int
}

// ReadOver is a Skipper's, and 0 for any other log.
func ReadOver(log Log) int {
	if s, ok := log.(Skipper); ok {
		return s.ReadOver()
	}
	return 0
}

// Joiner is a Log that may know of two places that nothing lies between.
type Joiner interface {
	// Joined reports whether it is known, of a read from from that began with first,
	// that nothing was dropped in between.
	Joined(from, first uint64) bool
}

// Joined reports whether nothing lay between from and first, the first entry of a read
// from there, without asking the store. false: it may have.
func Joined(log Log, from, first uint64) bool {
	if first <= from {
		return true
	}
	j, ok := log.(Joiner)
	return ok && j.Joined(from, first)
}

// Spanner is a Log whose sequences have gaps that are no entries, so that the
// difference of two is no count.
type Spanner interface {
	// Span is about how many entries lie in [from, to), those the log has
	// dropped included.
	Span(from, to uint64) uint64
}

// Span is about how many entries of a log lie in [from, to), whether it still
// has them or not: what a reader missed that goes on at to.
func Span(log Log, from, to uint64) uint64 {
	if s, ok := log.(Spanner); ok {
		return s.Span(from, to)
	}
	return max(to, from) - from
}

// Sizer is a Log that knows what it takes of the bytes its configuration allows.
type Sizer interface {
	// Size returns the bytes the log takes in the store, one copy counted. Like
	// every read it is a hint.
	Size(ctx context.Context) (int64, error)
}
