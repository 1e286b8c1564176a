package mqtt

import (
	"bytes"
	"testing"
)

type limitedPacket interface {
	packet
	AppendLimited(dst []byte, v Version, max uint32) []byte
}

func TestPacketsGiveUpUserPropertiesThenTheReasonStringThenThemselves(t *testing.T) {
	user := users("key", "value")
	for _, x := range []struct {
		statements                  string
		whole                       limitedPacket
		noUser, noReason, wholeWire string
	}{
		{"MQTT-3.2.2-19 MQTT-3.2.2-20", &Connack{Code: NotAuthorized, ReasonString: "why", User: user, ServerReference: "s"},
			`20 (00 87 (1C "s" 1F "why"))`, `20 (00 87 (1C "s"))`, `20 (00 87 (1C "s" 1F "why" 26 "key" "value"))`},
		{"MQTT-3.4.2-2 MQTT-3.4.2-3", &Ack{Type: PUBACK, PacketID: 1, Code: NotAuthorized, ReasonString: "why", User: user},
			`40 (0001 87 (1F "why"))`, `40 (0001 87)`, `40 (0001 87 (1F "why" 26 "key" "value"))`},
		{"MQTT-3.5.2-2 MQTT-3.5.2-3", &Ack{Type: PUBREC, PacketID: 1, Code: NotAuthorized, ReasonString: "why", User: user},
			`50 (0001 87 (1F "why"))`, `50 (0001 87)`, `50 (0001 87 (1F "why" 26 "key" "value"))`},
		{"MQTT-3.6.2-2 MQTT-3.6.2-3", &Ack{Type: PUBREL, PacketID: 1, ReasonString: "why", User: user},
			`62 (0001 00 (1F "why"))`, `62 (0001)`, `62 (0001 00 (1F "why" 26 "key" "value"))`},
		{"MQTT-3.7.2-2 MQTT-3.7.2-3", &Ack{Type: PUBCOMP, PacketID: 1, ReasonString: "why", User: user},
			`70 (0001 00 (1F "why"))`, `70 (0001)`, `70 (0001 00 (1F "why" 26 "key" "value"))`},
		{"MQTT-3.9.2-1 MQTT-3.9.2-2", &Suback{PacketID: 1, Codes: []ReasonCode{0}, ReasonString: "why", User: user},
			`90 (0001 (1F "why") 00)`, `90 (0001 () 00)`, `90 (0001 (1F "why" 26 "key" "value") 00)`},
		{"MQTT-3.11.2-1 MQTT-3.11.2-2", &Unsuback{PacketID: 1, Codes: []ReasonCode{0}, ReasonString: "why", User: user},
			`B0 (0001 (1F "why") 00)`, `B0 (0001 () 00)`, `B0 (0001 (1F "why" 26 "key" "value") 00)`},
		{"MQTT-3.14.2-3 MQTT-3.14.2-4", &Disconnect{Code: ServerMoved, ReasonString: "why", User: user, ServerReference: "s"},
			`E0 (9D (1C "s" 1F "why"))`, `E0 (9D (1C "s"))`, `E0 (9D (1C "s" 1F "why" 26 "key" "value"))`},
		{"MQTT-3.15.2-2 MQTT-3.15.2-3", &Auth{Code: ContinueAuthentication, Method: "M", ReasonString: "why", User: user},
			`F0 (18 (15 "M" 1F "why"))`, `F0 (18 (15 "M"))`, `F0 (18 (15 "M" 1F "why" 26 "key" "value"))`},
	} {
		t.Run(x.statements, func(t *testing.T) {
			forms := [][]byte{wire(x.wholeWire), wire(x.noUser), wire(x.noReason), {}}
			for max := uint32(0); int(max) <= len(forms[0])+1; max++ {
				want := forms[0]
				for i := 0; max != 0 && len(want) > int(max); i++ {
					want = forms[i+1]
				}
				got := x.whole.AppendLimited([]byte("before"), V5, max)
				if !bytes.Equal(got, append([]byte("before"), want...)) {
					t.Errorf("limit %d: %x, want %x", max, got[len("before"):], want)
				}
			}
			if !bytes.Equal(x.whole.Append(nil, V5), forms[0]) {
				t.Error("AppendLimited changed the packet")
			}
		})
	}
}

// A reason string quotes what a client sent, which may be as long as a string can be.
func TestReasonStringsTooLongForTheirLengthAreCutAtACharacter(t *testing.T) {
	long := string(bytes.Repeat([]byte("ä"), 40000))
	p, err := decode(V5, (&Disconnect{Code: ProtocolError, ReasonString: "x" + long}).Append(nil, V5))
	if err != nil {
		t.Fatal(err)
	}
	if got := p.(*Disconnect).ReasonString; len(got) != 65535 || got != ("x" + long)[:65535] {
		t.Errorf("cut to %d bytes, want 65535", len(got))
	}
	p, err = decode(V5, (&Disconnect{Code: ProtocolError, ReasonString: long}).Append(nil, V5))
	if err != nil {
		t.Fatal(err)
	}
	if got := p.(*Disconnect).ReasonString; got != long[:65534] {
		t.Errorf("cut to %d bytes, want 65534", len(got))
	}
}

func TestBinaryDataTooLongForItsLengthIsCut(t *testing.T) {
	c := Connect{ClientID: "c", Password: make([]byte, 70000), HasPassword: true, RequestProblemInformation: true}
	p, err := decode(V5, c.Append(nil, V5))
	if err != nil || len(p.(connect).Password) != 65535 {
		t.Errorf("password of 70000 bytes: %v, error %v", p, err)
	}
}
