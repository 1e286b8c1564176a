package scenario

import (
	"fmt"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tools/mqttload/wire"
)

// follower subscribes at QoS 1 in a persistent session, comes back to it, and remembers
// which values it has seen.
type follower struct {
	wanderer
	filter     string
	subscribed bool

	seen            [][]bool // by device and sequence
	total, repeated int64
}

func (f *follower) has(device int, sequence uint32) bool {
	return int(sequence) < len(f.seen[device]) && f.seen[device][sequence]
}

// latest is the highest sequence of a device the follower has, 0 of none.
func (f *follower) latest(device int) uint32 { return uint32(max(len(f.seen[device])-1, 0)) }

// Packet subscribes where the session is new, and notes what arrives.
func (f *follower) Packet(c *wire.Conn, h mqtt.Header, body []byte) {
	t := f.run.target
	switch h.Type {
	case mqtt.CONNACK:
		in, present := f.connack(h, body)
		switch {
		case !in:
		case present && f.subscribed:
			f.ready = true
		default:
			c.Queue(append(c.Buffer(), t.subscribe(f.filter, 1)...))
		}
	case mqtt.SUBACK:
		var ack mqtt.Suback
		if err := ack.Decode(t.version(), h, body); err != nil {
			f.run.fail(err)
			return
		}
		if len(ack.Codes) == 1 && ack.Codes[0] < 0x80 {
			f.ready, f.subscribed = true, true
		} else if f.run.failedAt > 0 {
			f.giveUp()
		} else {
			f.run.fail(fmt.Errorf("SUBSCRIBE of %s to %s refused: %v", f.id, f.filter, ack.Codes))
		}
	case mqtt.PUBLISH:
		f.publish(c, h, body)
	}
}

func (f *follower) publish(c *wire.Conn, h mqtt.Header, body []byte) {
	t := f.run.target
	payload, id, ok := publishParts(t.version(), h, body)
	if !ok {
		f.run.fail(fmt.Errorf("%s received a PUBLISH that is cut short", f.id))
		return
	}
	if h.Flags>>1&3 == 1 {
		c.Queue(mqtt.AppendAck(c.Buffer(), t.version(), mqtt.PUBACK, id, 0))
	}
	v, ok := readStamp(payload)
	if !ok || int(v.publisher) >= len(f.seen) {
		return // not of this run
	}
	if f.has(int(v.publisher), v.sequence) {
		f.repeated++
		return
	}
	seen := &f.seen[v.publisher]
	for int(v.sequence) >= len(*seen) {
		*seen = append(*seen, false)
	}
	(*seen)[v.sequence] = true
	f.total++
	f.got()
}
