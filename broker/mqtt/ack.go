package mqtt

import "maestrohub.io/uns/broker/value"

// Ack is a PUBACK, PUBREC, PUBREL or PUBCOMP. Before MQTT 5 it has a packet
// identifier and nothing else.
type Ack struct {
	Type         PacketType
	PacketID     uint16
	Code         ReasonCode
	ReasonString string
	User         []value.UserProperty
}

// listedAck names the statement that lists an acknowledgment's reason codes.
func listedAck(t PacketType) statement {
	switch t {
	case PUBACK: // [MQTT-3.4.2-1]
		return statement{v5: "MQTT-3.4.2-1"}
	case PUBREC: // [MQTT-3.5.2-1]
		return statement{v5: "MQTT-3.5.2-1"}
	case PUBREL: // [MQTT-3.6.2-1]
		return statement{v5: "MQTT-3.6.2-1"}
	default: // [MQTT-3.7.2-1]
		return statement{v5: "MQTT-3.7.2-1"}
	}
}

// Decode reads the body of an acknowledgment with fixed header h, of whichever of
// the four types h says. It resets a first; without properties it allocates
// nothing.
func (a *Ack) Decode(v Version, h Header, body []byte) error {
	*a = Ack{Type: h.Type}
	if h.Type < PUBACK || h.Type > PUBCOMP {
		return fail(v, h.Type, ProtocolError, none, "unexpected, want PUBACK, PUBREC, PUBREL or PUBCOMP")
	}
	if err := h.Validate(v); err != nil {
		return err
	}
	r := reader{rest: body, v: v, t: h.Type}
	a.PacketID = r.identifier(statement{"MQTT-2.2.1-5", "MQTT-2.3.1-6"})
	// A code of 0 may be left out, and so may the property length after a code.
	if v >= V5 && len(r.rest) > 0 {
		a.Code = r.reason(listedAck(h.Type))
		if len(r.rest) > 0 {
			a.properties(&r)
		}
	}
	return r.end(none)
}

func (a *Ack) properties(r *reader) {
	r.openProperties(a.Type)
	for id := r.next(); id != 0; id = r.next() {
		switch id {
		case reasonString:
			a.ReasonString = r.string(reasonString.String())
		case userProperty:
			a.User = r.user(a.User)
		}
	}
}

// Append appends the packet to dst; without properties it allocates nothing else.
func (a *Ack) Append(dst []byte, v Version) []byte {
	if v < V5 || a.ReasonString == "" && len(a.User) == 0 {
		return AppendAck(dst, v, a.Type, a.PacketID, a.Code)
	}
	dst, at := openPacket(dst, a.Type, ackFlags(a.Type))
	dst = appendUint16(dst, a.PacketID)
	dst = append(dst, byte(a.Code.listed(a.Type)))
	dst, properties := open(dst)
	dst = appendProblem(dst, a.ReasonString, a.User)
	return shut(shut(dst, properties), at)
}

// AppendLimited is Append within max bytes; see the package documentation.
// [MQTT-3.4.2-2], [MQTT-3.4.2-3], [MQTT-3.5.2-2], [MQTT-3.5.2-3],
// [MQTT-3.6.2-2], [MQTT-3.6.2-3], [MQTT-3.7.2-2], [MQTT-3.7.2-3]
func (a *Ack) AppendLimited(dst []byte, v Version, max uint32) []byte {
	return appendLimited(a, dst, v, max)
}

func (a *Ack) optional() (*string, *[]value.UserProperty) { return &a.ReasonString, &a.User }

// AppendAck appends the acknowledgment of type t, without properties, to dst.
func AppendAck(dst []byte, v Version, t PacketType, id uint16, code ReasonCode) []byte {
	first := byte(t)<<4 | ackFlags(t)
	if v < V5 || code == Success {
		return append(dst, first, 2, byte(id>>8), byte(id))
	}
	return append(dst, first, 3, byte(id>>8), byte(id), byte(code.listed(t)))
}

// ackFlags returns the reserved flags of an acknowledgment [MQTT-3.6.1-1].
func ackFlags(t PacketType) byte {
	if t == PUBREL {
		return 2
	}
	return 0
}
