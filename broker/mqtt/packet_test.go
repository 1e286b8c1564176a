package mqtt

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
)

func TestPacketsDecodeAndEncodeAsTheStandardWritesThem(t *testing.T) {
	names := map[string]bool{}
	for _, x := range vectors {
		if names[x.name] {
			t.Errorf("two vectors are named %q", x.name)
		}
		names[x.name] = true
		t.Run(x.name, func(t *testing.T) {
			want := wire(x.wire)
			if !x.decodeOnly {
				got := x.packet.Append([]byte("before"), x.v)
				if !bytes.HasPrefix(got, []byte("before")) || !bytes.Equal(got[len("before"):], want) {
					t.Errorf("encoded\n %x, want\n %x behind what was there before", got, want)
				}
			}
			if x.encodeOnly {
				return
			}
			got, err := decode(x.v, want)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, x.packet) {
				t.Errorf("decoded\n %+v, want\n %+v", got, x.packet)
			}
		})
	}
}

// A packet cut short anywhere is refused; what the shorter body happens to be is
// a whole packet where the standard lets its end be left out.
func TestPacketsCutShortAreRefused(t *testing.T) {
	for _, x := range vectors {
		if x.encodeOnly {
			continue
		}
		whole := wire(x.wire)
		h, _, err := ParseHeader(whole)
		if err != nil {
			t.Fatal(x.name, err)
		}
		for n := range h.Remaining {
			cut := h
			cut.Remaining = n
			p := newPacket(h.Type)
			err := p.Decode(x.v, cut, whole[h.Size:h.Size+n])
			if err == nil {
				again := p.Append(nil, x.v)
				if q, err := decode(x.v, again); err != nil || !reflect.DeepEqual(p, q) {
					t.Errorf("%s cut to %d bytes decodes to %+v, which encodes to %x: %+v, %v", x.name, n, p, again, q, err)
				}
				continue
			}
			var e *Error
			if !errors.As(err, &e) || e.Detail == "" {
				t.Errorf("%s cut to %d bytes: error %#v, want an *Error with a detail", x.name, n, err)
			}
		}
	}
}

func TestEveryPropertyHasAVectorOnEveryPacketItMayStandOn(t *testing.T) {
	seen := map[property]packetSet{}
	for _, x := range vectors {
		if x.v != V5 || x.encodeOnly {
			continue
		}
		whole := wire(x.wire)
		h, _, _ := ParseHeader(whole)
		for _, found := range propertiesOf(t, h, whole[h.Size:]) {
			seen[found.p] |= 1 << found.on
		}
	}
	for p, row := range propertyTable {
		if missing := row.on &^ seen[property(p)]; missing != 0 {
			t.Errorf("%s: no vector on packet types %016b", property(p), missing)
		}
	}
}

type foundProperty struct {
	p  property
	on PacketType
}

// propertiesOf lists the properties of an MQTT 5 packet, by skipping over them
// without the decoders under test.
func propertiesOf(t *testing.T, h Header, body []byte) (found []foundProperty) {
	r := reader{rest: body, v: V5, t: h.Type}
	block := func(on PacketType) {
		size := r.varint("length")
		for end := len(r.rest) - size; len(r.rest) > end && r.err == nil; {
			p := property(r.uint8("identifier"))
			found = append(found, foundProperty{p, on})
			switch p {
			case payloadFormat, requestProblem, requestResponse, maximumQoS, retainAvailable, wildcardAvailable, identifiersAvailable, sharedAvailable:
				r.uint8("")
			case serverKeepAlive, receiveMaximum, topicAliasMaximum, topicAlias:
				r.uint16("")
			case messageExpiry, sessionExpiry, willDelay, maximumPacketSize:
				r.uint32("")
			case subscriptionIdentifier:
				r.varint("")
			case userProperty:
				r.bytes("")
				r.bytes("")
			default:
				r.bytes("")
			}
		}
	}
	switch h.Type {
	case CONNECT:
		flags := body[7]
		r.rest = body[10:]
		block(CONNECT)
		r.bytes("client identifier")
		if flags&flagWill != 0 {
			block(will)
		}
	case PUBLISH:
		r.bytes("topic")
		if h.Flags&6 != 0 {
			r.uint16("identifier")
		}
		block(PUBLISH)
	case CONNACK:
		r.uint16("flags and code")
		block(CONNACK)
	case SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK:
		r.uint16("identifier")
		block(h.Type)
	case PUBACK, PUBREC, PUBREL, PUBCOMP:
		if len(body) > 3 {
			r.rest = body[3:]
			block(h.Type)
		}
	case DISCONNECT, AUTH:
		if len(body) > 1 {
			r.rest = body[1:]
			block(h.Type)
		}
	}
	if r.err != nil {
		t.Fatalf("vector %x: %v", body, r.err)
	}
	return found
}

func TestDecodeOwnsItsMemoryExceptTopicAndPayload(t *testing.T) {
	for _, x := range vectors {
		if x.encodeOnly {
			continue
		}
		whole := wire(x.wire)
		got, err := decode(x.v, whole)
		if err != nil {
			t.Fatal(x.name, err)
		}
		for i := range whole {
			whole[i] = 0xEE
		}
		if p, ok := got.(*Publish); ok {
			want := x.packet.(*Publish)
			p.Topic, p.Payload = want.Topic, want.Payload
		}
		if !reflect.DeepEqual(got, x.packet) {
			t.Errorf("%s: after its body changed %+v, want %+v", x.name, got, x.packet)
		}
	}
}

func TestDecodeResetsThePacket(t *testing.T) {
	used := map[PacketType]packet{}
	for _, x := range vectors {
		if x.encodeOnly {
			continue
		}
		whole := wire(x.wire)
		h, _, _ := ParseHeader(whole)
		p, ok := used[h.Type]
		if !ok {
			p = newPacket(h.Type)
			used[h.Type] = p
		}
		if err := p.Decode(x.v, h, whole[h.Size:]); err != nil {
			t.Fatal(x.name, err)
		}
		if !reflect.DeepEqual(p, x.packet) {
			t.Errorf("%s decoded into a used packet: %+v, want %+v", x.name, p, x.packet)
		}
	}
}
