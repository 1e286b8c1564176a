package memory

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"maestrohub.io/uns/broker/state"
)

const (
	journalPrefix  = "journal-"
	snapshotPrefix = "snapshot-"
	// writeCategory names the journal's writes to the file system's statistics.
	writeCategory vfs.DiskWriteCategory = "state-journal"
)

// journal is the files of the durable buckets. Used by the committer alone; a
// snapshot is written beside it, see snapshot.go.
type journal struct {
	fs   vfs.FS
	dir  string
	lock io.Closer

	file  vfs.File // nil: the next frame begins a new file
	seed  uint32   // of file's checksums
	next  uint64   // the next frame's number
	bytes int64    // written since the last snapshot
	// enough bytes are worth looking whether a snapshot would be much shorter.
	enough int64
	frame  []byte // reused
}

// append writes one frame and syncs it. ErrUnknown: it may be on the disk, and
// is void once a further frame is written. ErrUnavailable: it is not there.
func (j *journal) append(count int, each func(yield func(bucket string, r *record))) error {
	if j.file == nil {
		if err := j.begin(); err != nil {
			return fmt.Errorf("%w: %w", state.ErrUnavailable, err)
		}
	}
	j.frame = appendFrame(j.frame[:0], j.seed, j.next, count, each)
	if cap(j.frame) > 4<<20 {
		defer func() { j.frame = nil }()
	}
	_, err := j.file.Write(j.frame)
	if err == nil {
		err = j.file.SyncData()
	}
	if err != nil {
		j.file.Close()
		j.file = nil
		return fmt.Errorf("%w: write journal in %s: %w", state.ErrUnknown, j.dir, err)
	}
	j.next++
	j.bytes += int64(len(j.frame))
	return nil
}

// begin makes the journal whose first frame will be next. A journal of that
// number is one that took no frame.
func (j *journal) begin() error {
	name := j.path(journalPrefix, j.next)
	file, seed, err := j.create(name)
	if err != nil {
		return fmt.Errorf("begin %s: %w", name, err)
	}
	if err := j.syncDir(); err != nil {
		file.Close()
		return fmt.Errorf("begin %s: %w", name, err)
	}
	j.file, j.seed = file, seed
	return nil
}

// create makes a file with its head, synced.
func (j *journal) create(name string) (file vfs.File, seed uint32, err error) {
	var random [4]byte
	rand.Read(random[:])
	seed = binary.BigEndian.Uint32(random[:])
	if file, err = j.fs.Create(name, writeCategory); err != nil {
		return nil, 0, err
	}
	if _, err = file.Write(appendFileHeader(nil, seed)); err == nil {
		err = file.Sync()
	}
	if err != nil {
		file.Close()
		return nil, 0, err
	}
	return file, seed, nil
}

// roll ends the present journal, so that every frame before next is in a
// finished one. All of it is synced, so an error of closing means nothing.
func (j *journal) roll() {
	if j.file != nil {
		j.file.Close()
		j.file = nil
	}
}

func (j *journal) syncDir() error { return syncDir(j.fs, j.dir) }

// syncDir makes the names in a folder durable.
func syncDir(fs vfs.FS, name string) error {
	dir, err := fs.OpenDir(name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func (j *journal) path(prefix string, number uint64) string {
	return j.fs.PathJoin(j.dir, fmt.Sprintf("%s%020d", prefix, number))
}

// numbered returns the number of a journal's or snapshot's file name.
func numbered(name, prefix string) (uint64, bool) {
	digits, ok := strings.CutPrefix(name, prefix)
	if !ok || len(digits) != 20 {
		return 0, false
	}
	var number uint64
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return 0, false
		}
		number = number*10 + uint64(digits[i]-'0')
	}
	return number, true
}

func (j *journal) close() error {
	var err error
	if j.file != nil {
		err = j.file.Close()
	}
	return errors.Join(err, j.lock.Close())
}
