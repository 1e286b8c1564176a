package ingest

import (
	"cmp"
	"slices"
)

// queue holds entries in order; pushing and taking from the front cost the same
// however many wait.
type queue struct {
	items []*entry
	first int
}

func (q *queue) len() int { return len(q.items) - q.first }

func (q *queue) push(e *entry) {
	if len(q.items) == cap(q.items) && q.first > len(q.items)/2 {
		n := copy(q.items, q.items[q.first:])
		clear(q.items[n:])
		q.items, q.first = q.items[:n], 0
	}
	q.items = append(q.items, e)
}

// take moves entries from the front to dst, as many as the bounds allow and at
// least one.
func (q *queue) take(dst []*entry, values, bytes int) []*entry {
	n := 0
	for _, e := range q.items[q.first:] {
		if n > 0 && (n >= values || bytes < e.size) {
			break
		}
		bytes -= e.size
		n++
	}
	front := q.items[q.first : q.first+n]
	dst = append(dst, front...)
	clear(front)
	q.first += n
	if q.first == len(q.items) {
		q.items, q.first = q.items[:0], 0
		if cap(q.items) > keptCapacity {
			q.items = nil
		}
	}
	return dst
}

// keptCapacity is the longest slice an idle lane keeps for its next values.
const keptCapacity = 1024

// dropFront removes the first n entries of a slice that is used over and over.
func dropFront(s []*entry, n int) []*entry {
	if n == 0 {
		return s
	}
	if n == len(s) {
		return reuse(s)
	}
	left := copy(s, s[n:])
	clear(s[left:])
	return s[:left]
}

// reuse empties a slice, keeping its memory unless it is large.
func reuse(s []*entry) []*entry {
	if cap(s) > keptCapacity {
		return nil
	}
	clear(s)
	return s[:0]
}

func dropRefused(s []*entry) []*entry {
	return slices.DeleteFunc(s, func(e *entry) bool { return e.refusal != 0 })
}

func sortBySeq(s []*entry) {
	slices.SortFunc(s, func(a, b *entry) int { return cmp.Compare(a.seq, b.seq) })
}
