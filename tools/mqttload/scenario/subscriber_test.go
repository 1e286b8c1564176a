package scenario

import (
	"testing"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tools/mqttload/wire"
)

// Missing, repeated and out of order are told apart by what was received, whatever DUP
// flags say.
func TestASubscriberTellsLateFromRepeated(t *testing.T) {
	for _, c := range []struct {
		name                         string
		sequences                    []uint32
		missing, repeated, unordered int64
	}{
		{"in order", []uint32{1, 2, 3}, 0, 0, 0},
		{"one lost", []uint32{1, 3, 4}, 1, 0, 0},
		{"one twice", []uint32{1, 2, 2, 3, 1}, 0, 2, 0},
		{"reversed", []uint32{4, 3, 2, 1}, 0, 0, 3},
		{"late, and then once more", []uint32{1, 3, 2, 2, 4}, 0, 1, 1},
	} {
		for _, flags := range []byte{0, 8} { // DUP
			s := &subscriber{target: &Target{}, conn: &wire.Conn{}, last: make([]uint32, 1), delivered: make([]int64, 1)}
			for _, n := range c.sequences {
				payload, err := newPayload(MinPayload)
				if err != nil {
					t.Fatal(err)
				}
				stamp{1, 0, n}.put(payload)
				s.publish(s.conn, mqtt.Header{Type: mqtt.PUBLISH, Flags: flags}, append([]byte{0, 1, 'a'}, payload...))
			}
			if s.missing != c.missing || s.repeated != c.repeated || s.unordered != c.unordered {
				t.Errorf("%s, flags %d: %d missing, %d repeated, %d out of order, want %d, %d, %d",
					c.name, flags, s.missing, s.repeated, s.unordered, c.missing, c.repeated, c.unordered)
			}
			if want := int64(len(c.sequences)) - c.repeated; s.total != want {
				t.Errorf("%s: %d values counted, want %d", c.name, s.total, want)
			}
		}
	}
}
