package server

import (
	"bytes"

	"maestrohub.io/uns/broker/access"
	"maestrohub.io/uns/broker/ingest"
	"maestrohub.io/uns/broker/mqtt"
)

// zeroSlot is the slot of a QoS 0 PUBLISH, which has no acknowledgment: it is
// only counted, so that a client cannot fill the lanes.
const zeroSlot = ^uint64(0)

// onPublish hands a PUBLISH to the chain. Its acknowledgment leaves in its turn,
// once the outcome is known (Complete).
func (c *connection) onPublish(h mqtt.Header, body []byte) error {
	var p mqtt.Publish
	if err := p.Decode(c.version, h, body); err != nil {
		return err
	}
	if len(p.SubscriptionIDs) > 0 {
		return &mqtt.Error{Code: mqtt.ProtocolError, Statement: "MQTT-3.3.4-6", Detail: "subscription identifier in a client's PUBLISH"}
	}
	name, err := c.topicName(&p)
	if err != nil {
		return err
	}
	if err := c.awaitRoom(c.lanesFull); err != nil {
		return err
	}
	slot, grants, err := c.admit(&p)
	if err != nil || grants == nil {
		return err
	}
	c.server.ingest.Publish(ingest.Publish{
		Name: name, QoS: p.QoS, Payload: bytes.Clone(p.Payload), Properties: p.Properties,
		Expiry: p.MessageExpiry, HasExpiry: p.HasExpiry,
		ClientID: c.session.ClientID, Grants: grants, Ordered: c.version < mqtt.V5, Done: c, Slot: slot,
	})
	return nil
}

// topicName resolves a topic alias and returns the topic's name. Names repeat, so
// the last one is kept rather than made again.
func (c *connection) topicName(p *mqtt.Publish) (string, error) {
	if p.HasAlias && (p.TopicAlias == 0 || p.TopicAlias > c.aliasIn.Maximum) { // [MQTT-3.3.2-8], [MQTT-3.3.2-12]
		return "", &mqtt.Error{Code: mqtt.TopicAliasInvalid, Detail: "topic alias outside 1 to the Topic Alias Maximum"}
	}
	if len(p.Topic) == 0 {
		name := c.aliasIn.Topic(p.TopicAlias)
		if name == "" {
			return "", &mqtt.Error{Code: mqtt.ProtocolError, Detail: "unknown topic alias without a topic"}
		}
		return name, nil
	}
	if string(p.Topic) != c.lastName {
		c.lastName = string(p.Topic)
	}
	if p.HasAlias {
		c.aliasIn.Set(p.TopicAlias, c.lastName)
	}
	return c.lastName, nil
}

// lanesFull reports whether the chain holds as much of this client as it may. An
// MQTT 5 client knows the bound for QoS 1 and 2 and is held to it by admit; for
// the rest, repetitions among it, we stop reading until an outcome makes room.
func (c *connection) lanesFull() bool {
	limit := int(c.server.limits.ReceiveMaximum)
	return c.zero >= limit || c.version < mqtt.V5 && c.acks.len() >= limit || c.acks.repeats >= limit
}

// admit gives a PUBLISH its place among the outcomes, and returns the grants it
// is judged by; nil if it is a repetition, which is acknowledged but not
// forwarded again.
func (c *connection) admit(p *mqtt.Publish) (slot uint64, grants *access.Grants, err error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.ended {
		return 0, nil, errEnded
	}
	if p.QoS == 0 {
		c.zero++
		return zeroSlot, c.grants, nil
	}
	if p.QoS == 2 && (c.session.Inbound.Has(p.PacketID) || c.acks.isOpen(p.PacketID)) { // [MQTT-4.3.3-10]
		c.acks.push(pending{id: p.PacketID, qos: 2, done: true, repeated: true})
		c.acknowledge()
		return 0, nil, nil
	}
	if c.version >= mqtt.V5 && c.acks.len()-c.acks.repeats+c.session.Inbound.Len() >= int(c.server.limits.ReceiveMaximum) {
		return 0, nil, &mqtt.Error{Code: mqtt.ReceiveMaximumExceeded, Statement: "MQTT-3.3.4-7", Detail: "more unacknowledged publishes than the Receive Maximum"}
	}
	return c.acks.push(pending{id: p.PacketID, qos: p.QoS}), c.grants, nil
}

