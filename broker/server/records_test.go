package server

import (
	"testing"
	"time"
)

func TestAWriteIsPutOffOnlyWhileOthersFollowClosely(t *testing.T) {
	const ms = time.Millisecond
	var p pace
	if got := p.next(0); got != 0 {
		t.Errorf("nothing asked for yet: put off by %v", got)
	}
	p.asked(100 * ms)
	if got := p.next(101 * ms); got != 0 {
		t.Errorf("asked for once after a long time: put off by %v", got)
	}
	p.asked(104 * ms)
	p.asked(104*ms + 100*time.Microsecond) // the same burst
	for at, want := range map[time.Duration]time.Duration{105 * ms: 5 * ms, 109 * ms: ms, 110 * ms: 0, 200 * ms: 0} {
		if got := p.next(at); got != want {
			t.Errorf("asked for every 4 ms, last at 104 ms; at %v put off by %v, want %v", at, got, want)
		}
	}
	p.asked(300 * ms)
	if got := p.next(301 * ms); got != 0 {
		t.Errorf("asked for after a pause: put off by %v", got)
	}
}
