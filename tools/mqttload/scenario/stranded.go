package scenario

import (
	"fmt"
	"net/netip"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tools/mqttload/wire"
)

// stranded is a client of a Storm.
type stranded struct {
	run    *stormRun
	number int
	conn   *wire.Conn
	ready  bool
	again  int64 // when to try once more; 0: nothing to try
}

func (s *stranded) id() string { return fmt.Sprintf("storm-%d", s.number) }

func (s *stranded) dial(address netip.AddrPort) {
	c, err := s.run.loop.Dial(address, s)
	switch {
	case err == nil:
		s.conn = c
	case s.run.cutAt > 0:
		s.retry()
	default:
		s.run.fail(err)
	}
}

// back dials where the balancer would: half the number spreads clients otherwise than
// the number does.
func (s *stranded) back() {
	s.again = 0
	s.dial(s.run.target.other(s.number / 2))
}

func (s *stranded) Up(c *wire.Conn) {
	c.Queue(append(c.Buffer(), s.run.target.connect(s.id(), s.run.Persistent)...))
}

func (s *stranded) Packet(c *wire.Conn, h mqtt.Header, body []byte) {
	r := s.run
	switch h.Type {
	case mqtt.CONNACK:
		var ack mqtt.Connack
		if err := ack.Decode(r.target.version(), h, body); err != nil {
			r.fail(err)
			return
		}
		switch {
		case ack.Code != 0 && r.cutAt > 0:
			c.Close() // a broker that is busy says so; the client comes again
			s.retry()
		case ack.Code != 0:
			r.fail(fmt.Errorf("CONNECT of %s refused: %v", s.id(), ack.Code))
		case r.cutAt > 0 && r.Persistent && !ack.SessionPresent:
			r.fail(fmt.Errorf("session of %s was not kept", s.id()))
		case r.cutAt > 0:
			record(r.connects, r.loop.Now-r.cutAt)
			s.arrived()
		case r.Persistent:
			c.Queue(append(c.Buffer(), r.target.subscribe(r.target.filter(s.number), 1)...))
		default:
			s.arrived()
		}
	case mqtt.SUBACK:
		s.arrived()
	}
}

func (s *stranded) arrived() {
	s.ready = true
	s.run.ready++
}

func (s *stranded) retry() {
	s.run.retries++
	s.again = s.run.loop.Clock() + int64(reconnectGap)
}

func (s *stranded) Down(_ *wire.Conn, err error) {
	switch {
	case err == nil || s.run.leaving: // this side closed it
	case s.run.cutAt > 0 && !s.ready:
		s.retry()
	default:
		s.run.fail(fmt.Errorf("connection of %s ended: %w", s.id(), err))
	}
}

func (r *stormRun) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}
