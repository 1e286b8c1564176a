package scenario

import "testing"

// What was acknowledged and is not with every subscriber is lost, once for each.
func TestALossIsCountedForEachSubscriberItIsMissingAt(t *testing.T) {
	r := &failoverRun{
		// Sequences count from 1.
		devices: []*device{{done: []bool{false, true, true, false}}, {done: []bool{false, true}}},
		followers: []*follower{
			{seen: [][]bool{{false, true, true}, {false, true}}},
			{seen: [][]bool{{false, true}, nil}},
		},
	}
	if got := r.lost(r.followers); got != 2 {
		t.Errorf("%d values lost, want 2: the second of the first device and the only one of the second", got)
	}
	// One that is acknowledged later is lost as well, also at whom it reached never.
	r.devices[0].done[3] = true
	if got := r.lost(r.followers); got != 4 {
		t.Errorf("%d values lost, want 4", got)
	}
}

// A gap that has not ended counts as long as it has lasted.
func TestTheLongestGapIncludesOneThatNeverEnded(t *testing.T) {
	w := &wanderer{last: 100, gap: 30}
	if got := w.longest(500, true); got != 400 {
		t.Errorf("longest gap %d, want 400", got)
	}
	if got := w.longest(500, false); got != 30 {
		t.Errorf("longest gap of one who got everything %d, want 30", got)
	}
}

// Everyone is back when every device's first value after its return is acknowledged, and
// every follower has that one or a later one: what it missed it may never get.
func TestEveryoneIsBackWhenLaterValuesArrive(t *testing.T) {
	for _, c := range []struct {
		name  string
		proof uint32
		seen  []bool
		want  bool
	}{
		{"the device is not back", 0, []bool{false, true, true}, false},
		{"nothing arrived yet", 2, nil, false},
		{"only what was sent before", 2, []bool{false, true}, false},
		{"that very value", 2, []bool{false, true, true}, true},
		{"not that, but a later one", 2, []bool{false, true, false, true}, true},
	} {
		r := &failoverRun{devices: []*device{{proof: c.proof}}, followers: []*follower{{seen: [][]bool{c.seen}}}}
		if got := r.recovered(); got != c.want {
			t.Errorf("%s: back is %v, want %v", c.name, got, c.want)
		}
	}
}
