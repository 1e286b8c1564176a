package simulation

import (
	"strings"
	"time"
)

// heals is how long after a fault its consequences may last: links are made again, what
// was held is sent, an index catches up.
const heals = 10 * time.Second

// within reports whether a fault, or its aftermath, overlaps a time.
func (w *world) within(f fault, from, to time.Time) bool {
	begun := w.trace.began.Add(f.at)
	return begun.Before(to) && begun.Add(f.long+heals).After(from)
}

// ofGuests reports whether a fault is nothing that is done to replicas.
func (f fault) ofGuests() bool { return strings.HasSuffix(f.kind, "guest") }

// apart reports whether two replicas may have been without a link within a time: by a
// fault of the mesh between them, of either's process, or of its right to serve, or
// because one has only just begun to serve.
func (w *world) apart(a, b *node, from, to time.Time) bool {
	if a == b {
		return false
	}
	for _, f := range w.faults {
		if !w.within(f, from, to) {
			continue
		}
		one, other := w.nodes[f.a], w.nodes[f.b]
		if strings.HasSuffix(f.kind, "mesh") && (one == a && other == b || one == b && other == a) {
			return true
		}
		if f.kind == "freeze" && (one == a || one == b) {
			return true
		}
	}
	from = from.Add(-heals) // links are made when both serve
	return a.endedBetween(from, to) || b.endedBetween(from, to) || a.joinedBetween(from, to) || b.joinedBetween(from, to)
}

// anyApart is apart for any of some replicas and any of others.
func (w *world) anyApart(some, others []*node, from, to time.Time) bool {
	for _, a := range some {
		for _, b := range others {
			if w.apart(a, b, from, to) {
				return true
			}
		}
	}
	return false
}

// disturbed reports whether anything was done to a replica within a time.
func (w *world) disturbed(n *node, from, to time.Time) bool {
	for _, f := range w.faults {
		if !w.within(f, from, to) || f.ofGuests() {
			continue
		}
		if f.kind == "storm" || w.nodes[f.a] == n || strings.HasSuffix(f.kind, "mesh") && w.nodes[f.b] == n {
			return true
		}
	}
	return n.endedBetween(from, to)
}

// unheard reports whether a replica may not have heard of a claim, or its devices not of
// it, within a time: neither the mesh alone nor the store alone keeps it from that.
func (w *world) unheard(n *node, from, to time.Time) bool {
	for _, f := range w.faults {
		if w.within(f, from, to) && w.nodes[f.a] == n && !f.ofGuests() && !strings.HasSuffix(f.kind, "mesh") && !strings.HasSuffix(f.kind, "historian") && f.kind != "move devices" && f.kind != "storm" {
			return true
		}
	}
	return n.endedBetween(from, to)
}

// stalled reports whether the way of a replica to its devices was during a stay.
func (w *world) stalled(s *stay) bool {
	for _, f := range w.faults {
		if (f.kind == "stall devices" || f.kind == "freeze") && w.nodes[f.a] == s.node && w.within(f, s.from, s.to) {
			return true
		}
	}
	return false
}
