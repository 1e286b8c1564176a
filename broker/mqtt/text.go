package mqtt

import (
	"bytes"
	"encoding/binary"
	"strings"
	"unicode/utf8"
)

// maxString is the longest string or binary data a two-byte length can carry.
const maxString = 65535

const (
	every  = 0x0101010101010101 // one in each byte
	high   = 0x8080808080808080 // the highest bit of each byte
	plus   = '+' * every
	number = '#' * every
)

// plain reports whether b is ASCII without U+0000. Eight bytes at a time: none
// may have its high bit set, and taking one from each borrows only from a zero.
func plain(b []byte) bool {
	for len(b) >= 8 {
		x := binary.LittleEndian.Uint64(b)
		if (x|(x-every))&high != 0 {
			return false
		}
		b = b[8:]
	}
	for _, c := range b {
		if c-1 >= 0x7F {
			return false
		}
	}
	return true
}

// plainName is plain that also finds no wildcard: as bytes are below 0x80, the
// exclusive or with a character is zero only where that character stands.
func plainName(b []byte) bool {
	for len(b) >= 8 {
		x := binary.LittleEndian.Uint64(b)
		if (x|(x-every)|((x^plus)-every)|((x^number)-every))&high != 0 {
			return false
		}
		b = b[8:]
	}
	for _, c := range b {
		if c-1 >= 0x7F || c == '+' || c == '#' {
			return false
		}
	}
	return true
}

// textFault says what makes b no UTF-8 string of the protocol; "" if it is one.
// U+FEFF is a character like any other and stays [MQTT-1.5.4-3].
func textFault(b []byte) (fault string, s statement) {
	if !utf8.Valid(b) { // surrogates and overlong forms included [MQTT-1.5.4-1]
		return "not well-formed UTF-8", statement{"MQTT-1.5.4-1", "MQTT-1.5.3-1"}
	}
	if bytes.IndexByte(b, 0) >= 0 { // [MQTT-1.5.4-2]
		return "contains U+0000", statement{"MQTT-1.5.4-2", "MQTT-1.5.3-2"}
	}
	return "", none
}

// clip cuts what a two-byte length cannot carry, at a character's boundary.
// Nothing the decoder or a topic check let through is that long; texts the
// broker composes may be.
func clip(s string) string {
	if len(s) <= maxString {
		return s
	}
	n := maxString
	for n > maxString-utf8.UTFMax && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// clipBytes cuts binary data to what a two-byte length can carry.
func clipBytes(b []byte) []byte { return b[:min(len(b), maxString)] }

// sayable makes a text the broker composed fit to send: well-formed and without
// U+0000 [MQTT-1.5.4-1], [MQTT-1.5.4-2].
func sayable(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}
