package server

import (
	"net"
	"slices"
	"sync/atomic"
	"time"

	"maestrohub.io/uns/broker/metrics"
	"maestrohub.io/uns/broker/mqtt"
)

// congestedBytes is how much may wait in a connection's output before further
// deliveries stay in the session's queue or the log. Large enough to keep a
// socket busy, small enough that 5,000 slow readers do not fill the memory.
const congestedBytes = 128 << 10

// writePart is how much is written at once: what a client has to take for it to count as
// a sign of life. A large message over a slow line is many of them.
const writePart = 64 << 10

// closingTime bounds the last write of a connection that is being closed.
const closingTime = 2 * time.Second

// output is the way out of one connection. There is no goroutine while there is
// nothing to write: start begins one, and it ends when the buffer is empty.
// Whatever is appended while a write is under way leaves with the next, so
// writes to one socket are coalesced.
//
// Owner: the mutex of the client the connection belongs to.
type output struct {
	nc      net.Conn
	metrics *metrics.Metrics
	buf     []byte
	busy    int          // bytes of the write under way
	moved   atomic.Int64 // when the write under way last got on, since the server's start
	large   bool         // the last write was more than a small buffer holds
	packets int          // deliveries in buf
	answers int          // other packets in buf and in the write under way
	writing bool
	// closing: nothing is appended any more; the socket is closed once the buffer
	// is out.
	closing bool
	failed  bool
}

// buffer returns the buffer to append to.
func (o *output) buffer() []byte {
	if o.buf == nil {
		// A stream fills a large buffer with each write; it starts with one rather than
		// growing a small one again and again.
		if o.large {
			o.buf = largeBuffers.get()
		} else {
			o.buf = smallBuffers.get()
		}
	}
	return o.buf
}

// congested reports whether deliveries have to wait in the queue or the log.
// limit is maxClientWritesPending.
func (o *output) congested(limit int) bool {
	return o.packets >= limit || len(o.buf)+o.busy >= congestedBytes
}

// ack appends a PUBACK, PUBREC, PUBREL or PUBCOMP.
func (o *output) ack(v mqtt.Version, t mqtt.PacketType, id uint16, code mqtt.ReasonCode) {
	o.answer(t, func(dst []byte) []byte { return mqtt.AppendAck(dst, v, t, id, code) })
}

// discard forgets what has not been written.
func (o *output) discard() {
	if o.buf != nil {
		putBuffer(o.buf)
		o.buf, o.packets = nil, 0
	}
}

// answer appends a packet that is not a delivery, unless the connection is
// closing. false means that appendTo left the packet out, as too large.
func (o *output) answer(t mqtt.PacketType, appendTo func(dst []byte) []byte) bool {
	if o.closing {
		return true
	}
	buf := o.buffer()
	before := len(buf)
	o.buf = appendTo(buf)
	if len(o.buf) == before {
		return false
	}
	o.answers++
	o.metrics.PacketsSent[t].Inc()
	o.metrics.BytesSent[t].Add(float64(len(o.buf) - before))
	return true
}

// start begins writing unless a write is under way. The client's mutex is held.
func (c *connection) start() {
	o := &c.out
	if o.writing || len(o.buf) == 0 && !o.closing {
		return
	}
	o.writing = true
	go c.write()
}

// write sends what is in the buffer until it stays empty.
func (c *connection) write() {
	o := &c.out
	c.lock.Lock()
	for {
		if len(o.buf) == 0 && !o.closing {
			c.refill()
		}
		if len(o.buf) == 0 || o.failed {
			break
		}
		if !o.closing && !c.mayAct() { // the fence comes, and will say so
			o.discard()
			break
		}
		buf, answers := o.buf, o.answers
		o.buf, o.busy, o.packets = nil, len(buf), 0
		o.large = len(buf) > smallBuffer
		c.lock.Unlock()
		var err error
		for part := range slices.Chunk(buf, writePart) {
			o.moved.Store(int64(time.Since(c.server.started)))
			if _, err = o.nc.Write(part); err != nil {
				break
			}
		}
		putBuffer(buf)
		c.lock.Lock()
		o.busy = 0
		o.answers -= answers
		if err != nil {
			o.failed = true
		}
		c.wakeReader()
	}
	o.writing = false
	finish := o.closing || o.failed
	c.lock.Unlock()
	if finish {
		c.hangUp()
	}
}

// hangUp ends the socket: the sending half first, so that what was written
// arrives; the reader drains and closes the rest.
func (c *connection) hangUp() {
	if tcp := c.nc.TCP(); tcp != nil && !c.out.failed {
		_ = tcp.CloseWrite()
		_ = tcp.SetReadDeadline(time.Now().Add(closingTime))
		return
	}
	_ = c.nc.Close()
}
