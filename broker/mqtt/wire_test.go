package mqtt

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
)

// wire writes bytes down readably: hexadecimal digits, characters in single
// quotes as they are, in double quotes as a string with its two-byte length, and
// parentheses around what is to be preceded by its length as a variable byte
// integer. Blanks mean nothing outside quotes.
func wire(text string) []byte {
	out, rest := wireUntil(text, 0)
	if rest != "" {
		panic("wire: " + text + ": left over " + rest)
	}
	return out
}

func wireUntil(text string, end byte) (out []byte, rest string) {
	for text != "" {
		c := text[0]
		switch {
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
			out = append(appendVarint(out, len(inner)), inner...)
			text = after
		default:
			b, err := hex.DecodeString(text[:2])
			if err != nil {
				panic(fmt.Sprintf("wire: %v in %q", err, text))
			}
			out, text = append(out, b...), text[2:]
		}
	}
	if end != 0 {
		panic("wire: parenthesis not closed")
	}
	return out, ""
}

// packet is what all packets have in common.
type packet interface {
	Decode(v Version, h Header, body []byte) error
	Append(dst []byte, v Version) []byte
}

// connect and ping give the two that differ the common form.
type connect struct{ *Connect }

func (c connect) Decode(_ Version, h Header, body []byte) error { return c.Connect.Decode(h, body) }

type ping struct{ Type PacketType }

func (p *ping) Decode(_ Version, h Header, _ []byte) error { p.Type = h.Type; return DecodePing(h) }
func (p *ping) Append(dst []byte, _ Version) []byte {
	if p.Type == PINGREQ {
		return AppendPingreq(dst)
	}
	return AppendPingresp(dst)
}

func newPacket(t PacketType) packet {
	switch t {
	case CONNECT:
		return connect{&Connect{}}
	case CONNACK:
		return &Connack{}
	case PUBLISH:
		return &Publish{}
	case PUBACK, PUBREC, PUBREL, PUBCOMP:
		return &Ack{}
	case SUBSCRIBE:
		return &Subscribe{}
	case SUBACK:
		return &Suback{}
	case UNSUBSCRIBE:
		return &Unsubscribe{}
	case UNSUBACK:
		return &Unsuback{}
	case PINGREQ, PINGRESP:
		return &ping{}
	case DISCONNECT:
		return &Disconnect{}
	default:
		return &Auth{}
	}
}

// decode reads one whole packet, as a caller does.
func decode(v Version, b []byte) (packet, error) {
	h, ok, err := ParseHeader(b)
	if err != nil {
		return nil, err
	}
	if !ok || len(b) != h.Size+h.Remaining {
		return nil, fmt.Errorf("test packet %x is not whole: %+v", b, h)
	}
	p := newPacket(h.Type)
	return p, p.Decode(v, h, b[h.Size:])
}

func TestWireNotation(t *testing.T) {
	got := wire(`10 (0004 'a+' "bc" (01))`)
	if want := "10" + "0a" + "0004" + "612b" + "00026263" + "0101"; hex.EncodeToString(got) != want {
		t.Fatalf("wire notation gives %x, want %s", got, want)
	}
}
