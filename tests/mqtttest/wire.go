package mqtttest

import (
	"encoding/hex"
	"fmt"
	"strings"
)

// Wire writes bytes down readably: hexadecimal digits; characters in single quotes
// as they are; in double quotes as a string behind its two-byte length;
// parentheses around what stands behind its length as a variable byte integer.
// Blanks mean nothing outside quotes. A SUBSCRIBE of MQTT 5 to "a" at QoS 1:
//
//	82 (000A () "a" 01)
//
// It panics on text that is none of this.
func Wire(text string) []byte {
	out, rest := wireUntil(text, 0)
	if rest != "" {
		panic("wire: left over " + rest + " of " + text)
	}
	return out
}

func wireUntil(text string, end byte) (out []byte, rest string) {
	for text != "" {
		switch c := text[0]; {
		case end != 0 && c == end:
			return out, text[1:]
		case c == ' ' || c == '\n' || c == '\t':
			text = text[1:]
		case c == '\'' || c == '"':
			s, after, ok := strings.Cut(text[1:], string(c))
			if !ok {
				panic("wire: open quote in " + text)
			}
			if c == '"' {
				out = append(out, byte(len(s)>>8), byte(len(s)))
			}
			out, text = append(out, s...), after
		case c == '(':
			inner, after := wireUntil(text[1:], ')')
			out = append(appendLength(out, len(inner)), inner...)
			text = after
		default:
			b, err := hex.DecodeString(text[:min(2, len(text))])
			if err != nil || len(b) == 0 {
				panic(fmt.Sprintf("wire: %q is not hexadecimal", text))
			}
			out, text = append(out, b...), text[2:]
		}
	}
	if end != 0 {
		panic("wire: parenthesis not closed")
	}
	return out, ""
}

func appendLength(dst []byte, n int) []byte {
	for n >= 0x80 {
		dst = append(dst, byte(n)|0x80)
		n >>= 7
	}
	return append(dst, byte(n))
}
