package memory

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sort"
	"sync"
	"time"

	"maestrohub.io/uns/broker/state"
)

// log implements state.Log.
type log struct {
	maxBytes int64
	maxAge   time.Duration

	mu     sync.RWMutex
	closed bool
	first  uint64   // sequence of the oldest entry
	next   uint64   // sequence of the next one
	bytes  int64    // cost of the entries
	last   int64    // time of the newest, ns since 1970: times never go back
	chunks []*chunk // oldest first; only the newest is appended to
	// waiting are the tails that have read everything.
	waiting map[*tail]struct{}
	// expiry runs when the oldest chunk may be too old, so that a log nobody
	// uses any more gives its memory back.
	expiry *time.Timer
}

func newLog(maxBytes int64, maxAge time.Duration) *log {
	return &log{maxBytes: maxBytes, maxAge: maxAge, first: 1, next: 1, waiting: map[*tail]struct{}{}}
}

// Append implements state.Log.
func (l *log) Append(ctx context.Context, records [][]byte) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if len(records) == 0 || len(records) > state.MaxAppend {
		return 0, fmt.Errorf("append of %d records: a batch has 1 to %d", len(records), state.MaxAppend)
	}
	var size int64
	for i, r := range records {
		if len(r) > math.MaxInt32 || l.maxBytes > 0 && int64(len(r))+overhead > l.maxBytes {
			return 0, fmt.Errorf("append: %w: record %d has %d bytes, the log at most %d", state.ErrQuota, i, len(r), l.maxBytes)
		}
		size += int64(len(r)) + overhead
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return 0, state.ErrClosed
	}
	now := max(time.Now().UnixNano(), l.last)
	first := l.next
	for _, r := range records {
		l.chunkFor(len(r)).add(r, now)
		l.next++
	}
	l.bytes += size
	l.last = now
	l.evict(now)
	l.arm(now)
	for t := range l.waiting {
		delete(l.waiting, t)
		t.wake <- struct{}{}
	}
	return first, nil
}

// chunkFor returns the newest chunk, with room for a record of n bytes.
func (l *log) chunkFor(n int) *chunk {
	size := minChunk
	if len(l.chunks) > 0 {
		c := l.chunks[len(l.chunks)-1]
		if c.room() >= n {
			return c
		}
		size = min(2*cap(c.data), maxChunk)
	}
	if l.maxBytes > 0 {
		size = min(size, int(l.maxBytes/8))
	}
	c := newChunk(l.next, max(size, n, 512))
	l.chunks = append(l.chunks, c)
	return c
}

// evict drops the oldest entries beyond the bounds. mu is held.
func (l *log) evict(now int64) {
	for l.first < l.next {
		c := l.chunks[0]
		over := l.maxBytes > 0 && l.bytes > l.maxBytes
		if !over && !l.tooOld(c, l.first, now) {
			return
		}
		l.bytes -= c.cost(l.first)
		l.first++
		if l.first == c.next() {
			l.chunks[0] = nil
			l.chunks = l.chunks[1:]
		}
	}
}

func (l *log) tooOld(c *chunk, sequence uint64, now int64) bool {
	if l.maxAge <= 0 {
		return false
	}
	_, m := c.at(sequence)
	return now-m.time >= int64(l.maxAge)
}

// arm sees to it that evict runs when the oldest entry is too old, at most once
// a second. mu is held.
func (l *log) arm(now int64) {
	if l.maxAge <= 0 || l.first == l.next || l.expiry != nil || l.closed {
		return
	}
	_, m := l.chunks[0].at(l.first)
	after := max(l.maxAge-time.Duration(now-m.time), time.Second)
	l.expiry = time.AfterFunc(after, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.expiry = nil
		now := time.Now().UnixNano()
		l.evict(now)
		l.arm(now)
	})
}

// Read implements state.Log.
func (l *log) Read(ctx context.Context, from uint64, max int, dst []state.Entry) ([]state.Entry, error) {
	if err := ctx.Err(); err != nil {
		return dst, err
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return dst, state.ErrClosed
	}
	return l.read(from, max, dst), nil
}

// read appends entries to dst. mu is held for reading, so entries that are too
// old and not yet dropped are skipped.
func (l *log) read(from uint64, most int, dst []state.Entry) []state.Entry {
	from = max(from, l.firstAt(time.Now().UnixNano()))
	if from >= l.next || most <= 0 {
		return dst
	}
	i := sort.Search(len(l.chunks), func(i int) bool { return l.chunks[i].next() > from })
	n := int(min(uint64(most), l.next-from))
	dst = slices.Grow(dst, n)
	for ; n > 0; i++ {
		c := l.chunks[i]
		for ; n > 0 && from < c.next(); from++ {
			data, m := c.at(from)
			dst = append(dst, state.Entry{Sequence: from, Time: m.at(), Data: data})
			n--
		}
	}
	return dst
}

// firstAt returns the sequence of the oldest entry that is not too old.
func (l *log) firstAt(now int64) uint64 {
	first := l.first
	for _, c := range l.chunks {
		if first >= l.next || !l.tooOld(c, first, now) {
			return first
		}
		if l.tooOld(c, c.next()-1, now) {
			first = c.next()
			continue
		}
		skip := int(first - c.first)
		return first + uint64(sort.Search(len(c.marks)-skip, func(i int) bool {
			return !l.tooOld(c, c.first+uint64(skip+i), now)
		}))
	}
	return first
}

// Bounds implements state.Log.
func (l *log) Bounds(ctx context.Context) (first, last uint64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, 0, err
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return 0, 0, state.ErrClosed
	}
	return l.firstAt(time.Now().UnixNano()), l.next - 1, nil
}

// Size implements state.Sizer.
func (l *log) Size(ctx context.Context) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return 0, state.ErrClosed
	}
	return l.bytes, nil
}

// close ends the log and its tails.
func (l *log) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.expiry != nil {
		l.expiry.Stop()
	}
	for t := range l.waiting {
		delete(l.waiting, t)
		t.wake <- struct{}{}
	}
	l.chunks, l.first = nil, l.next
}
