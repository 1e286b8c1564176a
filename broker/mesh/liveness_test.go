package mesh

import (
	"testing"
	"time"
)

// livenessEvent moves a liveness by a step of 400 ms or by something that happens.
type livenessEvent byte

const (
	evEstablished livenessEvent = iota
	evLost
	evLostForGood
	evFailed
	evHeard
	evTick        // nothing waits
	evTickWaiting // something waits since the beginning of a row of these
	livenessEvents
)

func TestEveryShortHistoryOfALink(t *testing.T) {
	const depth, stepTime = 7, 800 * time.Millisecond
	var walk func(depth int, l liveness, now, upHeard, lostAt, waitingSince time.Duration)
	walk = func(depth int, l liveness, now, upHeard, lostAt, waitingSince time.Duration) {
		if depth == 0 {
			return
		}
		for ev := range livenessEvents {
			l, now, upHeard, lostAt, waitingSince := l, now+stepTime, upHeard, lostAt, waitingSince
			silent, up := false, l.state == linkUp
			switch ev {
			case evEstablished:
				l.established(now)
				upHeard = now
				if l.state != linkUp {
					t.Fatal("an established link is not up")
				}
			case evLost:
				l.lost(now, false)
				if up {
					lostAt = now
				}
			case evLostForGood:
				l.lost(now, true)
				if l.linked() {
					t.Fatal("linked with a peer whose link is lost for good")
				}
			case evFailed:
				l.failed()
				if !up && l.linked() {
					t.Fatal("linked after an attempt that failed")
				}
			case evHeard:
				l.heard, upHeard = now, now
			case evTick:
				waitingSince = 0
				_, silent = l.tick(now, 0, false)
				if up && !l.linked() {
					t.Fatal("a link that waits for nothing is not linked")
				}
			case evTickWaiting:
				if waitingSince == 0 {
					waitingSince = now
				}
				_, silent = l.tick(now, waitingSince, true)
				if l.linked() && now-waitingSince >= l.timing.silence {
					t.Fatalf("linked while something waits for %v", now-waitingSince)
				}
			}
			if ticked := ev == evTick || ev == evTickWaiting; ticked {
				if want := up && now-upHeard >= l.timing.silence; silent != want {
					t.Fatalf("silent: %v after %v without a byte", silent, now-upHeard)
				}
				if l.state == linkMending && now-lostAt >= l.timing.mend {
					t.Fatalf("mending for %v", now-lostAt)
				}
			}
			walk(depth-1, l, now, upHeard, lostAt, waitingSince)
		}
	}
	walk(depth, liveness{timing: &normalTiming}, 0, 0, 0, 0)
}

func TestALaggingPeerIsLinkedAgainOnlyWhenItHasCaughtUp(t *testing.T) {
	l := liveness{timing: &normalTiming}
	l.established(0)
	for _, c := range []struct {
		now, oldest time.Duration
		linked      bool
	}{
		{2900, 0, true}, {3000, 0, false}, {4000, 2500, false}, {5000, 3900, false}, {5000, 4100, true}, {7000, 4100, true}, {7100, 4100, false},
	} {
		now := c.now * time.Millisecond
		l.heard = now
		l.tick(now, c.oldest*time.Millisecond, true)
		if l.linked() != c.linked {
			t.Errorf("at %v with the oldest from %v ms: linked %v", now, int(c.oldest), l.linked())
		}
	}
}

func TestAttemptsAreSpacedUpToTheLongestPause(t *testing.T) {
	want := []time.Duration{0, 50, 100, 200, 400, 800, 1000, 1000}
	for n, w := range want {
		if got := normalTiming.pause(n); got != w*time.Millisecond {
			t.Errorf("pause before attempt %d: %v, want %d ms", n, got, w)
		}
	}
	if got := normalTiming.pause(1 << 30); got != time.Second {
		t.Errorf("pause before a late attempt: %v", got)
	}
}
