package mqtt

// Header is a packet's fixed header.
type Header struct {
	Type  PacketType
	Flags byte
	// Remaining is the number of bytes after the fixed header, at most
	// MaxRemaining.
	Remaining int
	// Size is the number of bytes of the fixed header itself, 2 to 5.
	Size int
}

// ParseHeader reads the fixed header at the front of buf. ok is false if buf
// does not hold all of it yet. The error is an *Error for a packet type or a
// remaining length no version knows; what depends on the version is left to
// Validate, as the version of a CONNECT is not known before its body.
func ParseHeader(buf []byte) (h Header, ok bool, err error) {
	if len(buf) == 0 {
		return Header{}, false, nil
	}
	h.Type, h.Flags = PacketType(buf[0]>>4), buf[0]&0x0F
	if h.Type == 0 {
		return Header{}, false, &Error{Code: MalformedPacket, Detail: "packet type 0 is forbidden"}
	}
	for i, b := range buf[1:min(len(buf), 5)] {
		h.Remaining |= int(b&0x7F) << (7 * i)
		if b < 0x80 {
			h.Size = i + 2
			return h, true, nil
		}
	}
	if len(buf) < 5 {
		return Header{}, false, nil
	}
	return Header{}, false, &Error{Code: MalformedPacket, Detail: h.Type.String() + ": remaining length is longer than 4 bytes"}
}

// Validate checks what the fixed header alone shows in that version: flags,
// packet type, shortest form of the remaining length. Every Decode calls it;
// calling it before the body is read refuses a bad packet without its body.
func (h Header) Validate(v Version) error {
	if h.Type == PUBLISH {
		if h.Flags&0x06 == 0x06 { // [MQTT-3.3.1-4]
			return fail(v, PUBLISH, MalformedPacket, statement{"MQTT-3.3.1-4", "MQTT-3.3.1-4"}, "QoS 3, allowed are 0, 1 and 2")
		}
		// MQTT 3.1 gives DUP no meaning at QoS 0; later versions forbid it.
		if h.Flags&0x0E == 0x08 && v != V31 { // [MQTT-3.3.1-2]
			return fail(v, PUBLISH, MalformedPacket, statement{"MQTT-3.3.1-2", "MQTT-3.3.1-2"}, "DUP is set at QoS 0")
		}
	} else if err := h.reserved(v); err != nil {
		return err
	}
	// MQTT 3 allows padding, and devices with a fixed-width length exist.
	if v >= V5 && h.Size > 1+varintSize(h.Remaining) { // [MQTT-1.5.5-1]
		return fail(v, h.Type, MalformedPacket, shortest, "remaining length %d takes %d bytes, shortest is %d", h.Remaining, h.Size-1, varintSize(h.Remaining))
	}
	return nil
}

var shortest = statement{v5: "MQTT-1.5.5-1"}

// reserved checks the flags of a packet that has only reserved ones.
func (h Header) reserved(v Version) error {
	var want byte
	s := statement{"MQTT-2.1.3-1", "MQTT-2.2.2-2"} // [MQTT-2.1.3-1], in 3.1.1 [MQTT-2.2.2-1], [MQTT-2.2.2-2]
	switch h.Type {
	case PUBREL: // [MQTT-3.6.1-1]
		want, s = 2, statement{"MQTT-3.6.1-1", "MQTT-3.6.1-1"}
	case SUBSCRIBE: // [MQTT-3.8.1-1]
		want, s = 2, statement{"MQTT-3.8.1-1", "MQTT-3.8.1-1"}
	case UNSUBSCRIBE: // [MQTT-3.10.1-1]
		want, s = 2, statement{"MQTT-3.10.1-1", "MQTT-3.10.1-1"}
	case DISCONNECT: // [MQTT-3.14.1-1]
		s = statement{"MQTT-3.14.1-1", "MQTT-3.14.1-1"}
	case AUTH: // [MQTT-3.15.1-1]
		if v < V5 {
			return fail(v, AUTH, MalformedPacket, none, "MQTT %s has no such packet", v)
		}
		s = statement{v5: "MQTT-3.15.1-1"}
	}
	flags := h.Flags
	if v == V31 && want == 2 {
		flags &^= 0x08 // 3.1 sets DUP when it repeats these packets
	}
	if flags != want {
		return fail(v, h.Type, MalformedPacket, s, "flags %04b, want %04b", h.Flags, want)
	}
	return nil
}

// check is Validate for the decoder of one packet type.
func (h Header) check(v Version, t PacketType) error {
	if h.Type != t {
		return fail(v, h.Type, ProtocolError, none, "unexpected, want %s", t)
	}
	return h.Validate(v)
}
