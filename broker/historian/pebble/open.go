package pebble

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	crdb "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"maestrohub.io/uns/broker/historian"
)

// Historian is the embedded historian.
type Historian struct {
	dir  string
	opts Options
	fs   vfs.FS
	log  *slog.Logger

	// lock is the directory's, held from the first successful open to Close. The
	// supervisor's, as is next, the least Position the next generation may give.
	lock *crdb.Lock
	next uint64

	mu      sync.Mutex
	current *generation // nil while the store is closed
	trouble *trouble    // nil while writes are taken
	closed  bool

	attempts atomic.Int64 // to open the store again that failed

	events  chan struct{} // capacity 1: a generation failed, or Close was called
	stopped chan struct{} // closed when the supervisor has ended
	closing error         // of the last generation, valid once stopped is closed
}

var _ historian.Historian = (*Historian)(nil)

// Open opens the store in dir, made if it does not exist. It fails if the options
// are wrong, another process has the store open or a later release wrote it. If
// the disk does not allow it (full, read-only, damaged) it succeeds: Append, Read
// and Check say so until the cause is gone.
func Open(dir string, o Options) (*Historian, error) {
	if dir == "" {
		return nil, errors.New("open history: a directory is needed")
	}
	if o.MaxAge < 0 {
		return nil, fmt.Errorf("open history: MaxAge (%s) must not be negative", o.MaxAge)
	}
	if o.MaxBytes < 0 {
		return nil, fmt.Errorf("open history: MaxBytes (%d) must not be negative", o.MaxBytes)
	}
	h := &Historian{
		dir: dir, opts: o, fs: o.FS, log: o.Logger,
		events: make(chan struct{}, 1), stopped: make(chan struct{}),
	}
	if h.fs == nil {
		h.fs = vfs.Default
	}
	if h.log == nil {
		h.log = slog.Default()
	}
	if err := h.reopen(); err != nil {
		if errors.Is(err, errFormat) || errors.Is(err, errLocked) {
			h.unlock()
			return nil, err
		}
		h.setTrouble(newTrouble(dir, err))
		h.log.Error("embedded broker: history takes no values", "reason", historian.Details(h.trouble.said))
	}
	go h.supervise()
	return h, nil
}

// segmentTarget returns the size at which a segment is cut off.
func (h *Historian) segmentTarget() int64 {
	if h.opts.MaxBytes == 0 {
		return segmentBytes
	}
	return max(minSegment, min(segmentBytes, h.opts.MaxBytes/segmentsOfMax))
}

// writable returns the generation that takes writes, or why none does.
func (h *Historian) writable() (*generation, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.trouble != nil {
		return nil, h.trouble.said
	}
	return h.current, nil
}

// Close implements historian.Historian.
func (h *Historian) Close() error {
	h.mu.Lock()
	h.closed = true
	h.trouble = newTrouble(h.dir, errClosed)
	h.mu.Unlock()
	h.notify()
	<-h.stopped
	return h.closing
}
