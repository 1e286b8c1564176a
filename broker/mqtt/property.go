package mqtt

import (
	"encoding/binary"
	"fmt"

	"maestrohub.io/uns/broker/value"
)

// property is an MQTT 5 property identifier, table 2-4.
type property byte

const (
	payloadFormat          property = 0x01
	messageExpiry          property = 0x02
	contentType            property = 0x03
	responseTopic          property = 0x08
	correlationData        property = 0x09
	subscriptionIdentifier property = 0x0B
	sessionExpiry          property = 0x11
	assignedClientID       property = 0x12
	serverKeepAlive        property = 0x13
	authMethod             property = 0x15
	authData               property = 0x16
	requestProblem         property = 0x17
	willDelay              property = 0x18
	requestResponse        property = 0x19
	responseInformation    property = 0x1A
	serverReference        property = 0x1C
	reasonString           property = 0x1F
	receiveMaximum         property = 0x21
	topicAliasMaximum      property = 0x22
	topicAlias             property = 0x23
	maximumQoS             property = 0x24
	retainAvailable        property = 0x25
	userProperty           property = 0x26
	maximumPacketSize      property = 0x27
	wildcardAvailable      property = 0x28
	identifiersAvailable   property = 0x29
	sharedAvailable        property = 0x2A
)

// will stands for the Will Properties of CONNECT in a set of packets: packet
// type 0 is nobody's.
const will PacketType = 0

// propertyTable says what each property is called and where it may stand.
var propertyTable = [...]struct {
	name string
	on   packetSet
}{
	payloadFormat:          {"Payload Format Indicator", packets(PUBLISH, will)},
	messageExpiry:          {"Message Expiry Interval", packets(PUBLISH, will)},
	contentType:            {"Content Type", packets(PUBLISH, will)},
	responseTopic:          {"Response Topic", packets(PUBLISH, will)},
	correlationData:        {"Correlation Data", packets(PUBLISH, will)},
	subscriptionIdentifier: {"Subscription Identifier", packets(PUBLISH, SUBSCRIBE)},
	sessionExpiry:          {"Session Expiry Interval", packets(CONNECT, CONNACK, DISCONNECT)},
	assignedClientID:       {"Assigned Client Identifier", packets(CONNACK)},
	serverKeepAlive:        {"Server Keep Alive", packets(CONNACK)},
	authMethod:             {"Authentication Method", packets(CONNECT, CONNACK, AUTH)},
	authData:               {"Authentication Data", packets(CONNECT, CONNACK, AUTH)},
	requestProblem:         {"Request Problem Information", packets(CONNECT)},
	willDelay:              {"Will Delay Interval", packets(will)},
	requestResponse:        {"Request Response Information", packets(CONNECT)},
	responseInformation:    {"Response Information", packets(CONNACK)},
	serverReference:        {"Server Reference", packets(CONNACK, DISCONNECT)},
	reasonString: {"Reason String", packets(CONNACK, PUBACK, PUBREC, PUBREL, PUBCOMP,
		SUBACK, UNSUBACK, DISCONNECT, AUTH)},
	receiveMaximum:    {"Receive Maximum", packets(CONNECT, CONNACK)},
	topicAliasMaximum: {"Topic Alias Maximum", packets(CONNECT, CONNACK)},
	topicAlias:        {"Topic Alias", packets(PUBLISH)},
	maximumQoS:        {"Maximum QoS", packets(CONNACK)},
	retainAvailable:   {"Retain Available", packets(CONNACK)},
	userProperty: {"User Property", packets(CONNECT, CONNACK, PUBLISH, will, PUBACK, PUBREC, PUBREL, PUBCOMP,
		SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK, DISCONNECT, AUTH)},
	maximumPacketSize:    {"Maximum Packet Size", packets(CONNECT, CONNACK)},
	wildcardAvailable:    {"Wildcard Subscription Available", packets(CONNACK)},
	identifiersAvailable: {"Subscription Identifiers Available", packets(CONNACK)},
	sharedAvailable:      {"Shared Subscription Available", packets(CONNACK)},
}

