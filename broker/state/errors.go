package state

import "errors"

var (
	// ErrConflict: the record is not at the revision the write was conditional
	// on. Nothing was written.
	ErrConflict = errors.New("another write came first")
	// ErrNotFound: a read found no such record. It may be a stale answer.
	ErrNotFound = errors.New("no such record")
	// ErrUnknown: no answer came in time; the write may have landed, may land
	// later, or never.
	ErrUnknown = errors.New("outcome of the write unknown")
	// ErrUnavailable: the store does not answer or does not take writes.
	// Nothing was written.
	ErrUnavailable = errors.New("shared state unavailable")
	// ErrQuota: the store has no room for a further log or entry. What exists
	// is untouched; nothing was written.
	ErrQuota = errors.New("no room in the shared state")
	// ErrClosed: the store was closed. It is an ErrUnavailable.
	ErrClosed error = closedError{}
)

type closedError struct{}

func (closedError) Error() string        { return "shared state closed" }
func (closedError) Is(target error) bool { return target == ErrUnavailable }
