package mqtt

import "maestrohub.io/uns/broker/value"

// Suback is a SUBACK packet: a code per topic filter, in their order
// [MQTT-3.9.3-1].
type Suback struct {
	PacketID     uint16
	Codes        []ReasonCode
	ReasonString string
	User         []value.UserProperty
}

// Unsuback is an UNSUBACK packet: a code per topic filter, in their order
// [MQTT-3.11.3-1]. Before MQTT 5 it has no codes.
type Unsuback struct {
	PacketID     uint16
	Codes        []ReasonCode
	ReasonString string
	User         []value.UserProperty
}

// requestID is the statement that an answer carries its request's identifier.
var requestID = statement{"MQTT-2.2.1-6", "MQTT-2.3.1-7"}

// Decode reads the body of a SUBACK with fixed header h. It resets s first.
func (s *Suback) Decode(v Version, h Header, body []byte) error {
	*s = Suback{}
	if err := h.check(v, SUBACK); err != nil {
		return err
	}
	r := reader{rest: body, v: v, t: SUBACK}
	s.PacketID = r.identifier(requestID)
	listed := statement{"MQTT-3.9.3-2", "MQTT-3.9.3-2"} // [MQTT-3.9.3-2]
	if v >= V5 {
		s.ReasonString, s.User = r.problem()
		s.Codes = r.codes(listed)
		return r.end(none)
	}
	for len(r.rest) > 0 {
		c := ReasonCode(r.uint8("return code"))
		if c > GrantedQoS2 && (c != UnspecifiedError || v == V31) {
			r.fail(ProtocolError, listed, "return code 0x%02X, allowed are 0, 1, 2 and, since 3.1.1, 0x80", byte(c))
		}
		s.Codes = append(s.Codes, c)
	}
	r.some(s.Codes)
	return r.end(none)
}

// Append appends the packet to dst. Before MQTT 5 every failure is 0x80; MQTT
// 3.1 has none and wants a refused subscription acknowledged like any other, so
// there it is QoS 0.
func (s *Suback) Append(dst []byte, v Version) []byte {
	dst, at := openPacket(dst, SUBACK, 0)
	dst = appendUint16(dst, s.PacketID)
	if v >= V5 {
		var properties int
		dst, properties = open(dst)
		dst = shut(appendProblem(dst, s.ReasonString, s.User), properties)
	}
	for _, c := range s.Codes {
		switch {
		case v >= V5 || c < 0x80:
			c = c.listed(SUBACK)
		case v == V31:
			c = GrantedQoS0
		default:
			c = UnspecifiedError
		}
		dst = append(dst, byte(c))
	}
	return shut(dst, at)
}

// AppendLimited is Append within max bytes; see the package documentation.
// [MQTT-3.9.2-1], [MQTT-3.9.2-2]
func (s *Suback) AppendLimited(dst []byte, v Version, max uint32) []byte {
	return appendLimited(s, dst, v, max)
}

func (s *Suback) optional() (*string, *[]value.UserProperty) { return &s.ReasonString, &s.User }

// Decode reads the body of an UNSUBACK with fixed header h. It resets u first.
func (u *Unsuback) Decode(v Version, h Header, body []byte) error {
	*u = Unsuback{}
	if err := h.check(v, UNSUBACK); err != nil {
		return err
	}
	r := reader{rest: body, v: v, t: UNSUBACK}
	u.PacketID = r.identifier(requestID)
	if v >= V5 {
		u.ReasonString, u.User = r.problem()
		u.Codes = r.codes(statement{v5: "MQTT-3.11.3-2"}) // [MQTT-3.11.3-2]
	}
	return r.end(none)
}

// Append appends the packet to dst.
func (u *Unsuback) Append(dst []byte, v Version) []byte {
	dst, at := openPacket(dst, UNSUBACK, 0)
	dst = appendUint16(dst, u.PacketID)
	if v >= V5 {
		var properties int
		dst, properties = open(dst)
		dst = shut(appendProblem(dst, u.ReasonString, u.User), properties)
		for _, c := range u.Codes {
			dst = append(dst, byte(c.listed(UNSUBACK)))
		}
	}
	return shut(dst, at)
}

// AppendLimited is Append within max bytes; see the package documentation.
// [MQTT-3.11.2-1], [MQTT-3.11.2-2]
func (u *Unsuback) AppendLimited(dst []byte, v Version, max uint32) []byte {
	return appendLimited(u, dst, v, max)
}

func (u *Unsuback) optional() (*string, *[]value.UserProperty) { return &u.ReasonString, &u.User }

// problem reads a property block of reason string and user properties.
func (r *reader) problem() (reason string, user []value.UserProperty) {
	r.openProperties(r.t)
	for id := r.next(); id != 0; id = r.next() {
		switch id {
		case reasonString:
			reason = r.string(id.String())
		case userProperty:
			user = r.user(user)
		}
	}
	return reason, user
}

// codes takes reason codes up to the end, at least one.
func (r *reader) codes(listed statement) []ReasonCode {
	codes := make([]ReasonCode, 0, len(r.rest))
	for len(r.rest) > 0 {
		codes = append(codes, r.reason(listed))
	}
	r.some(codes)
	return codes
}

// some fails if a SUBACK or UNSUBACK has no code: its request had a filter.
func (r *reader) some(codes []ReasonCode) {
	if len(codes) == 0 && r.err == nil {
		r.fail(ProtocolError, none, "no reason code")
	}
}
