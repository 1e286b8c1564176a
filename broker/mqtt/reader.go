package mqtt

import (
	"bytes"
	"encoding/binary"

	"maestrohub.io/uns/broker/value"
)

// reader takes fields off the front of a packet's body. After the first failure
// it yields zero values and keeps the error, so that a decoder reads straight
// through and asks once.
type reader struct {
	rest []byte
	v    Version
	t    PacketType
	err  error

	// While a property block is open, rest is what is left of it, after is the
	// body behind it, block all of it; seen has a bit per identifier found. text
	// is block as a string, made once: all strings of a block share it.
	after, block []byte
	text         string
	seen         uint64
	on           PacketType
}

func (r *reader) fail(code ReasonCode, s statement, format string, args ...any) {
	if r.err == nil {
		r.err = fail(r.v, r.t, code, s, format, args...)
	}
	r.rest, r.after = nil, nil
}

func (r *reader) short(field string) {
	r.fail(MalformedPacket, none, "%s cut short", field)
}

func (r *reader) uint8(field string) byte {
	if len(r.rest) < 1 {
		r.short(field)
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

func (r *reader) uint16(field string) uint16 {
	if len(r.rest) < 2 {
		r.short(field)
		return 0
	}
	x := binary.BigEndian.Uint16(r.rest)
	r.rest = r.rest[2:]
	return x
}

func (r *reader) uint32(field string) uint32 {
	if len(r.rest) < 4 {
		r.short(field)
		return 0
	}
	x := binary.BigEndian.Uint32(r.rest)
	r.rest = r.rest[4:]
	return x
}

func (r *reader) varint(field string) int {
	x := 0
	for i, b := range r.rest[:min(len(r.rest), 4)] {
		x |= int(b&0x7F) << (7 * i)
		if b < 0x80 {
			if i > 0 && b == 0 { // [MQTT-1.5.5-1]
				r.fail(MalformedPacket, shortest, "%s %d takes %d bytes, shortest is %d", field, x, i+1, varintSize(x))
				return 0
			}
			r.rest = r.rest[i+1:]
			return x
		}
	}
	if len(r.rest) >= 4 {
		r.fail(MalformedPacket, none, "%s is longer than 4 bytes", field)
		return 0
	}
	r.short(field)
	return 0
}

// bytes takes binary data; it aliases the body.
func (r *reader) bytes(field string) []byte {
	if len(r.rest) < 2 {
		r.short(field)
		return nil
	}
	n := int(binary.BigEndian.Uint16(r.rest))
	if len(r.rest)-2 < n {
		r.short(field)
		return nil
	}
	b := r.rest[2 : 2+n : 2+n]
	r.rest = r.rest[2+n:]
	return b
}

// copied takes binary data into memory of its own; never nil without an error.
func (r *reader) copied(field string) []byte { return bytes.Clone(r.bytes(field)) }

// utf8 takes a UTF-8 string; it aliases the body.
func (r *reader) utf8(field string) []byte {
	b := r.bytes(field)
	if !plain(b) {
		if fault, s := textFault(b); fault != "" {
			r.fail(MalformedPacket, s, "%s %s", field, fault)
			return nil
		}
	}
	return b
}

// string takes a UTF-8 string into memory of its own.
func (r *reader) string(field string) string {
	b := r.utf8(field)
	if r.block == nil || len(b) == 0 {
		return string(b)
	}
	if r.text == "" {
		r.text = string(r.block)
	}
	end := len(r.block) - len(r.rest)
	return r.text[end-len(b) : end]
}

// name takes a topic name that may be empty; it aliases the body.
func (r *reader) name(field string, wildcard statement) []byte {
	b := r.bytes(field)
	if plainName(b) {
		return b
	}
	if fault, s := textFault(b); fault != "" {
		r.fail(MalformedPacket, s, "%s %s", field, fault)
		return nil
	}
	if bytes.ContainsAny(b, "+#") {
		r.fail(MalformedPacket, wildcard, "%s %.64q has a wildcard", field, b)
		return nil
	}
	return b
}

// identifier takes a packet identifier, which is never 0.
func (r *reader) identifier(s statement) uint16 {
	id := r.uint16("packet identifier")
	if id == 0 && r.err == nil {
		r.fail(ProtocolError, s, "packet identifier 0")
	}
	return id
}

// reason takes a reason code listed for the packet.
func (r *reader) reason(s statement) ReasonCode {
	c := ReasonCode(r.uint8("reason code"))
	if !c.ListedFor(r.t) && r.err == nil {
		r.fail(ProtocolError, s, "reason code 0x%02X is not one of this packet", byte(c))
	}
	return c
}

// flag takes a byte property that is 0 or 1.
func (r *reader) flag(field string) bool {
	b := r.uint8(field)
	if b > 1 {
		r.fail(ProtocolError, none, "%s is %d, allowed are 0 and 1", field, b)
	}
	return b == 1
}

// user appends a user property; both halves are UTF-8 strings [MQTT-1.5.7-1].
func (r *reader) user(list []value.UserProperty) []value.UserProperty {
	if list == nil {
		list = make([]value.UserProperty, 0, r.userRun())
	}
	key := r.string("user property name")
	val := r.string("user property value")
	return append(list, value.UserProperty{Key: key, Value: val})
}

// userRun counts the user properties that follow each other from here on, the
// current one included, so that their list is allocated once.
func (r *reader) userRun() int {
	n, rest := 1, r.rest
	for half := 0; len(rest) >= 2; half++ {
		size := 2 + int(binary.BigEndian.Uint16(rest))
		if size > len(rest) {
			break
		}
		rest = rest[size:]
		if half%2 == 1 {
			if len(rest) == 0 || property(rest[0]) != userProperty {
				break
			}
			n, rest = n+1, rest[1:]
		}
	}
	return n
}

// end fails if bytes are left over.
func (r *reader) end(s statement) error {
	if len(r.rest) != 0 && r.err == nil {
		r.fail(MalformedPacket, s, "%d bytes after its end", len(r.rest))
	}
	return r.err
}
