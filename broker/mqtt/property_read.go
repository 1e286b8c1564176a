package mqtt

import "maestrohub.io/uns/broker/value"

// openProperties takes the property length; until next returns 0 the reader
// stands inside the block. on is the packet, or will.
func (r *reader) openProperties(on PacketType) {
	if len(r.rest) == 0 && r.err == nil { // [MQTT-2.2.2-1]
		r.fail(MalformedPacket, statement{v5: "MQTT-2.2.2-1"}, "property length is missing")
		return
	}
	n := r.varint("property length")
	if n > len(r.rest) {
		r.fail(MalformedPacket, none, "property length %d, %d bytes are left", n, len(r.rest))
		return
	}
	r.after, r.block, r.rest = r.rest[n:], r.rest[:n:n], r.rest[:n:n]
	r.text, r.seen, r.on = "", 0, on
}

// next takes the next property identifier and checks that it may stand here; 0
// at the end of the block or after a failure.
func (r *reader) next() property {
	if len(r.rest) == 0 {
		r.rest, r.after, r.block = r.after, nil, nil
		return 0
	}
	x := r.varint("property identifier")
	if r.err != nil {
		return 0
	}
	p := property(x)
	if x >= len(propertyTable) || propertyTable[p].name == "" {
		r.fail(MalformedPacket, none, "property identifier 0x%02X does not exist", x)
		return 0
	}
	if !propertyTable[p].on.has(r.on) {
		where := "this packet"
		if r.on == will {
			where = "a will"
		}
		r.fail(MalformedPacket, none, "%s is no property of %s", p, where)
		return 0
	}
	if r.seen&(1<<p) != 0 && p != userProperty && (p != subscriptionIdentifier || r.on != PUBLISH) {
		r.fail(ProtocolError, none, "%s stands there twice", p)
		return 0
	}
	r.seen |= 1 << p
	return p
}

func (r *reader) has(p property) bool { return r.seen&(1<<p) != 0 }

// nonzero takes a two-byte property for which 0 is a protocol error.
func (r *reader) nonzero(p property) uint16 {
	x := r.uint16(p.String())
	if x == 0 && r.err == nil {
		r.fail(ProtocolError, none, "%s is 0, allowed are 1 to 65535", p)
	}
	return x
}

// packetSize takes the Maximum Packet Size.
func (r *reader) packetSize() uint32 {
	x := r.uint32(maximumPacketSize.String())
	if x == 0 && r.err == nil {
		r.fail(ProtocolError, none, "%s is 0, allowed are 1 to 4294967295", maximumPacketSize)
	}
	return x
}

// subscriptionID takes a Subscription Identifier.
func (r *reader) subscriptionID() uint32 {
	x := r.varint(subscriptionIdentifier.String())
	if x == 0 && r.err == nil {
		r.fail(ProtocolError, none, "%s is 0, allowed are 1 to %d", subscriptionIdentifier, MaxRemaining)
	}
	return uint32(x)
}

// forwarded takes one of the properties a server forwards unchanged.
func (r *reader) forwarded(p property, to *value.Properties) {
	switch p {
	case payloadFormat:
		to.HasPayloadFormat = true
		if r.flag(payloadFormat.String()) {
			to.PayloadFormat = 1
		}
	case contentType: // [MQTT-3.3.2-19]
		to.ContentType, to.HasContentType = r.string(contentType.String()), true
	case responseTopic: // [MQTT-3.3.2-13]
		to.ResponseTopic = r.string(responseTopic.String())
		r.checkResponseTopic(to.ResponseTopic)
	case correlationData:
		to.CorrelationData = r.copied(correlationData.String())
	case userProperty:
		to.User = r.user(to.User)
	}
}

func (r *reader) checkResponseTopic(topic string) {
	if r.err != nil {
		return
	}
	if topic == "" { // [MQTT-4.7.3-1]
		r.fail(ProtocolError, statement{v5: "MQTT-4.7.3-1"}, "%s is empty", responseTopic)
		return
	}
	for i := range len(topic) {
		if topic[i] == '+' || topic[i] == '#' { // [MQTT-3.3.2-14]
			r.fail(ProtocolError, statement{v5: "MQTT-3.3.2-14"}, "%s %.64q has a wildcard", responseTopic, topic)
			return
		}
	}
}
