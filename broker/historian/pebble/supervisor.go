package pebble

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	crdb "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"maestrohub.io/uns/broker/historian"
)

// How often the disk is looked at, and how long an attempt to recover waits after
// the one before: doubling, since each may read the whole store.
const (
	lookEvery    = 200 * time.Millisecond
	retryLongest = 30 * time.Second
)

var (
	errLowSpace = errors.New("too little space is left")
	errFormat   = errors.New("unreadable format")
	errLocked   = errors.New("in use by another process: another broker runs on this data directory")
)

// generationFailed is called by a failing generation, possibly under Pebble's locks.
func (h *Historian) generationFailed() { h.notify() }

func (h *Historian) notify() {
	select {
	case h.events <- struct{}{}:
	default:
	}
}

// supervise is the one goroutine that opens and closes generations. It ends after
// Close.
func (h *Historian) supervise() {
	defer close(h.stopped)
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	var retry backoff
	for {
		select {
		case <-h.events:
		case <-ticker.C:
		}
		h.mu.Lock()
		g, closed := h.current, h.closed
		h.mu.Unlock()
		switch {
		case closed:
			if g != nil {
				h.closing = g.close()
			}
			h.unlock()
			return
		case g == nil:
			if retry.due(time.Now()) {
				h.recover(&retry)
			}
		case g.isFailed():
			h.retire(g)
			retry = backoff{}
		default:
			h.lookAtSpace(g)
		}
	}
}

// retire closes a failed generation.
func (h *Historian) retire(g *generation) {
	cause := *g.cause.Load()
	t := newTrouble(h.dir, cause)
	h.setTrouble(t)
	h.log.Error("embedded broker: history takes no values", "reason", historian.Details(t.said))
	h.mu.Lock()
	h.current = nil
	h.mu.Unlock()
	// A generation whose disk hangs is closed once it answers: until then there is
	// nothing else to do, the next one would hang as well.
	if err := g.close(); err != nil {
		h.log.Debug("embedded broker: history closed after a failure", "reason", historian.Details(err))
	}
	h.next = g.positions.next
}

// recover opens the store again if the disk takes writes.
func (h *Historian) recover(retry *backoff) {
	err := h.probe()
	if err == nil {
		err = h.reopen()
	}
	if err == nil {
		h.log.Info("embedded broker: history takes values again")
		return
	}
	retry.failed(time.Now())
	h.attempts.Add(1)
	h.setTrouble(newTrouble(h.dir, err))
}

// reopen opens a generation and, after damage, trusts it only once all of it was
// read.
func (h *Historian) reopen() error {
	if err := h.fs.MkdirAll(h.dir, 0o755); err != nil {
		return fmt.Errorf("open history: %w", err)
	}
	if h.lock == nil {
		lock, err := crdb.LockDirectory(h.dir, h.fs)
		if err != nil {
			return lockError(h.dir, err)
		}
		h.lock = lock
	}
	g, err := openGeneration(h, h.next)
	if err != nil {
		return err
	}
	h.mu.Lock()
	was := h.trouble
	h.mu.Unlock()
	if was != nil && damaged(was.cause) {
		if err := g.verify(); err != nil {
			return errors.Join(fmt.Errorf("verify history: %w", err), g.closeDB())
		}
	}
	g.start()
	h.mu.Lock()
	h.current = g
	if !h.closed {
		h.trouble = nil
	}
	h.mu.Unlock()
	if g.isFailed() {
		h.notify()
	}
	return nil
}

// lockError tells a lock held by someone else from a disk that does not let it be
// made.
func lockError(dir string, err error) error {
	held := errors.Is(err, syscall.EAGAIN) || strings.Contains(err.Error(), "lock held")
	if held {
		return fmt.Errorf("open history in %s: %w: %w", dir, errLocked, err)
	}
	return fmt.Errorf("lock history: %w", err)
}

func (h *Historian) unlock() {
	if h.lock != nil {
		_ = h.lock.Close()
		h.lock = nil
	}
}

// setTrouble says why no writes are taken, unless Close has said so.
func (h *Historian) setTrouble(t *trouble) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.trouble = t
	}
}

// lookAtSpace refuses writes before the disk is full: a store that meets the end
// of the disk has to be opened again, and needs room to come back up.
func (h *Historian) lookAtSpace(g *generation) {
	err := h.space()
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed || g.isFailed():
	case err != nil && h.trouble == nil:
		h.trouble = newTrouble(h.dir, err)
		h.log.Error("embedded broker: history takes no values", "reason", historian.Details(h.trouble.said))
	case err == nil && h.trouble != nil:
		h.trouble = nil
		h.log.Info("embedded broker: history takes values again")
	}
}

// Room that must be left on the disk: enough to write the memtables out, less on a
// small disk.
const (
	spareBytes = 8 * memtableBytes
	spareShare = 16
)

// space returns an error if too little room is left.
func (h *Historian) space() error {
	usage, err := h.fs.GetDiskUsage(h.dir)
	if errors.Is(err, vfs.ErrUnsupported) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at the disk: %w", err)
	}
	spare := min(spareBytes, usage.TotalBytes/spareShare)
	if usage.AvailBytes < spare {
		return fmt.Errorf("%w: %d MiB free, %d MiB needed", errLowSpace, usage.AvailBytes>>20, (spare>>20)+1)
	}
	return nil
}

// probeBytes is the size of the test write.
const probeBytes = 64 << 10

// probe writes, syncs and removes a file.
func (h *Historian) probe() error {
	if err := h.fs.MkdirAll(h.dir, 0o755); err != nil {
		return fmt.Errorf("test the disk: %w", err)
	}
	if err := h.space(); err != nil {
		return err
	}
	name := h.fs.PathJoin(h.dir, "write-test")
	file, err := h.fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("test the disk: %w", err)
	}
	_, err = file.Write(make([]byte, probeBytes))
	err = errors.Join(err, file.Sync())
	err = errors.Join(err, file.Close(), h.fs.Remove(name))
	if err != nil {
		return fmt.Errorf("test the disk: %w", err)
	}
	return nil
}

// verify reads the whole store, so that every block's checksum is tested.
func (g *generation) verify() error {
	iter, err := g.db.NewIter(nil)
	if err != nil {
		return err
	}
	for ok := iter.First(); ok; ok = iter.Next() {
		if _, err := iter.ValueAndErr(); err != nil {
			return errors.Join(err, iter.Close())
		}
	}
	if err := errors.Join(iter.Error(), iter.Close()); err != nil {
		return err
	}
	if cause := g.cause.Load(); cause != nil {
		return *cause
	}
	return nil
}

// backoff is the wait between attempts to recover.
type backoff struct {
	next time.Time
	wait time.Duration
}

func (b *backoff) due(now time.Time) bool { return !now.Before(b.next) }

func (b *backoff) failed(now time.Time) {
	b.wait = min(max(2*b.wait, lookEvery), retryLongest)
	b.next = now.Add(b.wait)
}
