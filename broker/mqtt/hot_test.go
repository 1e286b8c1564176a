package mqtt

import (
	"bytes"
	"testing"

	"maestrohub.io/uns/broker/value"
)

// hotPublish is the packet the broker lives on: QoS 1, 256 bytes of payload.
func hotPublish(v Version) []byte {
	p := Publish{QoS: 1, Topic: []byte("mHv1.0/acme/_ingress/press-7/line/1/temperature"), PacketID: 77, Payload: bytes.Repeat([]byte("x"), 256)}
	return p.Append(nil, v)
}

func hotDelivery() *Delivery {
	return &Delivery{QoS: 1, PacketID: 9, Alias: 3, Expiry: 60, HasExpiry: true, SubscriptionIDs: []uint32{1, 200}}
}

func hotShared(v Version) *Shared {
	return NewShared(v, "mHv1.0/acme/line/1/temperature", &value.Properties{HasContentType: true, ContentType: "application/json"}, bytes.Repeat([]byte("x"), 256))
}

func hotPaths(v Version) map[string]func() {
	publish, alias := hotPublish(v), hotPublish(v)
	if v >= V5 {
		p := Publish{QoS: 1, Topic: []byte{}, PacketID: 7, TopicAlias: 3, HasAlias: true, MessageExpiry: 9, HasExpiry: true, Payload: []byte("1")}
		alias = p.Append(nil, v)
	}
	ack := AppendAck(nil, v, PUBACK, 77, NotAuthorized)
	dst := make([]byte, 0, 4096)
	shared, delivery := hotShared(v), hotDelivery()
	var p Publish
	var a Ack
	must := func(h Header, ok bool, err error) Header {
		if err != nil || !ok {
			panic(err)
		}
		return h
	}
	check := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	return map[string]func(){
		"decode PUBLISH": func() {
			h := must(ParseHeader(publish))
			check(p.Decode(v, h, publish[h.Size:]))
		},
		"decode PUBLISH with alias and expiry": func() {
			h := must(ParseHeader(alias))
			check(p.Decode(v, h, alias[h.Size:]))
		},
		"encode PUBLISH": func() { dst = p.Append(dst[:0], v) },
		"decode PUBACK": func() {
			h := must(ParseHeader(ack))
			check(a.Decode(v, h, ack[h.Size:]))
		},
		"encode PUBACK":       func() { dst = a.Append(dst[:0], v) },
		"append PUBACK":       func() { dst = AppendAck(dst[:0], v, PUBACK, 77, Success) },
		"encode a shared one": func() { dst = shared.Append(dst[:0], delivery) },
		"size of a shared one": func() {
			if shared.Size(delivery) == 0 {
				panic("size 0")
			}
		},
	}
}

func TestHotPathAllocatesNothing(t *testing.T) {
	for _, v := range []Version{V31, V311, V5} {
		paths := hotPaths(v)
		paths["decode PUBLISH"]() // fills the packet the encoders encode
		paths["decode PUBACK"]()
		for name, run := range paths {
			if n := testing.AllocsPerRun(100, run); n != 0 {
				t.Errorf("MQTT %s: %s allocates %v times, want 0", v, name, n)
			}
		}
	}
}

func BenchmarkHotPath(b *testing.B) {
	for _, v := range []Version{V311, V5} {
		paths := hotPaths(v)
		for _, name := range []string{"decode PUBLISH", "encode PUBLISH", "decode PUBLISH with alias and expiry", "decode PUBACK", "encode PUBACK", "append PUBACK",
			"encode a shared one", "size of a shared one"} {
			b.Run(v.String()+" "+name, func(b *testing.B) {
				run := paths[name]
				b.ReportAllocs()
				for b.Loop() {
					run()
				}
			})
		}
	}
}

func BenchmarkOtherPackets(b *testing.B) {
	for _, x := range vectors {
		if x.v != V5 || x.encodeOnly || x.decodeOnly || len(x.name) < 14 || x.name[len(x.name)-14:] != "every property" {
			continue
		}
		whole := wire(x.wire)
		h, _, err := ParseHeader(whole)
		if err != nil {
			b.Fatal(err)
		}
		b.Run("decode "+x.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := x.packet.Decode(V5, h, whole[h.Size:]); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("encode "+x.name, func(b *testing.B) {
			b.ReportAllocs()
			var dst []byte
			for b.Loop() {
				dst = x.packet.Append(dst[:0], V5)
			}
		})
	}
}

func BenchmarkNewShared(b *testing.B) {
	payload := bytes.Repeat([]byte("x"), 256)
	for name, props := range map[string]*value.Properties{"no property": {}, "user properties": {HasContentType: true, ContentType: "application/json", User: users("a", "b", "c", "d")}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				NewShared(V5, "mHv1.0/acme/line/1/temperature", props, payload)
			}
		})
	}
}

func BenchmarkText(b *testing.B) {
	for name, text := range map[string]string{"ASCII 48": "mHv1.0/acme/_ingress/press-7/line/1/temperature0", "umlauts 48": "mHv1.0/acme/_ingress/press-7/line/1/Außentemper."} {
		b.Run(name, func(b *testing.B) {
			bytes := []byte(text)
			b.SetBytes(int64(len(bytes)))
			for b.Loop() {
				if !plainName(bytes) {
					textFault(bytes)
				}
			}
		})
	}
}
