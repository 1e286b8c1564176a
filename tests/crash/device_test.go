package crash_test

import (
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/harness"
)

// device publishes numbered values as fast as its window allows, for as long as
// its connection lives. What was not acknowledged then is sent again in its next
// life, as a device would, with the same timestamp.
type device struct {
	name     string
	topic    string
	connect  mqtt.Connect
	qos      byte
	window   int
	next     int   // number of the next value, from 0
	unacked  []int // in the order they were sent
	acked    []bool
	repeated int           // values sent again
	total    *atomic.Int64 // acknowledgments of all devices in this life
}

// start is the timestamp of value 0; value n is n milliseconds later, so that
// history's order is the order of sending.
var start = time.UnixMilli(1_790_000_000_000)

// live connects and publishes until the connection ends. An error is something a
// killed broker does not explain.
func (d *device) live(address string) error {
	conn, err := net.DialTimeout("tcp", address, harness.Patience)
	if err != nil {
		return nil // killed before it accepted
	}
	defer conn.Close()
	c := &link{Conn: conn}
	if !c.write(d.connect.Append(nil, mqtt.V5)) {
		return nil
	}
	h, body, ok := c.next()
	if !ok {
		return nil
	}
	var ack mqtt.Connack
	if err := ack.Decode(mqtt.V5, h, body); err != nil || ack.Code != mqtt.Success {
		return fmt.Errorf("%s: CONNECT answered with %v %v (%v)", d.name, h.Type, ack.Code, err)
	}
	return d.publish(c, min(d.window, int(ack.ReceiveMaximum)))
}

func (d *device) publish(c *link, window int) error {
	again := d.unacked
	d.unacked = nil
	d.repeated += len(again)
	inFlight := make(map[uint16]int) // packet id -> value
	id := uint16(0)
	var out []byte
	for {
		out = out[:0]
		for len(inFlight) < window {
			n := d.next
			if len(again) > 0 {
				n, again = again[0], again[1:]
			} else {
				d.next++
				d.acked = append(d.acked, false)
			}
			if id++; id == 0 {
				id = 1
			}
			inFlight[id] = n
			d.unacked = append(d.unacked, n)
			publish := mqtt.Publish{QoS: d.qos, PacketID: id, Topic: []byte(harness.Inbox(d.name, d.topic)),
				Payload: fmt.Appendf(nil, `{"value":%d,"timestamp":%d}`, n, start.UnixMilli()+int64(n))}
			out = publish.Append(out, mqtt.V5)
		}
		if len(out) > 0 && !c.write(out) {
			break
		}
		h, body, ok := c.next()
		if !ok {
			break
		}
		var ack mqtt.Ack
		switch h.Type {
		case mqtt.PUBACK, mqtt.PUBREC, mqtt.PUBCOMP:
			if err := ack.Decode(mqtt.V5, h, body); err != nil {
				return fmt.Errorf("%s: %w", d.name, err)
			}
		default:
			return fmt.Errorf("%s: received %v", d.name, h.Type)
		}
		n, known := inFlight[ack.PacketID]
		if !known {
			return fmt.Errorf("%s: %v of packet id %d, which is not in flight", d.name, h.Type, ack.PacketID)
		}
		if ack.Code >= 0x80 {
			return fmt.Errorf("%s: value %d was refused: %v %s", d.name, n, ack.Code, ack.ReasonString)
		}
		if h.Type != mqtt.PUBCOMP {
			// A PUBREC promises as much as a PUBACK.
			d.acknowledged(n)
		}
		if h.Type == mqtt.PUBREC {
			if !c.write(mqtt.AppendAck(nil, mqtt.V5, mqtt.PUBREL, ack.PacketID, 0)) {
				break
			}
			continue
		}
		delete(inFlight, ack.PacketID)
	}
	// What this life did not get to goes on waiting, behind what it sent.
	d.unacked = append(d.unacked, again...)
	return nil
}

func (d *device) acknowledged(n int) {
	d.acked[n] = true
	for i, m := range d.unacked { // nearly always the first
		if m == n {
			d.unacked = append(d.unacked[:i], d.unacked[i+1:]...)
			break
		}
	}
	d.total.Add(1)
}

// lastAcked returns the number of the last acknowledged value, -1 for none.
func (d *device) lastAcked() int {
	for n := len(d.acked) - 1; n >= 0; n-- {
		if d.acked[n] {
			return n
		}
	}
	return -1
}

// link is a connection that reads and writes packets until it ends, for whatever
// reason: a killed broker resets connections as well as closing them.
type link struct {
	net.Conn
	buf, rest []byte
}

func (l *link) write(b []byte) bool {
	_, err := l.Write(b)
	return err == nil
}

// next returns the next packet; body is valid until the next call.
func (l *link) next() (h mqtt.Header, body []byte, ok bool) {
	if l.buf == nil {
		l.buf = make([]byte, 64<<10)
	}
	for {
		h, whole, err := mqtt.ParseHeader(l.rest)
		if err != nil {
			return h, nil, false
		}
		if size := h.Size + h.Remaining; whole && len(l.rest) >= size {
			body = l.rest[h.Size:size]
			l.rest = l.rest[size:]
			return h, body, true
		}
		kept := copy(l.buf, l.rest)
		n, err := l.Read(l.buf[kept:])
		l.rest = l.buf[:kept+n]
		if err != nil && n == 0 {
			return mqtt.Header{}, nil, false
		}
	}
}
