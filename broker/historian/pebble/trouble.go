package pebble

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	crdb "github.com/cockroachdb/pebble/v2"

	"maestrohub.io/uns/broker/historian"
)

// errClosed is the cause after Close.
var errClosed = errors.New("the historian is closed")

// trouble is why the store takes no writes.
type trouble struct {
	cause error
	// said is what callers get: ErrUnavailable, what it means, and the cause.
	said error
}

// newTrouble puts a cause into words for the person who has to remove it.
func newTrouble(dir string, cause error) *trouble {
	if errors.Is(cause, errClosed) {
		return &trouble{cause, fmt.Errorf("%w: %w", historian.ErrUnavailable, cause)}
	}
	return &trouble{cause, fmt.Errorf("%w: %s: %w", historian.ErrUnavailable, words(dir, cause), cause)}
}

func words(dir string, cause error) string {
	switch {
	case errors.Is(cause, errLowSpace), errors.Is(cause, syscall.ENOSPC), errors.Is(cause, syscall.EDQUOT):
		return fmt.Sprintf("the disk of %s is full; free space on it or lower the historian's retention", dir)
	case errors.Is(cause, syscall.EROFS), errors.Is(cause, fs.ErrPermission), errors.Is(cause, crdb.ErrReadOnly):
		return fmt.Sprintf("%s cannot be written; make the file system writable for the broker", dir)
	case damaged(cause):
		return fmt.Sprintf("the history in %s is damaged; restore it from a backup or move it away to start an empty one", dir)
	case errors.Is(cause, fs.ErrNotExist):
		return fmt.Sprintf("files of the history in %s are missing; restore it from a backup or move it away to start an empty one", dir)
	case errors.Is(cause, syscall.EIO):
		return fmt.Sprintf("the disk of %s reports an input/output error; check the disk", dir)
	default:
		return fmt.Sprintf("the history in %s cannot be written", dir)
	}
}

// damaged reports whether the cause is in what the files hold, so that the store
// is trusted again only after it was read in full.
func damaged(cause error) bool {
	return crdb.IsCorruptionError(cause) || errors.Is(cause, errDamagedRow) || errors.Is(cause, errDamagedStore)
}

// errDamagedStore is wrapped by the error of an entry, other than a row, that does
// not decode.
var errDamagedStore = errors.New("damaged entry")
