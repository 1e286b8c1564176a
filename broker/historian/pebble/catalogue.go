package pebble

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	crdb "github.com/cockroachdb/pebble/v2"
)

// segment is a span of time whose rows lie together on the disk: they were
// written at about the same time and are removed at once.
type segment struct {
	id uint32
	// start is included, end is not; nanoseconds since the Unix epoch. Segments do
	// not overlap, and the segment of a stored timestamp never changes: a value
	// sent again is looked for where it was put.
	start, end int64
	// high is a bound on the timestamps stored so far: all are at most this.
	high int64
	// bytes appended since the store was opened.
	bytes int64
}

// Bounds of the width of a segment for values of about now. The shortest bounds
// the number of segments; the longest bounds what age-based retention keeps too long.
const (
	minSegmentWidth = 2 * time.Second
	maxSegmentWidth = time.Hour
	// outlierShare: a segment for a timestamp far from now is at most this part of
	// the distance wide, so that devices with clocks of any year make few segments.
	outlierShare = 16
	// freshSpan is how far from now a timestamp counts as about now.
	freshSpan = outlierShare * int64(maxSegmentWidth)
)

// catalogue knows every segment. It belongs to the writer, except for what
// segments() copies under the generation's lock.
type catalogue struct {
	byStart []*segment // sorted by start
	last    *segment   // the one used last
	next    uint32     // id of the next segment
	target  int64      // bytes after which a segment is cut off
	rate    rateMeter
	// changed counts segments added and removed.
	changed int
}

// segmentOf returns the segment of a timestamp that is about to take size bytes,
// made, widened or cut off as needed; the changes are added to batch.
func (c *catalogue) segmentOf(timestamp, size, now int64, batch *crdb.Batch) (*segment, error) {
	s := c.last
	if s == nil || timestamp < s.start || timestamp >= s.end {
		i := c.search(timestamp)
		if i < len(c.byStart) && c.byStart[i].start <= timestamp && timestamp < c.byStart[i].end {
			s = c.byStart[i]
		} else {
			var err error
			if s, err = c.add(timestamp, now, batch); err != nil {
				return nil, err
			}
		}
	}
	if s.bytes >= c.target && timestamp > s.high && s.high < s.end-1 {
		// Full: what comes after the rows stored so far goes to a segment of its own.
		end := s.end
		s.end = s.high + 1
		if err := c.store(s, batch); err != nil {
			return nil, err
		}
		var err error
		if s, err = c.addBounded(timestamp, now, s.end, end, batch); err != nil {
			return nil, err
		}
	}
	if timestamp > s.high {
		step := c.step(s)
		s.high = s.end - 1
		if timestamp < s.end-1-step {
			s.high = timestamp + step
		}
		if err := c.store(s, batch); err != nil {
			return nil, err
		}
	}
	s.bytes += size
	c.last = s
	return s, nil
}

// step returns how far ahead of a timestamp a segment's high is set: far, so that it
// is written seldom, but no further than a 16th of what fills the segment, since it
// can be cut off after high only.
func (c *catalogue) step(s *segment) int64 {
	step := int64(time.Second)
	if rate := c.rate.bytesPerSecond(); rate > 0 {
		step = max(step, int64(min(float64(c.target)/rate/16*float64(time.Second), float64(maxSegmentWidth))))
	}
	return min(step, max((s.end-s.start)/64, int64(time.Second)))
}

// search returns the index of the last segment that starts at or before timestamp,
// or len(byStart) if there is none.
func (c *catalogue) search(timestamp int64) int {
	i := sort.Search(len(c.byStart), func(i int) bool { return c.byStart[i].start > timestamp })
	if i == 0 {
		return len(c.byStart)
	}
	return i - 1
}

// add makes the segment of a timestamp that has none.
func (c *catalogue) add(timestamp, now int64, batch *crdb.Batch) (*segment, error) {
	floor, ceiling := int64(0), int64(maxTimestamp)+1
	after := sort.Search(len(c.byStart), func(i int) bool { return c.byStart[i].start > timestamp })
	if after > 0 {
		floor = c.byStart[after-1].end
	}
	if after < len(c.byStart) {
		ceiling = c.byStart[after].start
	}
	return c.addBounded(timestamp, now, floor, ceiling, batch)
}

