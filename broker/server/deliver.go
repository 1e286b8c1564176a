package server

import (
	"context"
	"time"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/broker/session"
	"maestrohub.io/uns/broker/topic"
	"maestrohub.io/uns/broker/value"
)

// encoding is the encoded form of one value, made once for each protocol family
// that a subscriber speaks: MQTT 5, and MQTT 3 whose PUBLISH has no properties.
type encoding struct {
	value  *value.Value
	shared [2]*mqtt.Shared
}

func (e *encoding) of(v mqtt.Version) *mqtt.Shared {
	i := 0
	if v >= mqtt.V5 {
		i = 1
	}
	if e.shared[i] == nil {
		e.shared[i] = mqtt.NewShared(v, e.value.Name, &e.value.Properties, e.value.Payload)
	}
	return e.shared[i]
}

// touched lists connections that were given something to send; each is in it
// once.
type touched []*connection

func (t *touched) add(c *connection) {
	if !c.dirty && !c.out.writing {
		c.dirty = true
		*t = append(*t, c)
	}
}

func (t touched) start() {
	for _, c := range t {
		c.lock.Lock()
		c.dirty = false
		c.start()
		c.lock.Unlock()
	}
}

// Deliver implements ingest.Live: it gives the live copies of a batch to the
// connected sessions that are fed live. A persistent session's QoS 1 and 2 come
// from the log (feed). Writes start when the whole batch is in the buffers.
func (s *Server) Deliver(batch []*value.Value) { s.deliver(batch, true, nil) }

// deliver gives values to the sessions connected here. Those of this replica's own
// lanes (own) are also given to the members chosen of shared subscriptions, wherever they
// are; sent collects what their outcomes wait for.
func (s *Server) deliver(batch []*value.Value, own bool, sent *arrivals) {
	var started touched
	var w *workspace
	for _, v := range batch {
		if w == nil || w.slug != v.Workspace {
			w = s.workspace(v.Workspace)
		}
		if v.Retain {
			w.arriving.add(v)
		}
		m := w.match(v.Name)
		e := encoding{value: v}
		for i := range m.targets {
			t := &m.targets[i]
			if t.client.online.Load() {
				t.client.deliverLive(t, &e, &started)
			}
		}
		if own && len(m.shares) > 0 {
			m.choose(v)
			w.deliverShares(m, &e, &started, sent)
		}
	}
	started.start()
}

// Flush implements ingest.Live. Deliver has started all its writes.
func (s *Server) Flush() {}

// deliverLive gives a value to one session, if it is fed live with it.
func (cl *client) deliverLive(t *target, e *encoding, started *touched) {
	cl.lock.Lock()
	defer cl.lock.Unlock()
	c := cl.conn
	if c == nil || cl.session != t.session {
		return
	}
	session.Decided(t.subs, e.value)
	effect, ok := session.Effective(t.subs, e.value, session.Live, cl.id)
	if !ok || t.session.Persistent && logged(e.value, effect.QoS) || !effect.Covered && !c.grants.MayRead(e.value.Name) {
		return
	}
	c.offer(session.Item{Value: e.value, Effect: effect}, e)
	started.add(c)
}

// logged reports whether a persistent session takes v from the session log when
// it gets it at this QoS. Alerts and errors are in no log: a session has them
// while it is connected.
func logged(v *value.Value, qos byte) bool { return qos > 0 && !topic.Reserved(v.Topic) }

// offer sends a live or retained message now, or queues it. The lock is held. e
// may be nil.
func (c *connection) offer(it session.Item, e *encoding) {
	if c.out.closing {
		return
	}
	if it.Source != session.FromRetained {
		c.note(it.Value)
	}
	queue := &c.session.Queue
	if queue.Blocked(it.Effect.QoS) || c.out.congested(c.server.limits.MaxClientWritesPending) || !c.room(it.Effect.QoS) {
		if oldest, dropped := queue.Push(it); dropped {
			c.lost(oldest)
		}
		return
	}
	c.transmit(it, e)
}

// lost counts a value the full queue dropped, and says so once per connection.
// The lock is held.
func (c *connection) lost(it session.Item) {
	c.server.metrics.MessagesDropped.Inc()
	it.Settle(true)
	if !c.dropping {
		c.dropping = true
		c.server.log.Warn("embedded broker: a subscriber is too slow, its queue drops the oldest values", "client_id", c.client.id,
			"topic", it.Value.Name, "limit", c.server.limits.MaxSubscriberQueue)
	}
}

// room reports whether a delivery at this QoS may start on this connection: what
// the session has to send again goes first, and counts.
func (c *connection) room(qos byte) bool {
	return qos == 0 || len(c.resume) == 0 && !c.session.Window.Full()
}

