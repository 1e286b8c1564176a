package memory

import (
	"slices"
	"time"
)

const (
	// snapshotDraft is a snapshot that is being written.
	snapshotDraft = "draft-snapshot"
	// minJournal is what the journals may hold before they are worth a
	// snapshot.
	minJournal = 8 << 20
	// snapshotFrame is about how many bytes of records one frame takes.
	snapshotFrame = 1 << 20
)

// snapshotResult is what became of a snapshot.
type snapshotResult struct {
	number uint64
	err    error
}

// located is a record and its bucket's name.
type located struct {
	bucket string
	record *record
}

// maybeSnapshot begins a snapshot when the journals hold more than twice what
// the records need. The committer's; the writing is done beside it.
func (s *Store) maybeSnapshot() {
	j := s.journal
	if s.snapshot != nil || j.bytes < j.enough {
		return
	}
	var records []located
	var size int64
	for _, b := range s.durableBuckets() {
		for _, r := range b.records {
			records = append(records, located{b.name, r})
			size += int64(len(r.key)+len(r.value)) + 32
		}
		// The bucket's newest revision may be of a record no longer there.
		records = append(records, located{b.name, &record{key: revisionKey, revision: b.revision, time: time.Now().UnixNano(), deleted: true}})
	}
	j.enough = max(minJournal, 2*size)
	if j.bytes < j.enough {
		return
	}
	number := j.next - 1
	j.roll()
	j.bytes = 0
	done := make(chan snapshotResult, 1)
	s.snapshot = done
	go func() { done <- snapshotResult{number, j.writeSnapshot(number, records)} }()
}

// writeSnapshot writes the records aside, synced, and gives the file its name.
func (j *journal) writeSnapshot(number uint64, records []located) error {
	draft := j.fs.PathJoin(j.dir, snapshotDraft)
	file, seed, err := j.create(draft)
	if err != nil {
		return err
	}
	defer file.Close()
	// Oldest first, as install expects tombstones.
	slices.SortFunc(records, func(x, y located) int { return int(min(1, max(-1, x.record.time-y.record.time))) })
	var frame []byte
	for len(records) > 0 {
		n, size := 0, 0
		for n < len(records) && size < snapshotFrame {
			size += len(records[n].record.key) + len(records[n].record.value)
			n++
		}
		part := records[:n]
		records = records[n:]
		frame = appendFrame(frame[:0], seed, number, n, func(yield func(string, *record)) {
			for _, l := range part {
				yield(l.bucket, l.record)
			}
		})
		if _, err := file.Write(frame); err != nil {
			return err
		}
	}
	end := appendFrame(frame[:0], seed, number, 0, func(func(string, *record)) {})
	if _, err := file.Write(end); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	if err := j.fs.Rename(draft, j.path(snapshotPrefix, number)); err != nil {
		return err
	}
	return j.syncDir()
}

// replaced removes what a finished snapshot made superfluous. One that failed is
// tried again when the journals have grown as much once more; they hold
// everything meanwhile.
func (j *journal) replaced(done snapshotResult) {
	if done.err != nil {
		return
	}
	snapshots, journals, err := j.files()
	if err != nil {
		return // they are removed after the next one
	}
	for _, number := range snapshots {
		if number < done.number {
			j.fs.Remove(j.path(snapshotPrefix, number))
		}
	}
	for _, first := range journals {
		if first <= done.number { // it ended when the snapshot began
			j.fs.Remove(j.path(journalPrefix, first))
		}
	}
}

// revisionKey is the tombstone that carries a bucket's newest revision through a
// snapshot. No record has it: keys hold no NUL.
const revisionKey = "\x00revision"

func (s *Store) durableBuckets() []*bucket {
	s.mu.Lock()
	defer s.mu.Unlock()
	var durable []*bucket
	for _, b := range s.buckets {
		if b.durable {
			durable = append(durable, b)
		}
	}
	return durable
}