func (c *catalogue) addBounded(timestamp, now, floor, ceiling int64, batch *crdb.Batch) (*segment, error) {
	width := c.width(timestamp, now)
	start := timestamp - timestamp%width
	end := start + width
	if end < start {
		end = ceiling
	}
	s := &segment{id: c.next, start: max(start, floor), end: min(end, ceiling)}
	s.high = s.start - 1
	if c.next+1 == 0 {
		return nil, errors.New("all 4294967295 segment numbers are used up; move history to a new directory")
	}
	c.next++
	if err := setMeta(batch, metaSegments, uint64(c.next)); err != nil {
		return nil, err
	}
	i := sort.Search(len(c.byStart), func(i int) bool { return c.byStart[i].start > s.start })
	c.byStart = slices.Insert(c.byStart, i, s)
	c.changed++
	return s, c.store(s, batch)
}

// width returns how much time a new segment spans: as much as the target holds at
// the rate values arrive at, more if the timestamp is far from now.
func (c *catalogue) width(timestamp, now int64) int64 {
	distance := max(timestamp-now, now-timestamp)
	if distance > freshSpan {
		return roundDown(distance / outlierShare)
	}
	width := int64(maxSegmentWidth)
	if rate := c.rate.bytesPerSecond(); rate > 0 {
		width = min(width, int64(float64(c.target)/rate*float64(time.Second)))
	}
	return roundDown(width)
}

// roundDown returns the greatest of a few widths (minSegmentWidth times a power of
// two) that is not above width (the least if none is), so that segments tend to meet.
func roundDown(width int64) int64 {
	w := int64(minSegmentWidth)
	for w <= width/2 {
		w *= 2
	}
	return w
}

// remove forgets a segment; the caller removes its rows.
func (c *catalogue) remove(s *segment) {
	if i := slices.Index(c.byStart, s); i >= 0 {
		c.byStart = slices.Delete(c.byStart, i, i+1)
		c.changed++
	}
	if c.last == s {
		c.last = nil
	}
}

// anyLive reports whether a segment the topic was seen in still exists.
func (c *catalogue) anyLive(e *topicEntry) bool {
	return slices.ContainsFunc(c.byStart, func(s *segment) bool {
		return e.marked[0] && e.segments[0] == s.id || e.marked[1] && e.segments[1] == s.id
	})
}

func segmentKey(id uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{spaceSegment}, id)
}

func (c *catalogue) store(s *segment, batch *crdb.Batch) error {
	var data [24]byte
	binary.BigEndian.PutUint64(data[0:], orderedTime(s.start))
	binary.BigEndian.PutUint64(data[8:], orderedTime(s.end))
	binary.BigEndian.PutUint64(data[16:], orderedTime(s.high))
	return batch.Set(segmentKey(s.id), data[:], nil)
}

// loadCatalogue reads all segments.
func loadCatalogue(db *crdb.DB, target int64) (*catalogue, error) {
	c := &catalogue{target: target}
	next, err := meta(db, metaSegments)
	if err != nil {
		return nil, err
	}
	c.next = uint32(next)
	iter, err := db.NewIter(&crdb.IterOptions{LowerBound: []byte{spaceSegment}, UpperBound: []byte{spaceSegment + 1}})
	if err != nil {
		return nil, err
	}
	defer func() { _ = iter.Close() }()
	for ok := iter.First(); ok; ok = iter.Next() {
		key, data := iter.Key(), iter.Value()
		if len(key) != 5 || len(data) != 24 {
			return nil, fmt.Errorf("%w: segment with a key of %d bytes and data of %d", errDamagedStore, len(key), len(data))
		}
		c.byStart = append(c.byStart, &segment{
			id:    binary.BigEndian.Uint32(key[1:]),
			start: plainTime(binary.BigEndian.Uint64(data[0:])),
			end:   plainTime(binary.BigEndian.Uint64(data[8:])),
			high:  plainTime(binary.BigEndian.Uint64(data[16:])),
		})
	}
	if err := iter.Error(); err != nil {
		return nil, err
	}
	slices.SortFunc(c.byStart, func(a, b *segment) int {
		if a.start < b.start {
			return -1
		}
		return 1
	})
	return c, nil
}

// rateMeter estimates the bytes arriving per second, smoothed over about 10 s.
type rateMeter struct {
	since int64 // start of the current second, nanoseconds
	bytes int64 // arrived since
	rate  float64
}

// add counts bytes that arrived at now.
func (r *rateMeter) add(bytes, now int64) {
	if r.since == 0 {
		r.since = now
	}
	r.bytes += bytes
	elapsed := now - r.since
	if elapsed < int64(time.Second) {
		return
	}
	seconds := float64(elapsed) / float64(time.Second)
	weight := min(seconds/10, 1)
	r.rate += (float64(r.bytes)/seconds - r.rate) * weight
	r.since, r.bytes = now, 0
}

func (r *rateMeter) bytesPerSecond() float64 { return r.rate }