// Complete takes the outcome of one PUBLISH; it implements ingest.Completion.
func (c *connection) Complete(slot uint64, o ingest.Outcome) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if slot == zeroSlot {
		c.zero--
	} else {
		p := c.acks.at(slot)
		p.done = true
		p.code, p.retry = reasonCode(o.Refusal)
		p.reason = o.Detail
		c.acknowledge()
	}
	c.wakeReader()
	c.settle()
}

// Flush sends what the last outcomes gave rise to; it implements
// ingest.Completion.
func (c *connection) Flush() {
	c.lock.Lock()
	c.start()
	c.lock.Unlock()
}

// Unresolved implements ingest.Unresolved: a QoS 2 publish can neither be
// acknowledged nor refused in time. The connection is closed and the flow stays
// open: if the value turns out stored, its identifier is remembered (acknowledge).
func (c *connection) Unresolved(uint64) {
	go c.close("refused_publish", mqtt.UnspecifiedError, "the session log has not answered in time")
}

// acknowledge sends the acknowledgments that are next in order. The lock is held.
func (c *connection) acknowledge() {
	for {
		p, ok := c.acks.pop()
		if !ok {
			return
		}
		if c.fenced {
			continue
		}
		if p.qos == 2 && p.code == mqtt.Success && !p.repeated {
			// Also when the connection has ended: the value is stored, and the client
			// will send it again under this identifier [MQTT-4.3.3-10].
			c.session.Inbound.Add(p.id)
			if c.clustered() {
				c.record(&c.held.received, nil)
			}
		}
		if c.out.closing || c.refused {
			continue
		}
		if p.code != mqtt.Success && c.version < mqtt.V5 {
			if p.retry {
				// MQTT 3 has no negative acknowledgment: the connection is closed after the
				// acknowledgments before this one, and the device sends the value again.
				c.refused = true
				c.afterPubrecs(func() {
					go c.close("refused_publish", p.code, p.reason)
					c.out.closing = true
				})
				continue
			}
			// A value that can never be taken is acknowledged as usual and reported on
			// the _errors topic [MQTT-3.3.5-2 of 3.1.1].
			p.code = mqtt.Success
			if p.qos == 2 {
				c.session.Inbound.Add(p.id)
				if c.clustered() {
					c.record(&c.held.received, nil)
				}
			}
		}
		kind := mqtt.PUBACK // [MQTT-4.3.2-4]
		if p.qos == 2 {
			kind = mqtt.PUBREC // [MQTT-4.3.3-8]
		}
		if p.qos == 2 && p.code == mqtt.Success && c.clustered() {
			// The PUBREC leaves once the identifier is recorded in the cluster: from then
			// on the message is forwarded once, wherever the session resumes.
			told := c.server.shared.owed.enter()
			c.owed = append(c.owed, told)
			c.after(&c.held.received, func() {
				c.out.ack(c.version, kind, p.id, p.code)
				told()
				c.owed = c.owed[1:]
			})
			continue
		}
		if p.qos == 2 {
			c.afterPubrecs(func() { c.respond(kind, &p) }) // [MQTT-4.6.0-3]
		} else {
			c.respond(kind, &p)
		}
	}
}

