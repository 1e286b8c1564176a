package mqtt

import "maestrohub.io/uns/broker/value"

// Publish is a PUBLISH packet, in either direction.
type Publish struct {
	Dup    bool
	QoS    byte
	Retain bool
	// Topic is the topic name, a slice of the body it was decoded from; empty
	// only in MQTT 5 with a topic alias.
	Topic []byte
	// PacketID is 0 at QoS 0 [MQTT-2.2.1-2].
	PacketID uint16
	// Payload is a slice of the body it was decoded from.
	Payload []byte

	// TopicAlias is valid if HasAlias, and then not 0.
	TopicAlias uint16
	HasAlias   bool
	// MessageExpiry is the Message Expiry Interval in seconds, valid if HasExpiry.
	MessageExpiry uint32
	HasExpiry     bool
	// SubscriptionIDs are the subscriptions a server says it matched. A client
	// may send none; the decoder serves both sides and accepts them, refusing
	// them is the server's [MQTT-3.3.4-6].
	SubscriptionIDs []uint32
	// Properties own their memory: they do not alias the body.
	Properties value.Properties
}

var publishID = statement{"MQTT-2.2.1-3", "MQTT-2.3.1-1"}

// Decode reads the body of a PUBLISH with fixed header h. It resets p first.
// Topic and Payload alias body; without properties other than alias and expiry
// nothing is allocated.
func (p *Publish) Decode(v Version, h Header, body []byte) error {
	*p = Publish{QoS: h.Flags >> 1 & 3, Retain: h.Flags&1 != 0}
	if err := h.check(v, PUBLISH); err != nil {
		return err
	}
	p.Dup = h.Flags&8 != 0 && p.QoS > 0
	r := reader{rest: body, v: v, t: PUBLISH}
	// The topic name comes first [MQTT-3.3.2-1] and has no wildcard [MQTT-3.3.2-2].
	p.Topic = r.name("topic name", statement{"MQTT-3.3.2-2", "MQTT-3.3.2-2"})
	if p.QoS > 0 {
		p.PacketID = r.identifier(publishID)
	}
	if v < V5 {
		if len(p.Topic) == 0 && r.err == nil { // [MQTT-4.7.3-1]
			r.fail(MalformedPacket, statement{v3: "MQTT-4.7.3-1"}, "topic name is empty")
		}
		p.Payload = r.rest
		return r.err
	}
	if len(r.rest) > 0 && r.rest[0] == 0 {
		r.rest = r.rest[1:]
	} else {
		p.properties(&r)
	}
	if len(p.Topic) == 0 && !p.HasAlias && r.err == nil {
		r.fail(ProtocolError, statement{v5: "MQTT-4.7.3-1"}, "topic name is empty and there is no topic alias")
	}
	p.Payload = r.rest
	return r.err
}

func (p *Publish) properties(r *reader) {
	r.openProperties(PUBLISH)
	for id := r.next(); id != 0; id = r.next() {
		switch id {
		case topicAlias:
			p.TopicAlias, p.HasAlias = r.uint16(topicAlias.String()), true
			if p.TopicAlias == 0 && r.err == nil { // [MQTT-3.3.2-8]
				r.fail(TopicAliasInvalid, statement{v5: "MQTT-3.3.2-8"}, "topic alias is 0, allowed are 1 to 65535")
			}
		case messageExpiry:
			p.MessageExpiry, p.HasExpiry = r.uint32(messageExpiry.String()), true
		case subscriptionIdentifier:
			p.SubscriptionIDs = append(p.SubscriptionIDs, r.subscriptionID())
		default:
			r.forwarded(id, &p.Properties)
		}
	}
}

// Append appends the packet to dst. What the version does not have is left out.
func (p *Publish) Append(dst []byte, v Version) []byte {
	d := Delivery{QoS: p.QoS, Dup: p.Dup, Retain: p.Retain, PacketID: p.PacketID,
		Expiry: p.MessageExpiry, HasExpiry: p.HasExpiry, SubscriptionIDs: p.SubscriptionIDs}
	if p.HasAlias {
		d.Alias = p.TopicAlias
	}
	topic := clipBytes(p.Topic)
	fixed := 0
	if v >= V5 {
		fixed = forwardedSize(&p.Properties)
	}
	remaining, properties := d.lengths(v, len(topic), fixed, len(p.Payload))
	dst = append(dst, d.flags())
	dst = appendVarint(dst, remaining)
	dst = append(dst, byte(len(topic)>>8), byte(len(topic)))
	dst = append(dst, topic...)
	if d.QoS > 0 {
		dst = appendUint16(dst, d.PacketID)
	}
	if v >= V5 {
		dst = appendVarint(dst, properties)
		dst = d.appendProperties(dst)
		dst = appendForwarded(dst, &p.Properties)
	}
	return append(dst, p.Payload...)
}
