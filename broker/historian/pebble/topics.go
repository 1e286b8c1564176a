package pebble

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"

	crdb "github.com/cockroachdb/pebble/v2"
)

// topicEntry is what the writer knows of a topic.
type topicEntry struct {
	id uint32
	// newest is at least every stored timestamp of the topic: a later one is not
	// stored yet and needs no look-up. Unknown until a look-up needs it.
	newest      int64
	newestKnown bool
	// segments the topic was last seen to have rows in: now and before.
	segments [2]uint32
	marked   [2]bool
}

type topicName struct{ workspace, topic string }

// topicCacheSize is the number of topics per half; both halves hold at most 2 × 131,072
// topics, about 50 MB with names of 60 bytes.
const topicCacheSize = 1 << 17

// topics gives topics their ids. It belongs to the writer.
type topics struct {
	// young and old are the halves of a cache: a topic found in old moves to young,
	// and a full young becomes old.
	young, old map[topicName]*topicEntry
	next       uint32
	key        []byte
}

func loadTopics(db *crdb.DB) (*topics, error) {
	next, err := meta(db, metaTopics)
	if err != nil {
		return nil, err
	}
	return &topics{young: make(map[topicName]*topicEntry), next: uint32(next)}, nil
}

// entry returns the entry of a topic, making its id if it has none.
func (t *topics) entry(db *crdb.DB, batch *crdb.Batch, workspace, topic string) (*topicEntry, error) {
	name := topicName{workspace, topic}
	if e := t.young[name]; e != nil {
		return e, nil
	}
	// The names are kept: without a copy they would keep the PUBLISH they lie in.
	name = topicName{strings.Clone(workspace), strings.Clone(topic)}
	if e := t.old[name]; e != nil {
		t.keep(name, e)
		return e, nil
	}
	t.key = appendName(t.key[:0], workspace, topic)
	e := &topicEntry{newest: math.MinInt64}
	data, closer, err := db.Get(t.key)
	switch {
	case err == nil:
		if len(data) != 4 {
			_ = closer.Close()
			return nil, fmt.Errorf("%w: topic %q with %d bytes, 4 expected", errDamagedStore, topic, len(data))
		}
		e.id = binary.BigEndian.Uint32(data)
		_ = closer.Close()
	case errors.Is(err, crdb.ErrNotFound):
		if t.next+1 == 0 {
			return nil, errors.New("all 4294967295 topic numbers are used up; move history to a new directory")
		}
		e.id, e.newestKnown = t.next, true
		t.next++
		if err := setMeta(batch, metaTopics, uint64(t.next)); err != nil {
			return nil, err
		}
		if err := batch.Set(t.key, binary.BigEndian.AppendUint32(nil, e.id), nil); err != nil {
			return nil, err
		}
	default:
		return nil, err
	}
	t.keep(name, e)
	return e, nil
}

func (t *topics) keep(name topicName, e *topicEntry) {
	if len(t.young) >= topicCacheSize {
		t.old, t.young = t.young, make(map[topicName]*topicEntry, topicCacheSize)
	}
	t.young[name] = e
}

func (t *topics) forget(name topicName) {
	delete(t.young, name)
	delete(t.old, name)
}

// mark records that the topic has rows in the segment.
func (e *topicEntry) mark(s *segment, batch *crdb.Batch) error {
	if e.marked[0] && e.segments[0] == s.id {
		return nil
	}
	e.segments[0], e.segments[1] = e.segments[1], e.segments[0]
	e.marked[0], e.marked[1] = e.marked[1], e.marked[0]
	if e.marked[0] && e.segments[0] == s.id {
		return nil
	}
	e.segments[0], e.marked[0] = s.id, true
	var key [presenceKeySize]byte
	return batch.Set(appendPresence(key[:0], e.id, s.start, s.id), nil, nil)
}

// learnNewest finds the newest timestamp stored of a topic.
func (e *topicEntry) learnNewest(db *crdb.DB) error {
	lower := binary.BigEndian.AppendUint32([]byte{spacePresence}, e.id)
	upper := binary.BigEndian.AppendUint32([]byte{spacePresence}, e.id+1)
	present, err := db.NewIter(&crdb.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return err
	}
	defer func() { _ = present.Close() }()
	for ok := present.Last(); ok; ok = present.Prev() {
		_, _, segment, err := parsePresence(present.Key())
		if err != nil {
			return err
		}
		newest, found, err := newestRow(db, segment, e.id)
		if err != nil {
			return err
		}
		if found {
			e.newest = max(e.newest, newest)
			break
		}
	}
	if err := present.Error(); err != nil {
		return err
	}
	e.newestKnown = true
	return nil
}

// newestRow returns the newest timestamp of a topic in a segment.
func newestRow(db *crdb.DB, segment, topic uint32) (newest int64, found bool, err error) {
	lower := appendRowPrefix(nil, segment, topic)
	iter, err := db.NewIter(&crdb.IterOptions{LowerBound: lower, UpperBound: prefixEnd(lower)})
	if err != nil {
		return 0, false, err
	}
	defer func() { _ = iter.Close() }()
	if !iter.Last() {
		return 0, false, iter.Error()
	}
	if len(iter.Key()) != rowKeySize {
		return 0, false, errDamagedRow
	}
	return plainTime(binary.BigEndian.Uint64(iter.Key()[keyTime:])), true, nil
}

// parsePresence reads a presence key.
func parsePresence(key []byte) (topic uint32, start int64, segment uint32, err error) {
	if len(key) != presenceKeySize {
		return 0, 0, 0, fmt.Errorf("%w: presence with a key of %d bytes", errDamagedStore, len(key))
	}
	return binary.BigEndian.Uint32(key[1:]), plainTime(binary.BigEndian.Uint64(key[5:])), binary.BigEndian.Uint32(key[13:]), nil
}

// prefixEnd returns the first key after all that begin with prefix.
func prefixEnd(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}
