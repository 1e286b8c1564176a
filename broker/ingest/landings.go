package ingest

// landings knows which values of a topic have landed in the session log while an
// earlier one may still come: found wanted late, it then stands there behind a
// later value of its topic, which is counted. While nothing earlier is without a
// place in the log, which is the rule, nothing is kept.
type landings struct {
	last  map[string]uint64 // topic to the latest place in the lane
	prune int
}

const (
	firstPrune = 256
	// nothing is the oldest place if no entry may still come.
	nothing = ^uint64(0)
)

// note takes in a batch that landed, in lane order, and returns how many of it
// stand behind a later value of their topic. oldest is the first place in the lane
// whose entry may still come.
func (g *landings) note(batch []*entry, oldest uint64) (reordered int) {
	if len(g.last) > 0 {
		for _, e := range batch {
			if e.log == landed && e.seq < g.last[e.v.Topic] {
				reordered++
			}
		}
	}
	if oldest == nothing {
		clear(g.last)
		return reordered
	}
	if g.last == nil {
		g.last, g.prune = make(map[string]uint64), firstPrune
	}
	for _, e := range batch {
		if e.log == landed && e.seq > oldest {
			g.last[e.v.Topic] = max(g.last[e.v.Topic], e.seq)
		}
	}
	if len(g.last) > g.prune {
		for topic, seq := range g.last {
			if seq < oldest {
				delete(g.last, topic)
			}
		}
		g.prune = max(firstPrune, 2*len(g.last))
	}
	return reordered
}

// oldest returns the first place in the lane whose entry may still go to the log.
func (s *step4) oldest() uint64 {
	for _, e := range s.pending {
		if e.refusal == 0 && (e.log == waiting || e.log == unneeded && !e.out) {
			return e.seq
		}
	}
	return nothing
}
