package mqtt

import "maestrohub.io/uns/broker/value"

// Shared is a message encoded once for all subscribers of one version. What is
// the same for each of them is made here; Append puts what differs between.
// It is immutable, and safe for concurrent use.
type Shared struct {
	version    Version
	topic      string
	properties []byte // the encoded properties all subscribers get
	payload    []byte
}

// NewShared prepares a message for subscribers of version v. The payload is not
// copied and must not change afterwards; props may be nil.
func NewShared(v Version, topic string, props *value.Properties, payload []byte) *Shared {
	s := &Shared{version: v, topic: clip(topic), payload: payload}
	if v >= V5 && props != nil {
		if n := forwardedSize(props); n > 0 {
			s.properties = appendForwarded(make([]byte, 0, n), props)
		}
	}
	return s
}

// Delivery is what one subscriber's copy of a message has of its own.
type Delivery struct {
	QoS byte
	// Dup marks a repeated delivery; it is never set at QoS 0 [MQTT-3.3.1-2].
	Dup, Retain bool
	// PacketID is ignored at QoS 0 [MQTT-2.2.1-2].
	PacketID uint16
	// Alias is the topic alias, 0 for none [MQTT-3.3.2-8]. OmitTopic leaves the
	// topic name to the alias and is ignored without one.
	Alias     uint16
	OmitTopic bool
	// Expiry is the Message Expiry Interval left, in seconds, if HasExpiry
	// [MQTT-3.3.2-6].
	Expiry    uint32
	HasExpiry bool
	// SubscriptionIDs of the subscriptions that match [MQTT-3.3.4-3]; 0 is left
	// out. Alias, expiry and these are ignored before MQTT 5.
	SubscriptionIDs []uint32
}

func (d *Delivery) flags() byte {
	b := byte(PUBLISH)<<4 | d.QoS<<1
	if d.Dup && d.QoS > 0 {
		b |= 8
	}
	if d.Retain {
		b |= 1
	}
	return b
}

// propertiesSize returns how many bytes appendProperties appends.
func (d *Delivery) propertiesSize() int {
	n := 0
	if d.HasExpiry {
		n += 5
	}
	if d.Alias != 0 {
		n += 3
	}
	for _, id := range d.SubscriptionIDs {
		if id != 0 {
			n += 1 + varintSize(int(id))
		}
	}
	return n
}

func (d *Delivery) appendProperties(dst []byte) []byte {
	if d.HasExpiry {
		dst = appendUint32Property(dst, messageExpiry, d.Expiry)
	}
	if d.Alias != 0 {
		dst = appendUint16Property(dst, topicAlias, d.Alias)
	}
	for _, id := range d.SubscriptionIDs {
		if id != 0 {
			dst = appendVarint(append(dst, byte(subscriptionIdentifier)), int(id))
		}
	}
	return dst
}

// lengths returns the remaining length of the packet and the property length in
// it; fixed is the size of the properties all subscribers get.
func (d *Delivery) lengths(v Version, topic, fixed, payload int) (remaining, properties int) {
	remaining = 2 + topic + payload
	if d.QoS > 0 {
		remaining += 2
	}
	if v >= V5 {
		properties = d.propertiesSize() + fixed
		remaining += varintSize(properties) + properties
	}
	return remaining, properties
}

// name returns the topic name to write for d.
func (s *Shared) name(d *Delivery) string {
	if d.OmitTopic && d.Alias != 0 && s.version >= V5 {
		return ""
	}
	return s.topic
}

// Size returns the size of the whole packet in bytes, to hold against the
// client's Maximum Packet Size [MQTT-3.1.2-24].
func (s *Shared) Size(d *Delivery) int {
	remaining, _ := d.lengths(s.version, len(s.name(d)), len(s.properties), len(s.payload))
	return 1 + varintSize(remaining) + remaining
}

// Append appends the packet for one subscriber to dst and allocates nothing else.
func (s *Shared) Append(dst []byte, d *Delivery) []byte {
	topic := s.name(d)
	remaining, properties := d.lengths(s.version, len(topic), len(s.properties), len(s.payload))
	dst = append(dst, d.flags())
	dst = appendVarint(dst, remaining)
	dst = append(dst, byte(len(topic)>>8), byte(len(topic)))
	dst = append(dst, topic...)
	if d.QoS > 0 {
		dst = appendUint16(dst, d.PacketID)
	}
	if s.version >= V5 {
		dst = appendVarint(dst, properties)
		dst = d.appendProperties(dst)
		dst = append(dst, s.properties...)
	}
	return append(dst, s.payload...)
}
