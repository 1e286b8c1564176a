package memory

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// openJournal locks dir, loads what is in it, oldest write first, and leaves the
// journal ready to append to a file of its own.
func openJournal(fs vfs.FS, dir string, load func(bucket string, r *record)) (*journal, error) {
	if err := makeDir(fs, dir); err != nil {
		return nil, err
	}
	lock, err := fs.Lock(fs.PathJoin(dir, "lock"))
	if err != nil {
		if errors.Is(err, syscall.EAGAIN) || strings.Contains(err.Error(), "lock held") {
			return nil, fmt.Errorf("another broker runs on this data directory, which one may at a time: %w", err)
		}
		return nil, fmt.Errorf("lock it, which one process may at a time: %w", err)
	}
	j := &journal{fs: fs, dir: dir, lock: lock, next: 1, enough: minJournal}
	if err := j.recover(load); err != nil {
		lock.Close()
		return nil, err
	}
	return j, nil
}

// makeDir makes dir and what leads to it, and syncs the folders it made anything
// in, without which a crash would take the directory away.
func makeDir(fs vfs.FS, dir string) error {
	var parents []string
	for d := fs.PathDir(fs.PathJoin(dir, "x")); ; {
		if _, err := fs.Stat(d); err == nil {
			break
		}
		parent := fs.PathDir(d)
		if parent == d {
			break
		}
		parents = append(parents, parent)
		d = parent
	}
	if err := fs.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, parent := range parents {
		if err := syncDir(fs, parent); err != nil {
			return err
		}
	}
	return nil
}

func (j *journal) recover(load func(bucket string, r *record)) error {
	snapshots, journals, err := j.files()
	if err != nil {
		return err
	}
	if n := len(snapshots); n > 0 {
		number := snapshots[n-1]
		if err := j.loadSnapshot(number, load); err != nil {
			return err
		}
		j.next = number + 1
	}
	for i, first := range journals {
		end := ^uint64(0) // of the frames that count
		if i+1 < len(journals) {
			end = journals[i+1]
		}
		if end <= j.next && i+1 < len(journals) {
			continue // in the snapshot
		}
		if first > j.next {
			return fmt.Errorf("%s is missing: frames from %d on are needed, the next file begins with %d", j.path(journalPrefix, j.next), j.next, first)
		}
		if err := j.loadJournal(first, end, load); err != nil {
			return err
		}
	}
	return nil
}

// files lists the directory, ordered, and removes snapshots that were not
// finished.
func (j *journal) files() (snapshots, journals []uint64, err error) {
	names, err := j.fs.List(j.dir)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		if number, ok := numbered(name, snapshotPrefix); ok {
			snapshots = append(snapshots, number)
		} else if number, ok := numbered(name, journalPrefix); ok {
			journals = append(journals, number)
		} else if name == snapshotDraft {
			if err := j.fs.Remove(j.fs.PathJoin(j.dir, name)); err != nil {
				return nil, nil, err
			}
		}
	}
	slices.Sort(snapshots)
	slices.Sort(journals)
	return snapshots, journals, nil
}

// loadJournal loads the frames from j.next on and below end.
func (j *journal) loadJournal(first, end uint64, load func(bucket string, r *record)) error {
	name := j.path(journalPrefix, first)
	seed, data, err := j.read(name)
	if err != nil {
		return err
	}
	for offset := 0; offset < len(data); {
		body, size, err := nextFrame(data[offset:], seed)
		if err != nil {
			if sound := soundFrameAfter(data[offset:], seed); sound > 0 {
				return fmt.Errorf("%s: %w at offset %d with a sound frame after it at %d: the file was damaged after it was written; restore %s from a backup, or move the file away and lose what it holds from there on", name, err, offset, offset+sound, j.dir)
			}
			return nil // torn by the crash: nobody was told that it landed
		}
		number, count, rest, err := frameNumber(body)
		if err != nil {
			return fmt.Errorf("%s: offset %d: %w", name, offset, err)
		}
		offset += size
		if number >= end {
			return nil // void: the next file begins with this number
		}
		if number < j.next {
			continue // in the snapshot
		}
		if number > j.next {
			return fmt.Errorf("%s: frame %d follows frame %d", name, number, j.next-1)
		}
		if err := decodeRecords(rest, count, load); err != nil {
			return fmt.Errorf("%s: frame %d: %w", name, number, err)
		}
		j.next = number + 1
		j.bytes += int64(size)
	}
	return nil
}

// soundFrameAfter returns where, after a damaged frame at 0, a sound one begins,
// or 0.
func soundFrameAfter(data []byte, seed uint32) int {
	for at := 1; ; at++ {
		i := bytes.Index(data[at:], []byte(frameMagic))
		if i < 0 {
			return 0
		}
		at += i
		if _, _, err := nextFrame(data[at:], seed); err == nil {
			return at
		}
	}
}

// loadSnapshot loads a snapshot, which is whole or damaged: it got its name when
// it was synced.
func (j *journal) loadSnapshot(number uint64, load func(bucket string, r *record)) error {
	name := j.path(snapshotPrefix, number)
	seed, data, err := j.read(name)
	if err != nil {
		return err
	}
	for last := false; !last; {
		body, size, err := nextFrame(data, seed)
		if err != nil {
			return fmt.Errorf("%s: %w; restore %s from a backup", name, err, j.dir)
		}
		data = data[size:]
		stated, count, rest, err := frameNumber(body)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if stated != number {
			return fmt.Errorf("%s: %w: a frame of snapshot %d", name, errFrame, stated)
		}
		if err := decodeRecords(rest, count, load); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		last = count == 0 // an empty frame ends it
	}
	return nil
}

// read returns a file's seed and frames.
func (j *journal) read(name string) (seed uint32, frames []byte, err error) {
	file, err := j.fs.Open(name)
	if err != nil {
		return 0, nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(file)
	if err != nil {
		return 0, nil, &os.PathError{Op: "read", Path: name, Err: err}
	}
	seed, frames, err = parseFile(data)
	if err != nil {
		return 0, nil, fmt.Errorf("%s: %w; restore %s from a backup", name, err, j.dir)
	}
	return seed, frames, nil
}
