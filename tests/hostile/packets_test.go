package hostile_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/harness"
)

// malformed returns broken packets of every type there is, and of those there are
// not, by name. Each must cost its sender the connection.
func malformed() map[string][]byte {
	packets := map[string][]byte{
		"remaining length of five bytes": {0x30, 0xff, 0xff, 0xff, 0xff, 0x01},
		"type 0":                         {0x00, 0x00},
		"PUBLISH of QoS 3":               {0x36, 0x05, 0x00, 0x01, 'a', 0x00, 0x01},
		"PUBLISH with DUP at QoS 0":      {0x38, 0x04, 0x00, 0x01, 'a', 0x00},
		"PUBLISH with a wildcard":        {0x30, 0x04, 0x00, 0x01, '#', 0x00},
		"PUBLISH with NUL in its topic":  {0x30, 0x04, 0x00, 0x01, 0x00, 0x00},
		"PUBLISH of broken UTF-8":        {0x30, 0x05, 0x00, 0x02, 0xc3, 0x28, 0x00},
		"PUBLISH without a topic":        {0x30, 0x03, 0x00, 0x00, 0x00},
		"PUBLISH with packet id 0":       {0x32, 0x06, 0x00, 0x01, 'a', 0x00, 0x00, 0x00},
		"PUBLISH with topic alias 0":     {0x30, 0x07, 0x00, 0x01, 'a', 0x03, 0x23, 0x00, 0x00},
		"PUBLISH of unknown property":    {0x30, 0x06, 0x00, 0x01, 'a', 0x02, 0x7f, 0x00},
		"PUBLISH with properties cut":    {0x30, 0x04, 0x00, 0x01, 'a', 0x7f},
		"SUBSCRIBE without filters":      {0x82, 0x03, 0x00, 0x01, 0x00},
		"SUBSCRIBE with packet id 0":     {0x82, 0x07, 0x00, 0x00, 0x00, 0x00, 0x01, 'a', 0x00},
		"SUBSCRIBE with reserved option": {0x82, 0x07, 0x00, 0x01, 0x00, 0x00, 0x01, 'a', 0xc0},
		"SUBSCRIBE at QoS 3":             {0x82, 0x07, 0x00, 0x01, 0x00, 0x00, 0x01, 'a', 0x03},
		"SUBSCRIBE with identifier 0":    {0x82, 0x09, 0x00, 0x01, 0x02, 0x0b, 0x00, 0x00, 0x01, 'a', 0x00},
		"UNSUBSCRIBE without filters":    {0xa2, 0x03, 0x00, 0x01, 0x00},
		"PINGREQ with a body":            {0xc0, 0x01, 0x00},
		"DISCONNECT of server's code":    {0xe0, 0x01, 0x8b},
		"second CONNECT":                 {0x10, 0x0d, 0x00, 0x04, 'M', 'Q', 'T', 'T', 0x05, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00},
		"AUTH without a method":          {0xf0, 0x02, 0x18, 0x00},
	}
	for kind := mqtt.CONNECT; kind <= mqtt.AUTH; kind++ {
		// Flags no packet of that type has.
		flags := byte(0x05)
		if kind == mqtt.PUBLISH {
			flags = 0x06
		}
		packets[fmt.Sprintf("%v with wrong flags", kind)] = []byte{byte(kind)<<4 | flags, 0x02, 0x00, 0x01}
		// A body of one byte holds none of them but the empty ones.
		if kind != mqtt.DISCONNECT && kind != mqtt.AUTH {
			required := byte(0)
			if kind == mqtt.PUBREL || kind == mqtt.SUBSCRIBE || kind == mqtt.UNSUBSCRIBE {
				required = 0x02
			}
			packets[fmt.Sprintf("%v cut short", kind)] = []byte{byte(kind)<<4 | required, 0x01, 0xff}
		}
	}
	for _, kind := range []mqtt.PacketType{mqtt.CONNACK, mqtt.SUBACK, mqtt.UNSUBACK, mqtt.PINGRESP} {
		packets[fmt.Sprintf("%v, which only servers send", kind)] = []byte{byte(kind) << 4, 0x00}
	}
	return packets
}

// TestMalformedPacketsBeforeSignIn: the connection is closed; a CONNACK may say why.
func TestMalformedPacketsBeforeSignIn(t *testing.T) {
	r := start(t)
	for name, packet := range malformed() {
		if name == "second CONNECT" {
			continue // a first one, here
		}
		c := dial(t, r.TCP)
		if _, err := c.Write(packet); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if answer := closed(t, c, name); len(answer) > 0 && (answer[0]>>4 != byte(mqtt.CONNACK) || answer[3] < 0x80) {
			t.Errorf("%s before sign-in is answered with % x", name, answer)
		}
	}
}

// TestMalformedPacketsAfterSignIn: a DISCONNECT says why, with a code that means an
// error, and the connection is closed.
func TestMalformedPacketsAfterSignIn(t *testing.T) {
	r := start(t)
	for name, packet := range malformed() {
		c := r.Client(t, attacker, "malformed")
		c.Send(packet)
		if code := c.ExpectClosed(); code < 0x80 {
			t.Errorf("%s: the connection was closed with %v, want a reason of 0x80 or above", name, code)
		}
	}
}

// TestOversizePackets: a packet larger than allowed is refused by its length alone,
// before its body is read.
func TestOversizePackets(t *testing.T) {
	r := start(t)
	length := func(kind mqtt.PacketType, n int) []byte {
		return binary.AppendUvarint([]byte{byte(kind) << 4}, uint64(n))
	}
	for _, n := range []int{1 << 17, 1 << 24, 268435455} {
		c := dial(t, r.TCP)
		if _, err := c.Write(length(mqtt.CONNECT, n)); err != nil {
			t.Fatal(err)
		}
		closed(t, c, fmt.Sprintf("a CONNECT of %d bytes", n))

		signedIn := r.Client(t, attacker, "oversize")
		signedIn.Send(length(mqtt.PUBLISH, n))
		if code := signedIn.ExpectClosed(); code != mqtt.PacketTooLarge {
			t.Errorf("a PUBLISH of %d bytes: closed with %v, want %v", n, code, mqtt.PacketTooLarge)
		}
	}
}

// TestNoise: bytes that mean nothing, before and after sign-in.
func TestNoise(t *testing.T) {
	r := start(t)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 300 {
		noise := make([]byte, 1+random.IntN(2000))
		for j := range noise {
			noise[j] = byte(random.Uint32())
		}
		if i%2 == 0 {
			c := dial(t, r.TCP)
			_, _ = c.Write(noise) // it may be closed before all is written
			closed(t, c, "noise before sign-in")
			continue
		}
		c := r.Client(t, attacker, "noise")
		_, _ = c.Write(noise)
		c.Close()
	}
}

// TestFloodOfRefusedPublishes: values the broker refuses cost the others nothing.
func TestFloodOfRefusedPublishes(t *testing.T) {
	r := start(t)
	c := r.Client(t, attacker, "refused")
	var burst []byte
	for _, topic := range []string{"no/inbox", harness.Inbox(healthy, "someone/else"), harness.Data("data/topic"), harness.Inbox(attacker, "broken")} {
		p := mqtt.Publish{Topic: []byte(topic), Payload: []byte(`{"value":`)}
		burst = p.Append(burst, mqtt.V5)
	}
	c.Send(bytes.Repeat(burst, 2000))
	c.ExpectNothing()
}
