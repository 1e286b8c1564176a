package scenario

import (
	"encoding/binary"
	"fmt"

	"github.com/HdrHistogram/hdrhistogram-go"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tools/mqttload/wire"
)

// subscriber receives stamped values on one connection, acknowledges them and
// checks their order.
type subscriber struct {
	target     *Target
	loop       *wire.Loop
	conn       *wire.Conn
	id         string
	persistent bool
	filter     string // "" = comes back to the subscriptions its session has
	qos        byte

	last      []uint32                    // by publisher, the highest sequence received
	absent    map[absence]struct{}        // below those, not received: missing, or overtaken
	delivered []int64                     // by publisher
	latencies *hdrhistogram.Histogram     // nil: not counted
	received  func(s stamp, number int64) // called for each value; may be nil

	ready                               bool
	total, missing, repeated, unordered int64
	err                                 error
}

// absence is a value that did not come when it was its turn.
type absence struct {
	publisher uint16
	sequence  uint32
}

func (s *subscriber) Up(c *wire.Conn) {
	c.Queue(append(c.Buffer(), s.target.connect(s.id, s.persistent)...))
}

func (s *subscriber) Packet(c *wire.Conn, h mqtt.Header, body []byte) {
	switch h.Type {
	case mqtt.CONNACK:
		var ack mqtt.Connack
		if err := ack.Decode(s.target.version(), h, body); err != nil {
			s.fail(err)
		} else if ack.Code != 0 {
			s.fail(fmt.Errorf("CONNECT of %s refused: %v", s.id, ack.Code))
		} else if s.filter == "" {
			s.ready = true
			if !ack.SessionPresent {
				s.fail(fmt.Errorf("session of %s was not kept", s.id))
			}
		} else {
			c.Queue(append(c.Buffer(), s.target.subscribe(s.filter, s.qos)...))
		}
	case mqtt.SUBACK:
		var ack mqtt.Suback
		if err := ack.Decode(s.target.version(), h, body); err != nil {
			s.fail(err)
		} else if len(ack.Codes) != 1 || ack.Codes[0] >= 0x80 {
			s.fail(fmt.Errorf("SUBSCRIBE of %s to %s refused: %v", s.id, s.filter, ack.Codes))
		}
		s.ready = true
	case mqtt.PUBLISH:
		s.publish(c, h, body)
	case mqtt.PUBREL:
		if len(body) >= 2 {
			c.Queue(mqtt.AppendAck(c.Buffer(), s.target.version(), mqtt.PUBCOMP, binary.BigEndian.Uint16(body), 0))
		}
	case mqtt.DISCONNECT:
		var d mqtt.Disconnect
		if err := d.Decode(s.target.version(), h, body); err == nil {
			s.fail(fmt.Errorf("%s was disconnected: %v %s", s.id, d.Code, d.ReasonString))
		}
	}
}

// publish reads of a PUBLISH what it needs and no more: a full decode of every
// delivery would cost the broker's other core more than the broker's own work.
func (s *subscriber) publish(c *wire.Conn, h mqtt.Header, body []byte) {
	payload, id, ok := publishParts(s.target.version(), h, body)
	if !ok {
		s.fail(fmt.Errorf("%s received a PUBLISH that is cut short", s.id))
		return
	}
	switch h.Flags >> 1 & 3 {
	case 1:
		c.Queue(mqtt.AppendAck(c.Buffer(), s.target.version(), mqtt.PUBACK, id, 0))
	case 2:
		c.Queue(mqtt.AppendAck(c.Buffer(), s.target.version(), mqtt.PUBREC, id, 0))
	}
	v, ok := readStamp(payload)
	if !ok || int(v.publisher) >= len(s.last) {
		return // not of this run
	}
	switch last, this := s.last[v.publisher], (absence{v.publisher, v.sequence}); {
	case v.sequence == last+1:
	case v.sequence > last+1:
		s.missing += int64(v.sequence - last - 1)
		if s.absent == nil {
			s.absent = map[absence]struct{}{}
		}
		for n := last + 1; n < v.sequence; n++ {
			s.absent[absence{v.publisher, n}] = struct{}{}
		}
	default:
		// The DUP flag says nothing: a broker that resumes a session sets it on what the
		// client was never sent as well.
		if _, overtaken := s.absent[this]; !overtaken {
			s.repeated++
			return
		}
		delete(s.absent, this)
		s.unordered++
		s.missing-- // it was counted when a later one overtook it
	}
	s.last[v.publisher] = max(s.last[v.publisher], v.sequence)
	s.delivered[v.publisher]++
	s.total++
	if s.latencies != nil {
		record(s.latencies, s.loop.Now-v.intended)
	}
	if s.received != nil {
		s.received(v, s.total)
	}
}

// publishParts finds the payload and packet id of a PUBLISH.
func publishParts(v mqtt.Version, h mqtt.Header, body []byte) (payload []byte, id uint16, ok bool) {
	if len(body) < 2 {
		return nil, 0, false
	}
	at := 2 + int(binary.BigEndian.Uint16(body))
	if h.Flags>>1&3 > 0 {
		if len(body) < at+2 {
			return nil, 0, false
		}
		id = binary.BigEndian.Uint16(body[at:])
		at += 2
	}
	if v == mqtt.V5 {
		if len(body) < at {
			return nil, 0, false
		}
		length, n := binary.Uvarint(body[at:]) // the same encoding, four bytes at most
		if n <= 0 || length > uint64(len(body)) {
			return nil, 0, false
		}
		at += n + int(length)
	}
	if len(body) < at {
		return nil, 0, false
	}
	return body[at:], id, true
}

func (s *subscriber) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

func (s *subscriber) Down(_ *wire.Conn, err error) {
	if err != nil {
		s.fail(fmt.Errorf("connection of %s ended: %w", s.id, err))
	}
}
