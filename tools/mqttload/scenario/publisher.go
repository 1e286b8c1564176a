package scenario

import (
	"encoding/binary"
	"fmt"

	"github.com/HdrHistogram/hdrhistogram-go"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tools/mqttload/wire"
)

// publisher sends stamped values on one connection, at most window of them
// unacknowledged.
type publisher struct {
	target *Target
	loop   *wire.Loop
	conn   *wire.Conn
	id     string
	number uint16
	qos    byte

	packet          []byte // an encoded PUBLISH to copy and patch
	idAt, payloadAt int

	free     []uint16 // packet ids not in use
	intended []int64  // by packet id, when its value was meant to be sent
	waiting  []int64  // intended times of values that found no free packet id

	ready                bool
	sequence             uint32
	sent, acked, refused int64
	latencies            *hdrhistogram.Histogram
	err                  error
}

// queuedLimit bounds what a QoS 0 publisher queues to a socket that is full.
const queuedLimit = 64 << 10

func newPublisher(t *Target, l *wire.Loop, number int, topic string, qos byte, window, payload int) (*publisher, error) {
	body, err := newPayload(payload)
	if err != nil {
		return nil, err
	}
	p := &publisher{target: t, loop: l, id: fmt.Sprintf("load-pub-%d", number), number: uint16(number), qos: qos,
		latencies: newHistogram()}
	publish := mqtt.Publish{QoS: qos, Topic: []byte(topic), Payload: body}
	if qos > 0 {
		publish.PacketID = 1
	}
	p.packet = publish.Append(nil, t.version())
	p.payloadAt = len(p.packet) - payload
	p.idAt = p.payloadAt - 2
	if t.version() == mqtt.V5 {
		p.idAt-- // the empty property length
	}
	p.window(window)
	p.conn, err = l.Dial(t.Address, p)
	return p, err
}

// window makes the packet ids 1 to n the ones in use.
func (p *publisher) window(n int) {
	p.intended = make([]int64, n+1)
	p.free = p.free[:0]
	for id := n; id > 0; id-- {
		p.free = append(p.free, uint16(id))
	}
}

// room says whether a value can leave now.
func (p *publisher) room() bool {
	if p.qos == 0 {
		return p.conn.Queued() < queuedLimit
	}
	return len(p.free) > 0
}

// publish sends the next value, or puts it behind those already waiting.
func (p *publisher) publish(intended int64) {
	if len(p.waiting) > 0 || !p.room() {
		p.waiting = append(p.waiting, intended)
		return
	}
	p.send(intended)
}

func (p *publisher) send(intended int64) {
	out := p.conn.Buffer()
	at := len(out)
	out = append(out, p.packet...)
	packet := out[at:]
	if p.qos > 0 {
		id := p.free[len(p.free)-1]
		p.free = p.free[:len(p.free)-1]
		p.intended[id] = intended
		binary.BigEndian.PutUint16(packet[p.idAt:], id)
	}
	p.sequence++
	stamp{intended, p.number, p.sequence}.put(packet[p.payloadAt:])
	p.conn.Queue(out)
	p.sent++
}

// release sends what waited, as far as there is room.
func (p *publisher) release() {
	n := 0
	for n < len(p.waiting) && p.room() {
		p.send(p.waiting[n])
		n++
	}
	if n > 0 {
		p.waiting = p.waiting[:copy(p.waiting, p.waiting[n:])]
	}
}

func (p *publisher) Up(c *wire.Conn) {
	c.Queue(append(c.Buffer(), p.target.connect(p.id, false)...))
}

func (p *publisher) Packet(c *wire.Conn, h mqtt.Header, body []byte) {
	switch h.Type {
	case mqtt.CONNACK:
		var ack mqtt.Connack
		if err := ack.Decode(p.target.version(), h, body); err != nil {
			p.fail(err)
			return
		}
		if ack.Code != 0 {
			p.fail(fmt.Errorf("CONNECT of %s refused: %v", p.id, ack.Code))
			return
		}
		if n := int(ack.ReceiveMaximum); n > 0 && n < len(p.free) {
			p.window(n)
		}
		p.ready = true
	case mqtt.PUBACK, mqtt.PUBCOMP:
		p.acknowledged(h, body)
	case mqtt.PUBREC:
		if len(body) > 2 && body[2] >= 0x80 {
			p.acknowledged(h, body)
			return
		}
		c.Queue(mqtt.AppendAck(c.Buffer(), p.target.version(), mqtt.PUBREL, binary.BigEndian.Uint16(body), 0))
	case mqtt.DISCONNECT:
		var d mqtt.Disconnect
		if err := d.Decode(p.target.version(), h, body); err == nil {
			p.fail(fmt.Errorf("%s was disconnected: %v %s", p.id, d.Code, d.ReasonString))
		}
	}
}

// acknowledged ends a value's flow. The shape of an acknowledgment is all that is
// read of it: its packet id, and its reason code if there is one.
func (p *publisher) acknowledged(h mqtt.Header, body []byte) {
	if len(body) < 2 {
		p.fail(fmt.Errorf("%s: %v of %d bytes", p.id, h.Type, len(body)))
		return
	}
	id := binary.BigEndian.Uint16(body)
	if int(id) >= len(p.intended) || p.intended[id] == 0 {
		p.fail(fmt.Errorf("%s: %v of packet id %d, which is not in flight", p.id, h.Type, id))
		return
	}
	record(p.latencies, p.loop.Now-p.intended[id])
	p.intended[id] = 0
	p.free = append(p.free, id)
	p.acked++
	if len(body) > 2 && body[2] >= 0x80 {
		p.refused++
	}
	p.release()
}

func (p *publisher) fail(err error) {
	if p.err == nil {
		p.err = err
	}
}

func (p *publisher) Down(_ *wire.Conn, err error) {
	if err != nil {
		p.fail(fmt.Errorf("connection of %s ended: %w", p.id, err))
	}
}
