package device

import "fmt"

// Check holds what a subscriber received on a name against what its publisher,
// which has ended, was told: everything acknowledged, first appearances in order,
// and once where both sides are QoS 2. It returns what is wrong and how many
// values came more than once.
//
// One exception is documented: a publisher that had to send again without a
// PUBREC, because the replica died between storing and recording, may double that
// value; excused counts these.
func Check(s *Subscriber, name string, p *Publisher) (problems []string, doubled, excused int) {
	wrong := func(format string, a ...any) {
		problems = append(problems, fmt.Sprintf("%s from %s: ", s.ID, p.ID)+fmt.Sprintf(format, a...))
	}
	count, acked := p.Sent(), p.Acked()
	seen := make([]bool, count+1)
	highest := 0
	for at, a := range s.Arrivals(name) {
		n := a.Number
		if n < 1 || n > count {
			wrong("value %d came, which was never sent", n)
			continue
		}
		switch {
		case seen[n]:
			doubled++
			if s.QoS != 2 || p.QoS != 2 {
				break
			}
			p.mu.Lock()
			again := p.repeated[n]
			p.mu.Unlock()
			if again {
				excused++
			} else {
				wrong("value %d came again (place %d) though both sides are QoS 2", n, at)
			}
		case n < highest:
			wrong("value %d came for the first time (place %d) after %d had", n, at, highest)
		}
		seen[n] = true
		highest = max(highest, n)
	}
	var missing []int
	for n := 1; n <= count; n++ {
		if _, told := acked[n]; told && !seen[n] && !s.Clean {
			missing = append(missing, n)
		}
	}
	if len(missing) > 0 {
		wrong("%d of %d acknowledged values did not come: %v ...", len(missing), len(acked), missing[:min(len(missing), 20)])
	}
	return problems, doubled, excused
}
