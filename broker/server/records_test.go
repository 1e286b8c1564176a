package server

import (
	"testing"
	"time"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/broker/session"
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

// One exchange at a time, or as many as are out, are not held up: the last PUBREC of those
// that are out has the write leave at once, however closely they follow one another.
func TestAPubrelThatNothingFollowsIsNotPutOff(t *testing.T) {
	const ms = time.Millisecond
	for out := range 4 {
		out++
		c := &connection{session: &session.Session{Window: session.Window{Limit: 100}}}
		var r recorder
		now := time.Second
		for round := range 20 {
			var sent []*session.Entry
			for range out {
				e := &session.Entry{QoS: 2, Source: session.FromLog}
				c.session.Window.Send(e)
				sent = append(sent, e)
			}
			for i, e := range sent {
				now += 2 * ms
				if _, answer, _ := c.session.Window.Pubrec(e.PacketID, mqtt.Success); !answer {
					t.Fatal("no PUBREL")
				}
				wait, last := c.putOff(&r, now), i == out-1
				if last && wait > 0 {
					t.Fatalf("%d out: the last PUBREL is put off by %v", out, wait)
				}
				if !last && round > 1 && wait == 0 {
					t.Fatalf("%d out: PUBREL %d is not put off though others follow every 2 ms", out, i)
				}
			}
			for _, e := range sent {
				c.session.Window.Pubcomp(e.PacketID)
			}
		}
	}
}
