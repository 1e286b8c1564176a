package state

import (
	"context"
	"time"
)

// Record is one key's value as it stood at a revision.
type Record struct {
	Key      string
	Value    []byte    // shared: not to be changed
	Revision uint64    // grows with every write of the bucket; never 0
	Time     time.Time // when the store wrote it, by the store's clock
}

// Bucket is a set of records. A write returns the record's new revision, or 0
// with an error: ErrConflict, ErrUnknown (it may land), or any other error, for
// which nothing was written.
type Bucket interface {
	// Get reads one record. ErrNotFound if there is none or it is deleted; the
	// record returned with it then has the deletion's revision, 0 if none is known, at
	// which Update brings it back in one write where Create has to find it out.
	Get(ctx context.Context, key string) (Record, error)
	// Put writes without a condition.
	Put(ctx context.Context, key string, value []byte) (uint64, error)
	// Create writes if there is no such record, or only a deleted one. One that may land
	// yet (ErrUnknown) is refused by a deletion made since.
	Create(ctx context.Context, key string, value []byte) (uint64, error)
	// Update writes if the record's revision is still the given one. The
	// revision of a deletion counts: Update then brings the record back.
	Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error)
	// Delete writes a tombstone if the record's revision is still the given
	// one. The tombstone's revision is returned; it refuses late writes for
	// TombstoneAge.
	Delete(ctx context.Context, key string, revision uint64) (uint64, error)
	// Apply makes several writes at the cost of about one. Each is decided on
	// its own, in order; a result belongs to the write of the same index. No
	// two may have the same key.
	Apply(ctx context.Context, writes []Write) []Result
	// List reads the records whose key begins with prefix, ordered by key.
	List(ctx context.Context, prefix string) ([]Record, error)
	// Watch follows the records whose key begins with prefix until ctx is done
	// or the watch is stopped.
	Watch(ctx context.Context, prefix string) (Watch, error)
}

// Op says what a Write does, as the Bucket method of the same name.
type Op uint8

// The four writes.
const (
	OpPut Op = iota
	OpCreate
	OpUpdate
	OpDelete
)

// String returns the operation's name.
func (o Op) String() string {
	switch o {
	case OpPut:
		return "put"
	case OpCreate:
		return "create"
	case OpUpdate:
		return "update"
	case OpDelete:
		return "delete"
	default:
		return "invalid operation"
	}
}

// Write is one write of Apply.
type Write struct {
	Op       Op
	Key      string
	Value    []byte // not for OpDelete
	Revision uint64 // for OpUpdate and OpDelete
}

// Result is what became of a Write.
type Result struct {
	Revision uint64 // the new revision; 0 with an error
	Err      error
}

// Watch gives the records of a bucket and then their changes.
//
// A consumer keeps what it was told by key. At Ready after a Lost it drops what
// was not repeated since: those records were deleted meanwhile.
type Watch interface {
	// Updates is closed when the watch has ended. A consumer that does not
	// keep up costs a Lost, never a silent gap.
	Updates() <-chan Update
	// Stop ends the watch. Stopping twice is allowed.
	Stop()
	// Mark asks the store how far the bucket is, and has the watch say so, with an
	// Update of at least the returned Marked, once it has given everything up to there.
	// Every write that was confirmed before the call is within. A mark of zero is
	// reached at once, without an Update.
	Mark(ctx context.Context) (uint64, error)
}

// Update is one thing a watch says. Exactly one of these holds: Ready, Lost, Marked is
// not zero, or Record.Key is set.
type Update struct {
	Record
	// Deleted: the record was deleted at this revision; Value is nil. Not
	// given for records that were already deleted when the watch began, and
	// not for those that expired.
	Deleted bool
	// Ready: all records as of the watch's beginning (or of the last Lost)
	// have been given; changes follow, with growing revisions.
	Ready bool
	// Lost: changes may be missing. All current records follow again, then
	// Ready.
	Lost bool
	// Marked: everything up to this revision has been given (Watch.Mark).
	Marked uint64
}
