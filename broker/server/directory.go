package server

import (
	"sort"
	"sync"
)

// directory tells the topic of each recent entry of a session log in 24 bytes,
// so that a session that is behind finds the entries it wants without reading and
// decoding the others: with many sessions of few topics each, nearly all.
//
// Topics are numbered; a number is free again when no entry in the directory has
// it. It covers what the feed has seen since it started and the log still has.
type directory struct {
	mu sync.RWMutex
	// first is the sequence from which the directory knows all there is.
	first   uint64
	entries []directoryEntry // in order; sequences may have gaps
	ids     map[string]uint32
	names   []string // by number
	uses    []uint32 // entries with the number
	free    []uint32
	// moved counts numbers given a second meaning: what was remembered of them is
	// void.
	moved uint64
}

type directoryEntry struct {
	sequence uint64
	at       int64 // the store's time, ns since 1970
	topic    uint32
}

func newDirectory(first uint64) *directory {
	return &directory{first: first, ids: make(map[string]uint32)}
}

// add notes the topic of an entry; sequences come in order.
func (d *directory) add(sequence uint64, name string, at int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	id, ok := d.ids[name]
	if !ok {
		if n := len(d.free); n > 0 {
			id, d.free = d.free[n-1], d.free[:n-1]
			d.names[id] = name
			d.moved++
		} else {
			id = uint32(len(d.names))
			d.names = append(d.names, name)
			d.uses = append(d.uses, 0)
		}
		d.ids[name] = id
	}
	d.uses[id]++
	d.entries = append(d.entries, directoryEntry{sequence, at, id})
}

// forget drops the entries before first, which the log has dropped.
func (d *directory) forget(first uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if first <= d.first {
		return
	}
	n := d.at(first)
	for _, e := range d.entries[:n] {
		if d.uses[e.topic]--; d.uses[e.topic] == 0 {
			delete(d.ids, d.names[e.topic])
			d.names[e.topic] = ""
			d.free = append(d.free, e.topic)
		}
	}
	d.entries = append([]directoryEntry(nil), d.entries[n:]...)
	d.first = first
}

// timeOf returns the store's time of an entry, 0 if it is not in the directory.
func (d *directory) timeOf(sequence uint64) int64 {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if i := d.at(sequence); i < len(d.entries) && d.entries[i].sequence == sequence {
		return d.entries[i].at
	}
	return 0
}

// before returns the last entry before a sequence; ok is false if the directory
// knows none.
func (d *directory) before(sequence uint64) (entry uint64, at int64, ok bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	i := d.at(sequence) - 1
	if i < 0 {
		return 0, 0, false
	}
	return d.entries[i].sequence, d.entries[i].at, true
}

// at returns the index of the first entry at or after a sequence.
func (d *directory) at(sequence uint64) int {
	return sort.Search(len(d.entries), func(i int) bool { return d.entries[i].sequence >= sequence })
}

// topicVerdicts remembers which topics of a directory a session wants.
type topicVerdicts struct {
	moved   uint64
	verdict []int8 // by number; 0: not asked yet
}

// scanAtOnce bounds the entries one scan looks at, for the lock it is under.
const scanAtOnce = 1 << 14

// stretch is a run of entries that follow one another in the log.
type stretch struct {
	first, last uint64
	entries     int
	skipped     int // entries between the stretch before and this one
}

// scan appends to dst the stretches of entries at or after from whose topic wanted
// says yes to, up to most entries, and returns the sequence before which it has
// looked at all. covered is false if the directory does not reach back to from.
func (d *directory) scan(from uint64, dst []stretch, most int, v *topicVerdicts, wanted func(name string) bool) (found []stretch, to uint64, covered bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if from < d.first {
		return dst, from, false
	}
	if v.moved != d.moved {
		v.moved, v.verdict = d.moved, v.verdict[:0]
	}
	if missing := len(d.names) - len(v.verdict); missing > 0 {
		v.verdict = append(v.verdict, make([]int8, missing)...)
	}
	to = from
	follows, skipped := false, 0 // the entry before is in the last stretch; else how many are between
	start := d.at(from)
	for i := start; i < len(d.entries) && i-start < scanAtOnce && most > 0; i++ {
		e := d.entries[i]
		to = e.sequence + 1
		if v.verdict[e.topic] == 0 {
			v.verdict[e.topic] = -1
			if wanted(d.names[e.topic]) {
				v.verdict[e.topic] = 1
			}
		}
		if v.verdict[e.topic] < 0 {
			follows = false
			skipped++
			continue
		}
		most--
		if follows {
			last := &dst[len(dst)-1]
			last.last, last.entries = e.sequence, last.entries+1
		} else {
			dst = append(dst, stretch{e.sequence, e.sequence, 1, skipped})
			follows, skipped = true, 0
		}
	}
	return dst, to, true
}
