package mqtt

import "encoding/binary"

func appendString(dst []byte, s string) []byte {
	s = clip(s)
	return append(append(dst, byte(len(s)>>8), byte(len(s))), s...)
}

func appendBytes(dst, b []byte) []byte {
	b = clipBytes(b)
	return append(append(dst, byte(len(b)>>8), byte(len(b))), b...)
}

func appendUint16(dst []byte, x uint16) []byte { return binary.BigEndian.AppendUint16(dst, x) }

// open leaves room for a length whose value is known only once what follows is
// written; shut puts it there in the shortest form and closes the gap. Packets
// off the hot path are written so: a move of a few bytes instead of a second
// function per packet that adds up sizes.
func open(dst []byte) (grown []byte, at int) { return append(dst, 0, 0, 0, 0), len(dst) }

func shut(dst []byte, at int) []byte {
	body := dst[at+4:]
	n := len(appendVarint(dst[:at], len(body)))
	return dst[:n+copy(dst[n:], body)]
}

// openPacket begins a packet: its first byte and room for the remaining length.
func openPacket(dst []byte, t PacketType, flags byte) (grown []byte, at int) {
	return open(append(dst, byte(t)<<4|flags))
}
