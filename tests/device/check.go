package device

import "fmt"

// Record is what a subscriber received on a name, held against what its publisher, which
// has ended, was told.
type Record struct {
	// Acknowledged is how many values the publisher was told are in, Arrived how many
	// different ones came.
	Acknowledged, Arrived int
	// Missing are acknowledged values that did not come.
	Missing []int
	// Strange are values that came and were never sent.
	Strange []int
	// Unordered are values whose first appearance came after that of a later one.
	Unordered []int
	// Again counts appearances beyond the first. Doubled are those of them that QoS 2 at
	// both sides forbids; Excused counts those it allows: a publisher that had to send
	// again without a PUBREC, because the replica died between storing and recording, may
	// double that value.
	Again, Excused int
	Doubled        []int
}

// Compare makes the Record of a subscriber and a publisher. For a clean session Missing
// lists what came while it was not there as well: the caller knows when it was.
func Compare(s *Subscriber, name string, p *Publisher) (r Record) {
	count, acked := p.Sent(), p.Acked()
	r.Acknowledged = len(acked)
	seen := make([]bool, count+1)
	highest := 0
	for _, a := range s.Arrivals(name) {
		n := a.Number
		if n < 1 || n > count {
			r.Strange = append(r.Strange, n)
			continue
		}
		switch {
		case seen[n]:
			r.Again++
			if s.QoS != 2 || p.QoS != 2 {
				break
			}
			p.mu.Lock()
			again := p.repeated[n]
			p.mu.Unlock()
			if again {
				r.Excused++
			} else {
				r.Doubled = append(r.Doubled, n)
			}
		case n < highest:
			r.Unordered = append(r.Unordered, n)
		}
		if !seen[n] {
			r.Arrived++
		}
		seen[n] = true
		highest = max(highest, n)
	}
	for n := 1; n <= count; n++ {
		if _, told := acked[n]; told && !seen[n] {
			r.Missing = append(r.Missing, n)
		}
	}
	return r
}

// Check is Compare in words: everything acknowledged came, first appearances in order,
// and once where both sides are QoS 2. What a clean session missed is no problem. It
// returns what is wrong and how many values came more than once, and of those how many
// are excused.
func Check(s *Subscriber, name string, p *Publisher) (problems []string, doubled, excused int) {
	r := Compare(s, name, p)
	wrong := func(list []int, format string, a ...any) {
		if len(list) > 0 {
			problems = append(problems, fmt.Sprintf("%s from %s: %s: %v", s.ID, p.ID, fmt.Sprintf(format, a...), list[:min(len(list), 20)]))
		}
	}
	wrong(r.Strange, "%d values came that were never sent", len(r.Strange))
	wrong(r.Doubled, "%d values came again though both sides are QoS 2", len(r.Doubled))
	wrong(r.Unordered, "%d values came for the first time after later ones", len(r.Unordered))
	if !s.Clean {
		wrong(r.Missing, "%d of %d acknowledged values did not come", len(r.Missing), r.Acknowledged)
	}
	return problems, r.Again, r.Excused
}
