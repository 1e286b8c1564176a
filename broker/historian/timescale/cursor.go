package timescale

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"

	"maestrohub.io/uns/broker/historian"
)

// spot is where a row stands among all rows of a query: they are in the order of
// timestamp and Position, which no two rows share.
type spot struct {
	timestamp int64
	position  uint64
}

// A cursor is the spot of the last row of a page, with the direction it was read in:
// format 1, direction 1, timestamp 8, Position 8.
const (
	cursorFormat = 1
	cursorSize   = 2 + 8 + 8
)

func (s spot) cursor(newest bool) string {
	data := make([]byte, 0, cursorSize)
	data = append(data, cursorFormat, direction(newest))
	data = binary.BigEndian.AppendUint64(data, uint64(s.timestamp))
	data = binary.BigEndian.AppendUint64(data, s.position)
	return base64.RawURLEncoding.EncodeToString(data)
}

func direction(newest bool) byte {
	if newest {
		return 1
	}
	return 0
}

// parseCursor reads a cursor; the error wraps historian.ErrQuery.
func parseCursor(text string, newest bool) (spot, error) {
	data, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(data) != cursorSize || data[0] != cursorFormat || data[1] > 1 {
		return spot{}, fmt.Errorf("%w: cursor %.80q is not one of this historian's", historian.ErrQuery, text)
	}
	if data[1] != direction(newest) {
		return spot{}, fmt.Errorf("%w: cursor %.80q was made in the other direction", historian.ErrQuery, text)
	}
	s := spot{int64(binary.BigEndian.Uint64(data[2:])), binary.BigEndian.Uint64(data[10:])}
	if s.timestamp < 0 || s.position > math.MaxInt64 {
		return spot{}, fmt.Errorf("%w: cursor %.80q is not one of this historian's", historian.ErrQuery, text)
	}
	return s, nil
}
