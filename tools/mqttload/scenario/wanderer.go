package scenario

import (
	"fmt"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tools/mqttload/wire"
)

// wanderer is a client of a Failover that comes back at whichever address takes it: what
// devices and followers have in common.
type wanderer struct {
	run     *failoverRun
	id      string
	at      int // number of the address it uses
	handler wire.Handler
	conn    *wire.Conn

	ready bool  // may do what it is there for
	since int64 // of the dial
	again int64 // when to try once more; 0: nothing to try

	last, gap int64 // when it last got what it is there for; the longest it went without
}

func (w *wanderer) dial() {
	addresses := w.run.target.addresses()
	w.ready, w.again, w.since = false, 0, w.run.loop.Clock()
	c, err := w.run.loop.Dial(addresses[w.at%len(addresses)], w.handler)
	switch {
	case err == nil:
		w.conn = c
	case w.run.failedAt > 0: // nobody listens there
		w.retry()
	default:
		w.run.fail(err)
	}
}

// retry gives the connection up for the next address.
func (w *wanderer) retry() {
	w.run.retries++
	w.ready = false
	w.at++
	w.again = w.run.loop.Clock() + int64(reconnectGap)
}

// look does what is due.
func (w *wanderer) look(now int64) {
	switch {
	case w.again > 0 && now >= w.again:
		w.dial()
	case w.again == 0 && !w.ready && now-w.since > int64(giveUpAfter):
		w.giveUp()
	}
}

func (w *wanderer) giveUp() {
	w.conn.Close()
	w.retry()
}

// connack says whether the client is in, and with its session.
func (w *wanderer) connack(h mqtt.Header, body []byte) (in, present bool) {
	var ack mqtt.Connack
	if err := ack.Decode(w.run.target.version(), h, body); err != nil {
		w.run.fail(err)
		return false, false
	}
	if ack.Code != 0 {
		if w.run.failedAt == 0 {
			w.run.fail(fmt.Errorf("CONNECT of %s refused: %v", w.id, ack.Code))
		} else {
			w.giveUp()
		}
		return false, false
	}
	return true, ack.SessionPresent
}

// got notes that the client got what it is there for.
func (w *wanderer) got() {
	now := w.run.loop.Now
	if w.run.failedAt > 0 && now > w.run.failedAt {
		w.gap = max(w.gap, now-w.last)
	}
	w.last, w.run.moved = now, now
}

// longest is the longest gap, one that has not ended included if unended.
func (w *wanderer) longest(now int64, unended bool) int64 {
	if unended {
		return max(w.gap, now-w.last)
	}
	return w.gap
}

// Up sends the CONNECT.
func (w *wanderer) Up(c *wire.Conn) {
	c.Queue(append(c.Buffer(), w.run.target.connect(w.id, true)...))
}

// Down comes back, unless this side closed the connection.
func (w *wanderer) Down(_ *wire.Conn, err error) {
	switch {
	case err == nil || w.run.leaving:
	case w.run.failedAt > 0:
		w.retry()
	default:
		w.run.fail(fmt.Errorf("connection of %s ended: %w", w.id, err))
	}
}

func (r *failoverRun) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}
