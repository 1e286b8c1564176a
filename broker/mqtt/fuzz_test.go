package mqtt

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"maestrohub.io/uns/broker/value"
)

// What decodes is encoded again in no more bytes than allowed, and decodes to the
// same; what does not is an *Error that says why.
func FuzzDecode(f *testing.F) {
	for _, x := range vectors {
		if !x.encodeOnly {
			f.Add(byte(x.v), wire(x.wire))
		}
	}
	for _, x := range rules {
		f.Add(byte(x.v), wire(x.wire))
	}
	f.Fuzz(func(t *testing.T, level byte, b []byte) {
		v := V31 + Version(level)%3
		h, ok, err := ParseHeader(b)
		if err != nil {
			checkError(t, err)
			return
		}
		if !ok || len(b) < h.Size+h.Remaining {
			return
		}
		p := newPacket(h.Type)
		if err := p.Decode(v, h, b[h.Size:h.Size+h.Remaining]); err != nil {
			checkError(t, err)
			return
		}
		if c, ok := p.(connect); ok {
			v = c.Version
		}
		again := p.Append(nil, v)
		q, err := decode(v, again)
		if err != nil {
			t.Fatalf("%x decodes to %+v, encoded again as %x: %v", b, p, again, err)
		}
		if !reflect.DeepEqual(p, q) {
			t.Fatalf("%x decodes to\n %+v, encoded again as %x to\n %+v", b, p, again, q)
		}
		if third := q.Append(nil, v); !bytes.Equal(again, third) {
			t.Fatalf("%+v encodes to %x, then %x", p, again, third)
		}
	})
}

func checkError(t *testing.T, err error) {
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("error %#v, want an *Error", err)
	}
	if e.Code < 0x80 || e.Detail == "" || !utf8.ValidString(e.Detail) || len(e.Detail) > 1000 || e.Statement != "" && !strings.HasPrefix(e.Statement, "MQTT-") {
		t.Fatalf("error %+v is not fit to be sent", e)
	}
}

// A shared message and a packet of one's own are the same bytes.
func FuzzShared(f *testing.F) {
	f.Add(byte(5), byte(1), true, uint16(9), uint16(3), uint32(60), uint32(128), "a/b", "json", "r", "k", []byte("id"), []byte("payload"))
	f.Add(byte(4), byte(0), false, uint16(0), uint16(0), uint32(0), uint32(0), "a", "", "", "", []byte(nil), []byte(nil))
	f.Fuzz(func(t *testing.T, level, qos byte, dup bool, id, alias uint16, expiry, subscription uint32, topic, contentType, response, user string, correlation, payload []byte) {
		v := V31 + Version(level)%3
		props := value.Properties{HasContentType: true, ContentType: contentType, ResponseTopic: response, CorrelationData: correlation, User: users("", user)}
		d := Delivery{QoS: qos % 3, Dup: dup, Retain: dup, PacketID: id, Alias: alias, Expiry: expiry, HasExpiry: expiry != 0, SubscriptionIDs: []uint32{subscription % (MaxRemaining + 1)}}
		s := NewShared(v, topic, &props, payload)
		got := s.Append(nil, &d)
		if len(got) != s.Size(&d) {
			t.Fatalf("%d bytes, Size says %d", len(got), s.Size(&d))
		}
		p := Publish{QoS: d.QoS, Dup: d.Dup, Retain: d.Retain, Topic: []byte(topic), PacketID: id, TopicAlias: alias, HasAlias: alias != 0, MessageExpiry: expiry, HasExpiry: expiry != 0,
			SubscriptionIDs: d.SubscriptionIDs, Properties: props, Payload: payload}
		if want := p.Append(nil, v); !bytes.Equal(got, want) {
			t.Fatalf("shared %x, own %x", got, want)
		}
	})
}

// The fast checks agree with the plain definition.
func FuzzText(f *testing.F) {
	for _, text := range []string{"", "a", "abcdefgh", "abcdefg\x00", "abcdefghi+", "\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7f", "\x80bcdefgh", "\x01\x01\x01\x01\x01\x01\x01\x00", "ä#", "\xED\xA0\x80", "\xFF"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		ascii, wildcard := true, bytes.ContainsAny(b, "+#")
		for _, c := range b {
			ascii = ascii && c != 0 && c < 0x80
		}
		if plain(b) != ascii {
			t.Errorf("plain(%q) = %v", b, !ascii)
		}
		if plainName(b) != (ascii && !wildcard) {
			t.Errorf("plainName(%q) = %v", b, plainName(b))
		}
		fault, _ := textFault(b)
		if want := !utf8.Valid(b) || bytes.IndexByte(b, 0) >= 0; (fault != "") != want {
			t.Errorf("textFault(%q) = %q", b, fault)
		}
		if said := sayable(string(b)); !utf8.ValidString(said) || strings.ContainsRune(said, 0) {
			t.Errorf("sayable(%q) = %q", b, said)
		}
	})
}
