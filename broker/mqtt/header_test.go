package mqtt

import (
	"errors"
	"testing"
)

func TestHeaderIsReadOnceItIsWhole(t *testing.T) {
	for _, size := range []int{0, 127, 128, 16383, 16384, 2097151, 2097152, MaxRemaining} {
		whole := appendVarint([]byte{0x3B}, size)
		for n := range len(whole) {
			if h, ok, err := ParseHeader(whole[:n]); ok || err != nil {
				t.Errorf("%d of %d bytes of the header for %d: %+v, %v, %v; want not ok", n, len(whole), size, h, ok, err)
			}
		}
		want := Header{Type: PUBLISH, Flags: 0x0B, Remaining: size, Size: len(whole)}
		h, ok, err := ParseHeader(append(whole, 0xFF, 0xFF))
		if !ok || err != nil || h != want {
			t.Errorf("header for %d: %+v, %v, %v; want %+v", size, h, ok, err, want)
		}
		if len(whole) != 1+varintSize(size) {
			t.Errorf("varintSize(%d) = %d, encoded in %d", size, varintSize(size), len(whole)-1)
		}
	}
}

func TestForbiddenPacketTypeIsSeenInTheFirstByte(t *testing.T) {
	if _, ok, err := ParseHeader([]byte{0x0F}); ok || !errors.Is(err, MalformedPacket) {
		t.Errorf("packet type 0: ok %v, error %v; want %v", ok, err, MalformedPacket)
	}
}

func TestBadHeadersAreRefusedBeforeTheBodyIsThere(t *testing.T) {
	for _, x := range headerRules {
		b := wire(x.wire)
		h, _, err := ParseHeader(b[:min(len(b), 5)])
		if err == nil {
			err = h.Validate(x.v)
		}
		if err == nil && h.Type == PINGREQ {
			err = DecodePing(h)
		}
		if !errors.Is(err, x.code) {
			t.Errorf("MQTT %s %s: error %v, want %v", x.v, x.name, err, x.code)
		}
	}
	if err := DecodePing(Header{Type: PUBLISH}); !errors.Is(err, ProtocolError) {
		t.Errorf("PUBLISH decoded as a ping: error %v, want %v", err, ProtocolError)
	}
}

func TestPacketNamesAreTheStandards(t *testing.T) {
	if got := SUBSCRIBE.String() + " " + AUTH.String() + " " + PacketType(16).String(); got != "SUBSCRIBE AUTH packet type 16" {
		t.Error(got)
	}
	if got := V31.String() + " " + V311.String() + " " + V5.String() + " " + Version(9).String(); got != "3.1 3.1.1 5 level 9" {
		t.Error(got)
	}
}
