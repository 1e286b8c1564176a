package server

import (
	"time"

	"maestrohub.io/uns/broker/mqtt"
)

// heard notes that the client has given a sign of life.
func (c *connection) heard() { c.lastPacket.Store(int64(time.Since(c.server.started))) }

// watchKeepAlive has the silence of the client looked at when the interval is
// over [MQTT-3.1.2-22]. It is looked at once per interval, not once per packet,
// and by the agenda rather than by a read deadline, which a WebSocket does not
// survive. The lock is held.
func (c *connection) watchKeepAlive() {
	if c.keepAlive == 0 {
		return
	}
	c.heard()
	c.idle = c.server.agenda.add(time.Now().Add(c.keepAlive), c.checkKeepAlive)
}

func (c *connection) checkKeepAlive() {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.ended {
		return
	}
	now := time.Since(c.server.started)
	if c.readerWake != nil && (c.out.busy == 0 || now-time.Duration(c.out.moved.Load()) < c.keepAlive) {
		c.heard() // it is we who do not read: the clock stands still, while the client reads
	}
	left := c.keepAlive - (now - time.Duration(c.lastPacket.Load()))
	if left > 0 {
		c.idle = c.server.agenda.add(time.Now().Add(left), c.checkKeepAlive)
		return
	}
	go c.failed(&mqtt.Error{Code: mqtt.KeepAliveTimeout, Statement: "MQTT-3.1.2-22", Detail: "no packet within 1.5 times the keep alive"})
}
