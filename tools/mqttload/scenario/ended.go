package scenario

import (
	"context"
	"time"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tools/mqttload/wire"
)

// leaver ends a persistent session: it takes it over with a clean start and leaves.
type leaver struct {
	target *Target
	number int
	id     string
	gone   bool
	again  int64 // when to try once more; 0: nothing to try
	loop   *wire.Loop
}

// endSessions ends the sessions of these client ids, connected or not, so that the next
// run does not find a broker with more of them.
func endSessions(ctx context.Context, t *Target, loop *wire.Loop, ids []string) error {
	var leavers []*leaver
	return await(ctx, loop, connectTimeout+time.Duration(len(ids))*perSession, "the sessions to end", func() error { return nil }, func() bool {
		gone, now := 0, loop.Clock()
		for _, l := range leavers {
			if l.gone {
				gone++
			} else if l.again > 0 && now >= l.again {
				l.dial()
			}
		}
		for len(leavers) < len(ids) && len(leavers)-gone < opening {
			l := &leaver{target: t, loop: loop, number: len(leavers), id: ids[len(leavers)]}
			l.dial()
			leavers = append(leavers, l)
		}
		return gone == len(ids)
	})
}

func idsOf(sessions []*subscriber) (ids []string) {
	for _, s := range sessions {
		ids = append(ids, s.id)
	}
	return ids
}

func (l *leaver) dial() {
	l.again = 0
	if _, err := l.loop.Dial(l.target.other(l.number), l); err != nil {
		l.retry()
	}
}

// retry comes again: a broker that is busy with the client's last connection may turn
// this one away.
func (l *leaver) retry() { l.again = l.loop.Clock() + int64(reconnectGap) }

func (l *leaver) Up(c *wire.Conn) { c.Queue(append(c.Buffer(), l.target.connect(l.id, false)...)) }

func (l *leaver) Packet(c *wire.Conn, h mqtt.Header, body []byte) {
	if h.Type != mqtt.CONNACK {
		return
	}
	var ack mqtt.Connack
	if err := ack.Decode(l.target.version(), h, body); err != nil || ack.Code != 0 {
		c.Close()
		l.retry()
		return
	}
	l.gone = true
	c.Queue(append(c.Buffer(), l.target.disconnect()...))
	c.Finish()
}

func (l *leaver) Down(_ *wire.Conn, err error) {
	if !l.gone && err != nil {
		l.retry()
	}
}