// transmit writes one delivery for the first time. The lock is held and there is
// room. e may be nil.
func (c *connection) transmit(it session.Item, e *encoding) {
	v := it.Value
	now := time.Now().UnixNano()
	fixed, begun := c.fixed(&it)
	if v.Expired(now) && !begun { // [MQTT-3.3.2-5]
		c.server.metrics.DeliveriesWithheld.WithLabelValues("expired").Inc()
		it.Settle(true)
		return
	}
	if e == nil {
		e = &encoding{value: v}
	}
	d := mqtt.Delivery{QoS: it.Effect.QoS, Retain: it.Effect.Retain, SubscriptionIDs: it.Effect.IDs}
	d.Expiry, d.HasExpiry = v.ExpirySeconds(now) // [MQTT-3.3.2-6]
	if it.Effect.QoS == 0 {
		c.put(e, &d)
		it.Settle(true)
		return
	}
	entry := &session.Entry{QoS: it.Effect.QoS, Source: it.Source, Position: it.Position, Retain: it.Effect.Retain, IDs: it.Effect.IDs, Share: it.Share, Settled: it.Settled}
	if it.Source == session.FromRetained {
		entry.Topic = v.Name
	}
	if it.Source == session.FromLive {
		entry.Value = v
	}
	if fixed = fixed && c.session.Window.SendFixed(entry, c.held.ahead.span); !fixed {
		c.session.Window.Send(entry)
	}
	d.PacketID, d.Dup = entry.PacketID, begun // [MQTT-3.3.1-1]
	drop := func() {
		if begun {
			c.abandon(entry)
			return
		}
		c.session.Window.Drop(entry.PacketID) // as if it had been delivered [MQTT-3.1.2-25]
		entry.Settle(true)
	}
	switch {
	case v.Expired(now):
		c.abandon(entry)
	case entry.QoS == 2 && c.clustered() && entry.Source != session.FromLive:
		later := func() {
			// An encoding of its own: e is shared with the deliveries to others, which are
			// made under other locks.
			d.Expiry, d.HasExpiry = v.ExpirySeconds(time.Now().UnixNano())
			if !c.out.closing && !c.put(&encoding{value: v}, &d) {
				drop()
			}
		}
		if c.publish2(fixed, it.Position, later) {
			return
		}
		fallthrough
	default:
		if !c.put(e, &d) {
			drop()
		}
	}
}

// put appends one PUBLISH to the output; false if it is larger than the client
// takes [MQTT-3.1.2-24]. The lock is held.
func (c *connection) put(e *encoding, d *mqtt.Delivery) bool {
	if c.version >= mqtt.V5 && c.aliasOut.Maximum > 0 {
		d.Alias, d.OmitTopic = c.aliasOut.Alias(e.value.Name)
	}
	shared := e.of(c.version)
	if c.maxPacket > 0 && d.Alias != 0 && !d.OmitTopic && shared.Size(d) > int(c.maxPacket) {
		c.aliasOut.Forget(e.value.Name) // the client never saw it
		d.Alias = 0                     // it may be what does not fit
	}
	if c.maxPacket > 0 && shared.Size(d) > int(c.maxPacket) {
		c.server.metrics.DeliveriesWithheld.WithLabelValues("too_large").Inc()
		return false
	}
	buf := c.out.buffer()
	before := len(buf)
	c.out.buf = shared.Append(buf, d)
	c.out.packets++
	c.server.metrics.PacketsSent[mqtt.PUBLISH].Inc()
	c.server.metrics.BytesSent[mqtt.PUBLISH].Add(float64(len(c.out.buf) - before))
	if !d.Retain {
		c.note(e.value)
	}
	return true
}

// refill sends what has waited for room: the queue, and what the session log
// holds, which pump reads. The lock is held.
func (c *connection) refill() {
	if c.out.closing {
		return
	}
	limit := c.server.limits.MaxClientWritesPending
	for !c.out.congested(limit) {
		it, ok := c.session.Queue.Pop(c.room(1))
		if !ok {
			break
		}
		c.transmit(it, nil)
	}
	if c.session.Persistent && !c.pumping && c.pumpable() {
		c.pumping = true
		c.server.background(func(context.Context) { c.pump() })
	}
}

// pumpable reports whether there is something in the log for this connection,
// and room for it. The lock is held.
func (c *connection) pumpable() bool {
	if c.ended || c.out.congested(c.server.limits.MaxClientWritesPending) {
		return false
	}
	window := &c.session.Window
	if len(c.resume) > 0 {
		return window.Len()-len(c.resume) < window.Limit
	}
	return !c.tail && !window.Full() && !c.session.Queue.Blocked(1)
}