// String returns the standard's name of the property.
func (p property) String() string {
	if int(p) < len(propertyTable) && propertyTable[p].name != "" {
		return propertyTable[p].name
	}
	return fmt.Sprintf("property 0x%02X", byte(p))
}

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

// forwarded takes one of the properties a server forwards unchanged; ok is false
// if p is none of them.
func (r *reader) forwarded(p property, to *value.Properties) (ok bool) {
	switch p {
	case payloadFormat:
		to.HasPayloadFormat = true
		if r.flag(payloadFormat.String()) {
			to.PayloadFormat = 1
		}
	case contentType: // [MQTT-3.3.2-19]
		to.ContentType = r.string(contentType.String())
	case responseTopic: // [MQTT-3.3.2-13]
		to.ResponseTopic = r.string(responseTopic.String())
		r.checkResponseTopic(to.ResponseTopic)
	case correlationData:
		to.CorrelationData = r.copied(correlationData.String())
	case userProperty:
		to.User = r.user(to.User)
	default:
		return false
	}
	return true
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

func appendByteProperty(dst []byte, p property, x byte) []byte { return append(dst, byte(p), x) }

func appendFlagProperty(dst []byte, p property, x bool) []byte {
	if x {
		return append(dst, byte(p), 1)
	}
	return append(dst, byte(p), 0)
}

func appendUint16Property(dst []byte, p property, x uint16) []byte {
	return binary.BigEndian.AppendUint16(append(dst, byte(p)), x)
}

func appendUint32Property(dst []byte, p property, x uint32) []byte {
	return binary.BigEndian.AppendUint32(append(dst, byte(p)), x)
}

func appendStringProperty(dst []byte, p property, s string) []byte {
	return appendString(append(dst, byte(p)), s)
}

func appendBytesProperty(dst []byte, p property, b []byte) []byte {
	return appendBytes(append(dst, byte(p)), b)
}

// appendUser appends user properties in their order [MQTT-3.3.2-18].
func appendUser(dst []byte, user []value.UserProperty) []byte {
	for _, u := range user {
		dst = appendStringProperty(dst, userProperty, u.Key)
		dst = appendString(dst, u.Value)
	}
	return dst
}

// appendProblem appends reason string and user properties.
func appendProblem(dst []byte, reason string, user []value.UserProperty) []byte {
	if reason != "" {
		dst = appendStringProperty(dst, reasonString, sayable(reason))
	}
	return appendUser(dst, user)
}

// appendForwarded appends the properties a server forwards unchanged.
func appendForwarded(dst []byte, p *value.Properties) []byte {
	if p.HasPayloadFormat {
		dst = appendByteProperty(dst, payloadFormat, p.PayloadFormat)
	}
	if p.ContentType != "" {
		dst = appendStringProperty(dst, contentType, p.ContentType)
	}
	if p.ResponseTopic != "" {
		dst = appendStringProperty(dst, responseTopic, p.ResponseTopic)
	}
	if p.CorrelationData != nil {
		dst = appendBytesProperty(dst, correlationData, p.CorrelationData)
	}
	return appendUser(dst, p.User)
}

// forwardedSize returns how many bytes appendForwarded appends.
func forwardedSize(p *value.Properties) int {
	n := 0
	if p.HasPayloadFormat {
		n += 2
	}
	if p.ContentType != "" {
		n += 3 + len(clip(p.ContentType))
	}
	if p.ResponseTopic != "" {
		n += 3 + len(clip(p.ResponseTopic))
	}
	if p.CorrelationData != nil {
		n += 3 + len(clipBytes(p.CorrelationData))
	}
	for i := range p.User {
		n += 5 + len(clip(p.User[i].Key)) + len(clip(p.User[i].Value))
	}
	return n
}
