package mqtt

import (
	"errors"
	"fmt"
	"testing"
)

// listedCodes is table 2-6 read by packet, to hold against the table by code.
var listedCodes = map[PacketType][]ReasonCode{
	CONNACK:  {0x00, 0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8A, 0x8C, 0x90, 0x95, 0x97, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9F},
	PUBACK:   {0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99},
	PUBREC:   {0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99},
	PUBREL:   {0x00, 0x92},
	PUBCOMP:  {0x00, 0x92},
	SUBACK:   {0x00, 0x01, 0x02, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2},
	UNSUBACK: {0x00, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91},
	DISCONNECT: {0x00, 0x04, 0x80, 0x81, 0x82, 0x83, 0x87, 0x89, 0x8B, 0x8C, 0x8D, 0x8E, 0x8F, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99,
		0x9A, 0x9B, 0x9C, 0x9D, 0x9E, 0x9F, 0xA0, 0xA1, 0xA2},
	AUTH: {0x00, 0x18, 0x19},
}

// clientCodes are those a client may send.
var clientCodes = map[PacketType][]ReasonCode{
	PUBACK: listedCodes[PUBACK], PUBREC: listedCodes[PUBREC], PUBREL: listedCodes[PUBREL], PUBCOMP: listedCodes[PUBCOMP],
	DISCONNECT: {0x00, 0x04, 0x80, 0x81, 0x82, 0x83, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99},
	AUTH:       {0x18, 0x19},
}

func TestReasonCodesAreListedForTheStandardsPackets(t *testing.T) {
	has := func(codes []ReasonCode, c ReasonCode) bool {
		for _, x := range codes {
			if x == c {
				return true
			}
		}
		return false
	}
	for typ := CONNECT; typ <= AUTH; typ++ {
		for n := range 256 {
			c := ReasonCode(n)
			if got, want := c.ListedFor(typ), has(listedCodes[typ], c); got != want {
				t.Errorf("%s listed for %s: %v, want %v", c.Error(), typ, got, want)
			}
			if got, want := c.FromClient(typ), has(clientCodes[typ], c); got != want {
				t.Errorf("%s from a client in %s: %v, want %v", c.Error(), typ, got, want)
			}
			if typ == AUTH {
				continue // has no failure to send
			}
			if listedCodes[typ] != nil && !c.listed(typ).ListedFor(typ) {
				t.Errorf("%s is sent in %s as %s, which is not listed", c.Error(), typ, c.listed(typ).Error())
			}
			if c >= 0x80 && listedCodes[typ] != nil && c.listed(typ) < 0x80 {
				t.Errorf("failure %s is sent in %s as success", c.Error(), typ)
			}
		}
	}
}

func TestConnectReturnCodesComeBack(t *testing.T) {
	for n, c := range connectReturns {
		if got := c.ConnectReturn(); int(got) != n {
			t.Errorf("%s: return code %d, want %d", c, got, n)
		}
	}
	for n := range 256 {
		c := ReasonCode(n)
		if got := c.ConnectReturn(); (got == 0) != (c < 0x80) || got > 5 {
			t.Errorf("%s: return code %d", c.Error(), got)
		}
	}
	for c, want := range map[ReasonCode]byte{ServerBusy: 3, QuotaExceeded: 3, ServerShuttingDown: 3, Banned: 5, BadAuthenticationMethod: 4} {
		if got := c.ConnectReturn(); got != want {
			t.Errorf("%s: return code %d, want %d", c, got, want)
		}
	}
}

func TestErrorsNameCodeDetailAndStatement(t *testing.T) {
	_, err := decode(V5, wire(`30 ("a/#" ())`))
	if got, want := err.Error(), `Malformed Packet (0x81): PUBLISH: topic name "a/#" has a wildcard [MQTT-3.3.2-2]`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	err = fmt.Errorf("read packet: %w", err)
	if !errors.Is(err, MalformedPacket) || errors.Is(err, TopicNameInvalid) {
		t.Errorf("%v is not just %v", err, MalformedPacket)
	}
	if got := ReasonCode(0x7E).Error() + ", " + Success.String(); got != "reason code 0x7E, Success" {
		t.Error(got)
	}
	if got := (&Error{Code: ProtocolError, Detail: "x"}).Error(); got != "Protocol Error (0x82): x" {
		t.Error(got)
	}
}
