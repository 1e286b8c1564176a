package scenario

import (
	"encoding/binary"
	"slices"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tools/mqttload/wire"
)

// device publishes at QoS 1 whatever happens, and sends again what was not acknowledged.
type device struct {
	wanderer
	number uint16
	topic  string

	waiting []int64    // intended times of values not sent yet
	open    []onItsWay // sent, not acknowledged, oldest first
	done    []bool     // by sequence: acknowledged
	nextID  uint16
	backAt  int64  // when it was let in after the kill
	proof   uint32 // the first value acknowledged that was meant to be sent after that
	acked   int64
}

// onItsWay is a value that waits for its acknowledgment.
type onItsWay struct {
	stamp
	packetID uint16
	sentAt   int64
}

// publish sends a value, or keeps it until the device is connected.
func (d *device) publish(intended int64) {
	d.waiting = append(d.waiting, intended)
	d.drain()
}

func (d *device) drain() {
	for d.ready && len(d.waiting) > 0 && len(d.open) < failoverWindow {
		d.nextID++
		if d.nextID == 0 {
			d.nextID = 1
		}
		if len(d.done) == 0 {
			d.done = []bool{false} // sequences count from 1
		}
		v := onItsWay{stamp{d.waiting[0], d.number, uint32(len(d.done))}, d.nextID, 0}
		d.done = append(d.done, false)
		d.waiting = d.waiting[1:]
		d.open = append(d.open, v)
		d.send(&d.open[len(d.open)-1], false)
	}
}

// failoverWindow is how many values a device has on their way; a pause of 10 s at the
// pace of the comparison fills a tenth of it, so that it shows in nothing else.
const failoverWindow = 4000

func (d *device) send(v *onItsWay, again bool) {
	payload, err := newPayload(d.run.Payload)
	if err != nil {
		d.run.fail(err)
		return
	}
	v.put(payload)
	v.sentAt = d.run.loop.Clock()
	p := mqtt.Publish{QoS: 1, Dup: again, Topic: []byte(d.topic), PacketID: v.packetID, Payload: payload}
	d.conn.Queue(p.Append(d.conn.Buffer(), d.run.target.version()))
}

// look also connects anew if no acknowledgment comes.
func (d *device) look(now int64) {
	if d.ready && len(d.open) > 0 && now-d.open[0].sentAt > int64(giveUpAfter) {
		d.giveUp()
	}
	d.wanderer.look(now)
}

// Packet takes up where the connection before left off, and counts acknowledgments.
func (d *device) Packet(_ *wire.Conn, h mqtt.Header, body []byte) {
	switch h.Type {
	case mqtt.CONNACK:
		in, present := d.connack(h, body)
		if !in {
			return
		}
		d.ready = true
		if d.run.failedAt > 0 {
			d.backAt = d.run.loop.Now
		}
		for i := range d.open {
			d.send(&d.open[i], present)
		}
		d.drain()
	case mqtt.PUBACK:
		if len(body) < 2 || len(body) > 2 && body[2] >= 0x80 {
			return // refused: not acknowledged, and after giveUpAfter sent again
		}
		id := binary.BigEndian.Uint16(body)
		i := slices.IndexFunc(d.open, func(v onItsWay) bool { return v.packetID == id })
		if i < 0 {
			return // of a value that was sent twice
		}
		v := d.open[i]
		d.open = slices.Delete(d.open, i, i+1)
		d.done[v.sequence] = true
		d.acked++
		if d.proof == 0 && d.backAt > 0 && v.intended >= d.backAt {
			d.proof = v.sequence
		}
		d.got()
		d.drain()
	}
}
