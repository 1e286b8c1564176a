package pebble

import (
	"encoding/binary"
	"log/slog"
	"time"

	crdb "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Options of a store. The zero value keeps everything for ever.
type Options struct {
	// MaxAge is how old a value's timestamp may be: older rows are not returned
	// from that moment, and removed when their whole segment is older (at most an
	// hour later for values that came in time; see doc.go). 0 keeps every age.
	MaxAge time.Duration
	// MaxBytes is how much disk the rows may take; beyond it the oldest segments are
	// removed. 0 is no limit. See doc.go for what comes on top of it.
	MaxBytes int64
	// FS is the file system, nil for the operating system's. Tests put faults here.
	FS vfs.FS
	// Logger takes what an operator can act on; nil means slog.Default.
	Logger *slog.Logger
}

// Sizes of the store; doc.go has the reasons.
const (
	// memtableBytes is what one flush writes. A small one is searched within the
	// processor's caches: 8 to 16 MiB take the least time per value.
	memtableBytes = 16 << 20
	// memtables may be full before appends stall.
	memtables  = 6
	cacheBytes = 64 << 20
	// segmentBytes is the size a segment is meant to have: a few flushes, so that
	// what overlaps in level 0 stays shallow and is seldom merged at all.
	segmentBytes  = 64 << 20
	segmentsOfMax = 16 // at least this many segments in MaxBytes
	minSegment    = 1 << 20
	// l0Compact is Pebble's threshold, twice the number of overlapping flushes that
	// starts a compaction; at l0Stop of them appends stall.
	l0Compact      = 24
	l0Stop         = 60
	tableFileBytes = 32 << 20
	// blockBytes is small: a page over many topics reads one block of each.
	blockBytes = 4 << 10
)

// storeOptions tunes Pebble for rows that arrive roughly in the order of time and
// are removed in whole segments.
func storeOptions(fs vfs.FS, lock *crdb.Lock, cache *crdb.Cache, events *crdb.EventListener, logger crdb.Logger) *crdb.Options {
	o := &crdb.Options{
		FS: fs, Lock: lock, Cache: cache, EventListener: events, Logger: logger,
		FormatMajorVersion:          crdb.FormatValueSeparation,
		MemTableSize:                memtableBytes,
		MemTableStopWritesThreshold: memtables,
		L0CompactionThreshold:       l0Compact,
		L0CompactionFileThreshold:   1000,
		L0StopWritesThreshold:       l0Stop,
		LBaseMaxBytes:               1 << 30,
		MaxOpenFiles:                1000,
		CompactionConcurrencyRange:  func() (int, int) { return 1, 2 },
		FlushDelayDeleteRange:       time.Second,
		BytesPerSync:                1 << 20,
	}
	o.Experimental.SpanPolicyFunc = splitTables
	for i := range o.TargetFileSizes {
		o.TargetFileSizes[i] = tableFileBytes
	}
	o.ApplyCompressionSettings(func() crdb.DBCompressionSettings { return crdb.DBCompressionFastest })
	for i := range o.Levels {
		// A look-up of a timed value that is not stored must not read a block.
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		o.Levels[i].BlockSize = blockBytes
	}
	return o
}

// splitTables ends every table at the end of a segment and keeps rows apart from
// the rest. So flushes of different segments do not overlap, are not merged, and a
// segment's removal removes whole files.
func splitTables(start []byte) (policy crdb.SpanPolicy, end []byte, err error) {
	if start[0] < spaceRow {
		return policy, []byte{spaceRow}, nil
	}
	if len(start) < keyTopic {
		return policy, nil, nil
	}
	_, end = segmentSpan(binary.BigEndian.Uint32(start[1:]))
	return policy, end, nil
}
