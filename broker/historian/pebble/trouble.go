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
	// said is what callers get: a historian.Outage.
	said error
}

// newTrouble puts a cause into words for the person who has to remove it.
func newTrouble(dir string, cause error) *trouble {
	if errors.Is(cause, errClosed) {
		return &trouble{cause, fmt.Errorf("%w: %w", historian.ErrUnavailable, cause)}
	}
	return &trouble{cause, &historian.Outage{Words: words(cause), Cause: fmt.Errorf("%s: %w", dir, cause)}}
}

// words are for anybody: where the history is, the log says.
func words(cause error) string {
	switch {
	case errors.Is(cause, errLowSpace), errors.Is(cause, syscall.ENOSPC), errors.Is(cause, syscall.EDQUOT):
		return "the disk of the history is full; free space on it or lower the historian's retention"
	case errors.Is(cause, syscall.EROFS), errors.Is(cause, fs.ErrPermission), errors.Is(cause, crdb.ErrReadOnly):
		return "the disk of the history cannot be written; make the file system writable for the broker"
	case damaged(cause):
		return "the history is damaged; restore it from a backup or move it away to start an empty one"
	case errors.Is(cause, fs.ErrNotExist):
		return "files of the history are missing; restore it from a backup or move it away to start an empty one"
	case errors.Is(cause, syscall.EIO):
		return "the disk of the history reports an input/output error; check the disk"
	default:
		return "the history cannot be written"
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
