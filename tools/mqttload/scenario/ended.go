package scenario

import (
	"context"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tools/mqttload/wire"
)

// leaver ends a persistent session: it takes it over with a clean start and leaves.
type leaver struct {
	target *Target
	id     string
	gone   bool
	err    error
}

// endSessions ends the sessions of subscribers that are still connected, so that the
// next run does not find a broker with more of them.
func endSessions(ctx context.Context, t *Target, loop *wire.Loop, sessions []*subscriber) error {
	var leavers []*leaver
	for i, s := range sessions {
		l := &leaver{target: t, id: s.id}
		if _, err := loop.Dial(t.other(i), l); err != nil {
			return err
		}
		leavers = append(leavers, l)
	}
	return await(ctx, loop, connectTimeout, "the sessions to end", func() error {
		for _, l := range leavers {
			if l.err != nil {
				return l.err
			}
		}
		return nil
	}, func() bool {
		for _, l := range leavers {
			if !l.gone {
				return false
			}
		}
		return true
	})
}

func (l *leaver) Up(c *wire.Conn) { c.Queue(append(c.Buffer(), l.target.connect(l.id, false)...)) }

func (l *leaver) Packet(c *wire.Conn, h mqtt.Header, _ []byte) {
	if h.Type == mqtt.CONNACK {
		l.gone = true
		c.Queue(append(c.Buffer(), l.target.disconnect()...))
		c.Finish()
	}
}

func (l *leaver) Down(_ *wire.Conn, err error) {
	if !l.gone {
		l.err = err
	}
}
