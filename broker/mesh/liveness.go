package mesh

import "time"

// timing is how long a link takes for what.
type timing struct {
	ping    time.Duration // between two pings
	silence time.Duration // without a byte: the link is lost; without an acknowledgment: not linked
	mend    time.Duration // a lost link may take to come back before its peer is not linked
	greet   time.Duration // from a connection to an established link
	retry   time.Duration // the longest pause between two attempts
	refused time.Duration // pause after a refusal that time alone does not cure
	tick    time.Duration
}

var normalTiming = timing{
	ping:    time.Second,
	silence: 3 * time.Second,
	mend:    800 * time.Millisecond,
	greet:   3 * time.Second,
	retry:   time.Second,
	refused: 5 * time.Second,
	tick:    100 * time.Millisecond,
}

type linkState byte

const (
	linkDown linkState = iota
	// linkMending: lost a moment ago, the next attempt will tell.
	linkMending
	linkUp
)

// liveness says whether a pair is linked. Times are since any fixed moment.
type liveness struct {
	timing  *timing
	state   linkState
	lagging bool

	heard  time.Duration // when the last byte came
	pinged time.Duration
	until  time.Duration // mending ends
}

// linked reports whether outcomes wait for this peer.
func (l *liveness) linked() bool { return l.state != linkDown && !l.lagging }

func (l *liveness) established(now time.Duration) {
	l.state, l.heard, l.pinged = linkUp, now, now
}

// lost takes in that the link has ended. If it is final, the other end is known not to come back at once.
func (l *liveness) lost(now time.Duration, final bool) {
	if final || l.state != linkUp || l.timing.mend <= 0 {
		l.state = linkDown
		return
	}
	l.state, l.until = linkMending, now+l.timing.mend
}

// failed takes in that an attempt to link came to nothing.
func (l *liveness) failed() {
	if l.state == linkMending {
		l.state = linkDown
	}
}

// tick takes in the time and since when the oldest frame waits for its acknowledgment (if waiting).
func (l *liveness) tick(now, oldest time.Duration, waiting bool) (ping, silent bool) {
	switch {
	case !waiting:
		l.lagging = false
	case now-oldest >= l.timing.silence:
		l.lagging = true
	case now-oldest < l.timing.silence/3:
		l.lagging = false
	}
	switch l.state {
	case linkMending:
		if now >= l.until {
			l.state = linkDown
		}
	case linkUp:
		if now-l.heard >= l.timing.silence {
			return false, true
		}
		if now-l.pinged >= l.timing.ping {
			l.pinged = now
			return true, false
		}
	}
	return false, false
}
