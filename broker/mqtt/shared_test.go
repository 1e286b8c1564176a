package mqtt

import (
	"bytes"
	"reflect"
	"testing"

	"maestrohub.io/uns/broker/value"
)

var sharedProperties = value.Properties{PayloadFormat: 1, HasPayloadFormat: true, HasContentType: true, ContentType: "json", ResponseTopic: "r", CorrelationData: []byte{0}, User: users("k", "1", "k", "2")}

func TestSharedGivesEachSubscriberItsOwnPacket(t *testing.T) {
	payload := bytes.Repeat([]byte("x"), 150)
	deliveries := []Delivery{
		{},
		{Retain: true},
		{QoS: 1, PacketID: 1},
		{QoS: 2, PacketID: 65535, Dup: true, Retain: true},
		{QoS: 1, PacketID: 2, Expiry: 0, HasExpiry: true},
		{Alias: 7},
		{QoS: 1, PacketID: 3, Alias: 65535, OmitTopic: true, Expiry: 60, HasExpiry: true, SubscriptionIDs: []uint32{1, 128, 268435455}},
	}
	for _, v := range []Version{V31, V311, V5} {
		for _, props := range []*value.Properties{nil, {}, &sharedProperties} {
			s := NewShared(v, "a/b", props, payload)
			for _, d := range deliveries {
				b := s.Append([]byte("before"), &d)[len("before"):]
				if len(b) != s.Size(&d) {
					t.Errorf("MQTT %s %+v: %d bytes, Size says %d", v, d, len(b), s.Size(&d))
				}
				got, err := decode(v, b)
				if err != nil {
					t.Errorf("MQTT %s %+v: %v", v, d, err)
					continue
				}
				if want := delivered(v, "a/b", props, payload, d); !reflect.DeepEqual(got, want) {
					t.Errorf("MQTT %s %+v arrives as\n %+v, want\n %+v", v, d, got, want)
				}
			}
		}
	}
}

// delivered is what the subscriber of a delivery must read.
func delivered(v Version, topic string, props *value.Properties, payload []byte, d Delivery) *Publish {
	p := &Publish{Dup: d.Dup, QoS: d.QoS, Retain: d.Retain, Topic: []byte(topic), PacketID: d.PacketID, Payload: payload}
	if v < V5 {
		return p
	}
	p.TopicAlias, p.HasAlias = d.Alias, d.Alias != 0
	p.MessageExpiry, p.HasExpiry = d.Expiry, d.HasExpiry
	p.SubscriptionIDs = d.SubscriptionIDs
	if d.OmitTopic {
		p.Topic = []byte{}
	}
	if props != nil {
		p.Properties = *props
	}
	return p
}

func TestSharedNeverSendsWhatTheStandardForbids(t *testing.T) {
	s := NewShared(V5, "a", nil, []byte("1"))
	for name, x := range map[string]struct {
		d    Delivery
		want string
	}{
		"DUP at QoS 0 [MQTT-3.3.1-2]":               {Delivery{Dup: true}, `30 ("a" () '1')`},
		"packet identifier at QoS 0 [MQTT-2.2.1-2]": {Delivery{PacketID: 9}, `30 ("a" () '1')`},
		"no topic name and no alias":                {Delivery{OmitTopic: true}, `30 ("a" () '1')`},
		"subscription identifier 0":                 {Delivery{SubscriptionIDs: []uint32{0, 5, 0}}, `30 ("a" (0B 05) '1')`},
	} {
		got := s.Append(nil, &x.d)
		if want := wire(x.want); !bytes.Equal(got, want) || s.Size(&x.d) != len(want) {
			t.Errorf("%s: %x (Size %d), want %x", name, got, s.Size(&x.d), want)
		}
	}
	s = NewShared(V311, "a", nil, []byte("1"))
	if got, want := s.Append(nil, &Delivery{OmitTopic: true, Alias: 1}), wire(`30 ("a" '1')`); !bytes.Equal(got, want) {
		t.Errorf("alias before MQTT 5: %x, want %x", got, want)
	}
}

func TestPropertyLengthsAtTheEdgesOfTheirEncoding(t *testing.T) {
	for _, n := range []int{110, 118, 119, 120, 121, 122, 123, 130, 16370, 16375, 16376, 16377, 16378, 16379, 16380, 16390, 65535, 65536, 70000} {
		props := value.Properties{HasContentType: true, ContentType: string(bytes.Repeat([]byte("c"), n))}
		d := Delivery{QoS: 1, PacketID: 1}
		s := NewShared(V5, "t", &props, nil)
		b := s.Append(nil, &d)
		p, err := decode(V5, b)
		if err != nil || len(b) != s.Size(&d) {
			t.Fatalf("content type of %d bytes: %d bytes, Size %d, error %v", n, len(b), s.Size(&d), err)
		}
		if got := p.(*Publish).Append(nil, V5); !bytes.Equal(got, b) {
			t.Errorf("content type of %d bytes: Publish.Append and Shared.Append differ", n)
		}
		if got := len(p.(*Publish).Properties.ContentType); got != min(n, 65535) {
			t.Errorf("content type of %d bytes arrives as %d", n, got)
		}
	}
}