// respond appends a PUBACK or PUBREC. The lock is held.
func (c *connection) respond(kind mqtt.PacketType, p *pending) {
	if p.code == mqtt.Success || p.reason == "" || !c.problemInfo {
		c.out.ack(c.version, kind, p.id, p.code)
		return
	}
	ack := mqtt.Ack{Type: kind, PacketID: p.id, Code: p.code, ReasonString: p.reason}
	c.out.answer(kind, func(dst []byte) []byte { return ack.AppendLimited(dst, c.version, c.maxPacket) })
}

// afterPubrecs calls run once the PUBRECs before have left, which wait for the record of
// their identifiers. The lock is held.
func (c *connection) afterPubrecs(run func()) {
	if c.clustered() {
		c.after(&c.held.received, run)
		return
	}
	run()
}

// onAck takes a PUBACK, PUBREC, PUBREL or PUBCOMP.
func (c *connection) onAck(h mqtt.Header, body []byte) error {
	var a mqtt.Ack
	if err := a.Decode(c.version, h, body); err != nil {
		return err
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.ended {
		return errEnded
	}
	window := &c.session.Window
	switch h.Type {
	case mqtt.PUBACK:
		if e := window.Puback(a.PacketID); e != nil {
			c.acked = true
			e.Settle(true)
		}
	case mqtt.PUBREC:
		reason, answer, ended := window.Pubrec(a.PacketID, a.Code)
		pubrel := func() { c.out.ack(c.version, mqtt.PUBREL, a.PacketID, c.known(reason)) }
		switch {
		case answer && reason == mqtt.Success && c.clustered():
			// The PUBREL leaves once the record says that it may have: the PUBLISH is never
			// sent again after it, by any replica. It may wait for the next PUBLISHes, which have
			// to be recorded before they leave.
			c.recordSoon(&c.held.cursor, pubrel)
		case answer && c.clustered():
			c.after(&c.held.cursor, pubrel) // in the order of the PUBRECs [MQTT-4.6.0-4]
		case answer:
			pubrel()
		}
		if ended != nil {
			c.acked = true
			ended.Settle(true) // refused, and nobody else's [MQTT-4.8.2-6]
		}
	case mqtt.PUBCOMP:
		c.acked = window.Pubcomp(a.PacketID) != nil || c.acked
	case mqtt.PUBREL: // [MQTT-4.3.3-11]
		reason := mqtt.Success
		known := c.session.Inbound.Release(a.PacketID)
		if !known {
			reason = mqtt.PacketIdentifierNotFound
		}
		pubcomp := func() { c.out.ack(c.version, mqtt.PUBCOMP, a.PacketID, c.known(reason)) }
		if known && c.clustered() {
			// The identifier is the client's again after the PUBCOMP: no replica may then
			// still take it for a repetition.
			c.record(&c.held.received, pubcomp)
		} else {
			pubcomp()
		}
	}
	return nil
}

// known returns the code an acknowledgment of this version can carry.
func (c *connection) known(code mqtt.ReasonCode) mqtt.ReasonCode {
	if c.version < mqtt.V5 {
		return mqtt.Success
	}
	return code
}

// onDisconnect takes the client's DISCONNECT.
func (c *connection) onDisconnect(h mqtt.Header, body []byte) error {
	var p mqtt.Disconnect
	if err := p.Decode(c.version, h, body); err != nil {
		return err
	}
	if !p.Code.FromClient(mqtt.DISCONNECT) {
		return &mqtt.Error{Code: mqtt.ProtocolError, Statement: "MQTT-3.14.2-1", Detail: "reason code a client does not send: " + p.Code.String()}
	}
	e := ending{properly: p.Code == mqtt.NormalDisconnection}
	if p.HasSessionExpiry {
		if c.zeroExpiry && p.SessionExpiry != 0 {
			return &mqtt.Error{Code: mqtt.ProtocolError, Detail: "Session Expiry Interval raised from 0 at DISCONNECT"}
		}
		expiry := min(p.SessionExpiry, c.server.longestExpiry())
		e.expiry = &expiry
	}
	e.why = "client"
	c.end(e)
	return errEnded
}
