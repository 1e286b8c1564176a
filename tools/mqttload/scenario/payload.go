package scenario

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
)

// A payload is a JSON string, which every broker takes, of the wanted size:
// quote, the stamp in hexadecimal, padding, quote. The stamp says when the value
// was meant to be sent, by whom, and its number there.
const (
	stampBytes  = 8 + 2 + 4
	stampDigits = 2 * stampBytes
	// MinPayload is the smallest payload a stamp fits in.
	MinPayload = stampDigits + 2
)

type stamp struct {
	intended  int64 // nanoseconds of the loop's clock
	publisher uint16
	sequence  uint32 // from 1, without gaps
}

// newPayload returns a payload of the size, its stamp not yet set.
func newPayload(size int) ([]byte, error) {
	if size < MinPayload {
		return nil, fmt.Errorf("payload (%d bytes) must be at least %d bytes", size, MinPayload)
	}
	p := make([]byte, size)
	for i := range p {
		p[i] = 'x'
	}
	p[0], p[size-1] = '"', '"'
	return p, nil
}

// put writes the stamp into a payload.
func (s stamp) put(payload []byte) {
	var raw [stampBytes]byte
	binary.BigEndian.PutUint64(raw[:], uint64(s.intended))
	binary.BigEndian.PutUint16(raw[8:], s.publisher)
	binary.BigEndian.PutUint32(raw[10:], s.sequence)
	hex.Encode(payload[1:1+stampDigits], raw[:])
}

// readStamp reads the stamp of a payload; ok is false if there is none.
func readStamp(payload []byte) (s stamp, ok bool) {
	var raw [stampBytes]byte
	if len(payload) < MinPayload {
		return s, false
	}
	if _, err := hex.Decode(raw[:], payload[1:1+stampDigits]); err != nil {
		return s, false
	}
	s.intended = int64(binary.BigEndian.Uint64(raw[:]))
	s.publisher = binary.BigEndian.Uint16(raw[8:])
	s.sequence = binary.BigEndian.Uint32(raw[10:])
	return s, true
}
