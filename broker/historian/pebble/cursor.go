package pebble

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"

	"maestrohub.io/uns/broker/historian"
)

// place is where a row stands among all rows of a query: they are in the order of
// timestamp, topic id, identity. Segments do not count: a timestamp has one only.
type place struct {
	timestamp int64
	topic     uint32
	identity  [identitySize]byte
}

// placeOf reads the place from a row key of rowKeySize bytes.
func placeOf(key []byte) place {
	p := place{
		timestamp: plainTime(binary.BigEndian.Uint64(key[keyTime:])),
		topic:     binary.BigEndian.Uint32(key[keyTopic:]),
	}
	copy(p.identity[:], key[keyIdentity:])
	return p
}

// compare orders places, oldest first.
func (p *place) compare(q *place) int {
	switch {
	case p.timestamp != q.timestamp:
		if p.timestamp < q.timestamp {
			return -1
		}
		return 1
	case p.topic != q.topic:
		if p.topic < q.topic {
			return -1
		}
		return 1
	}
	for i := range p.identity {
		if a, b := p.identity[i], q.identity[i]; a != b {
			return int(a) - int(b)
		}
	}
	return 0
}

// A cursor is the place of the last row of a page, with the direction it was read
// in: format 1, direction 1, timestamp 8, topic 4, identity.
const (
	cursorFormat = 1
	cursorSize   = 2 + 8 + 4 + identitySize
)

func (p *place) cursor(newest bool) string {
	data := make([]byte, 0, cursorSize)
	data = append(data, cursorFormat, direction(newest))
	data = binary.BigEndian.AppendUint64(data, uint64(p.timestamp))
	data = binary.BigEndian.AppendUint32(data, p.topic)
	data = append(data, p.identity[:]...)
	return base64.RawURLEncoding.EncodeToString(data)
}

func direction(newest bool) byte {
	if newest {
		return 1
	}
	return 0
}

// parseCursor reads a cursor; the error wraps historian.ErrQuery.
func parseCursor(s string, newest bool) (place, error) {
	data, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || len(data) != cursorSize || data[0] != cursorFormat || data[1] > 1 {
		return place{}, fmt.Errorf("%w: cursor %.80q is not one of this historian's", historian.ErrQuery, s)
	}
	if data[1] != direction(newest) {
		return place{}, fmt.Errorf("%w: cursor %.80q was made in the other direction", historian.ErrQuery, s)
	}
	p := place{timestamp: int64(binary.BigEndian.Uint64(data[2:])), topic: binary.BigEndian.Uint32(data[10:])}
	copy(p.identity[:], data[14:])
	return p, nil
}
