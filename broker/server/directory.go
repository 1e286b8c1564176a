package server

import "sync"

// directory tells the topic of each recent entry of a session log in four bytes,
// so that a session that is behind finds the entries it wants without reading and
// decoding the others: with many sessions of few topics each, nearly all.
//
// Topics are numbered; a number is free again when no entry in the directory has
// it. It covers what the feed has seen since it started and the log still has.
type directory struct {
	mu    sync.RWMutex
	first uint64   // sequence of topics[0]
	topic []uint32 // by sequence; 0: an entry without a topic, or no entry
	ids   map[string]uint32
	names []string // by number
	uses  []uint32 // entries with the number
	free  []uint32
	// moved counts numbers given a second meaning: what was remembered of them is
	// void.
	moved uint64
}

func newDirectory(first uint64) *directory {
	return &directory{first: first, ids: make(map[string]uint32), names: []string{""}, uses: []uint32{0}}
}

// add notes the topic of an entry; sequences come in order, perhaps with gaps.
func (d *directory) add(sequence uint64, name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.first+uint64(len(d.topic)) < sequence {
		d.topic = append(d.topic, 0)
	}
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
	d.topic = append(d.topic, id)
}

// forget drops the entries before first, which the log has dropped.
func (d *directory) forget(first uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if first <= d.first {
		return
	}
	n := min(first-d.first, uint64(len(d.topic)))
	for _, id := range d.topic[:n] {
		if id == 0 {
			continue
		}
		if d.uses[id]--; d.uses[id] == 0 {
			delete(d.ids, d.names[id])
			d.names[id] = ""
			d.free = append(d.free, id)
		}
	}
	d.topic = append([]uint32(nil), d.topic[n:]...)
	d.first = first
}

// topicVerdicts remembers which topics of a directory a session wants.
type topicVerdicts struct {
	moved   uint64
	verdict []int8 // by number; 0: not asked yet
}

// scanAtOnce bounds the entries one scan looks at, for the lock it is under.
const scanAtOnce = 1 << 14

// scan appends to dst up to most sequences at or after from whose topic wanted
// says yes to, and returns the sequence before which it has looked. covered is
// false if the directory does not reach back to from.
func (d *directory) scan(from uint64, dst []uint64, most int, v *topicVerdicts, wanted func(name string) bool) (found []uint64, to uint64, covered bool) {
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
	end := d.first + uint64(len(d.topic))
	for to = from; to < end && to-from < scanAtOnce && len(dst) < most; to++ {
		id := d.topic[to-d.first]
		if id == 0 {
			continue
		}
		if v.verdict[id] == 0 {
			v.verdict[id] = -1
			if wanted(d.names[id]) {
				v.verdict[id] = 1
			}
		}
		if v.verdict[id] > 0 {
			dst = append(dst, to)
		}
	}
	return dst, to, true
}
