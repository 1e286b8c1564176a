package mqtt

// AppendPingreq appends a PINGREQ to dst.
func AppendPingreq(dst []byte) []byte { return append(dst, byte(PINGREQ)<<4, 0) }

// AppendPingresp appends a PINGRESP to dst.
func AppendPingresp(dst []byte) []byte { return append(dst, byte(PINGRESP)<<4, 0) }

// DecodePing checks a PINGREQ or PINGRESP, which is a fixed header and no more.
// It is the same two bytes in every version.
func DecodePing(h Header) error {
	if h.Type != PINGREQ && h.Type != PINGRESP {
		return fail(V5, h.Type, ProtocolError, none, "unexpected, want PINGREQ or PINGRESP")
	}
	if h.Remaining != 0 {
		return fail(V5, h.Type, MalformedPacket, none, "remaining length %d, want 0", h.Remaining)
	}
	return h.Validate(V5)
}
