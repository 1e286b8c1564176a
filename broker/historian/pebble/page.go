package pebble

import (
	"container/heap"
	"slices"

	"maestrohub.io/uns/broker/historian"
)

// page gathers the first rows of a query, whatever order they are offered in. It
// holds at most limit rows and historian.PageBytes, so reading a page takes a
// bounded amount of memory however many topics it is made of.
type page struct {
	newest bool
	limit  int
	bytes  int
	rows   []placed // a heap, the row that would go first on top
	// full says that a row was left out; every row at or beyond barrier is.
	full    bool
	barrier place
}

type placed struct {
	place
	row  historian.Row
	size int
}

// before reports whether p comes before q in the order of the page.
func (g *page) before(p, q *place) bool {
	if g.newest {
		return p.compare(q) > 0
	}
	return p.compare(q) < 0
}

// wants reports whether a row at p would be kept.
func (g *page) wants(p *place) bool {
	if g.full && !g.before(p, &g.barrier) {
		return false
	}
	if len(g.rows) == g.limit && !g.before(p, &g.rows[0].place) {
		g.full, g.barrier = true, *p
		return false
	}
	return true
}

// add keeps a row that is wanted, its body copied, and lets go of what is then too
// much.
func (g *page) add(p place, row historian.Row) {
	row.Body = slices.Clone(row.Body)
	size := len(row.Body) + len(row.Publisher) + rowKeySize
	heap.Push(g, placed{p, row, size})
	g.bytes += size
	for len(g.rows) > g.limit || g.bytes > historian.PageBytes && len(g.rows) > 1 {
		out := heap.Pop(g).(placed)
		g.bytes -= out.size
		g.full, g.barrier = true, out.place
	}
}

// result returns the rows in order and the cursor of the page after them.
func (g *page) result() historian.Page {
	slices.SortFunc(g.rows, func(a, b placed) int {
		if g.newest {
			return b.compare(&a.place)
		}
		return a.compare(&b.place)
	})
	result := historian.Page{Rows: make([]historian.Row, len(g.rows))}
	for i := range g.rows {
		result.Rows[i] = g.rows[i].row
	}
	if g.full {
		result.Next = g.rows[len(g.rows)-1].cursor(g.newest)
	}
	return result
}

// heap.Interface: the last row of the page on top.

func (g *page) Len() int           { return len(g.rows) }
func (g *page) Less(i, j int) bool { return g.before(&g.rows[j].place, &g.rows[i].place) }
func (g *page) Swap(i, j int)      { g.rows[i], g.rows[j] = g.rows[j], g.rows[i] }
func (g *page) Push(x any)         { g.rows = append(g.rows, x.(placed)) }

func (g *page) Pop() any {
	last := len(g.rows) - 1
	x := g.rows[last]
	g.rows[last] = placed{}
	g.rows = g.rows[:last]
	return x
}
