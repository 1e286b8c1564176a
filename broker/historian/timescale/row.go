package timescale

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"maestrohub.io/uns/broker/value"
)

// Bounds of what is stored.
const (
	maxTimestamp = math.MaxInt64 - 1 // 2262-04-11
	maxTopic     = 65_535            // [MQTT-1.5.4-1]: a UTF-8 string's greatest length
	maxWorkspace = 1024              // an index entry
	maxBody      = 268_435_455       // the greatest MQTT packet
)

// storable says what is wrong with a value that can never be stored. Names are
// text in the database, which holds UTF-8 without zero bytes.
func storable(v *value.Value) error {
	if v == nil {
		return errors.New("no value")
	}
	for _, name := range [...]struct {
		what, text string
		least      int
		most       int
	}{
		{"workspace", v.Workspace, 1, maxWorkspace},
		{"topic", v.Topic, 1, maxTopic},
		{"publisher", v.Publisher, 0, maxTopic},
	} {
		switch {
		case len(name.text) < name.least || len(name.text) > name.most:
			return fmt.Errorf("%s of %d bytes, allowed %d to %d", name.what, len(name.text), name.least, name.most)
		case strings.IndexByte(name.text, 0) >= 0:
			return fmt.Errorf("%s %q has a zero byte", name.what, name.text)
		case !utf8.ValidString(name.text):
			return fmt.Errorf("%s %q is not UTF-8", name.what, name.text)
		}
	}
	switch {
	case v.Timestamp < 0 || v.Timestamp > maxTimestamp:
		return fmt.Errorf("timestamp %d ns, allowed 0 (1970) to %d (2262)", v.Timestamp, int64(maxTimestamp))
	case len(v.Body) > maxBody:
		return fmt.Errorf("body of %d bytes, at most %d", len(v.Body), maxBody)
	}
	return nil
}

// identity tells apart the rows of one topic and timestamp: a digest of publisher,
// quality, kind and body of a timed value, of publisher and RowID of another. It is
// cryptographic, cut to 128 bits: a device that could make two values collide could
// have another value acknowledged and not stored.
type identity [16]byte

const (
	identityUntimed = iota
	identityTimed
)

// identify makes v's identity. scratch is reused between calls.
func identify(v *value.Value, scratch []byte) (identity, []byte) {
	kind := byte(identityUntimed)
	if v.Timed {
		kind = identityTimed
	}
	scratch = append(scratch[:0], kind)
	scratch = binary.AppendUvarint(scratch, uint64(len(v.Publisher)))
	scratch = append(scratch, v.Publisher...)
	if v.Timed {
		scratch = append(scratch, byte(v.Quality), byte(v.Kind))
		scratch = append(scratch, v.Body...)
	} else {
		scratch = binary.BigEndian.AppendUint64(scratch, v.RowID)
	}
	digest := sha256.Sum256(scratch)
	return identity(digest[:16]), scratch
}

// PostgreSQL counts time in microseconds from 2000-01-01.
const epochMicros = 946_684_800_000_000

// split divides nanoseconds since the Unix epoch, not negative, into PostgreSQL's
// microseconds and the nanoseconds beyond.
func split(ns int64) (micros int64, nanos int16) {
	return ns/1000 - epochMicros, int16(ns % 1000)
}

func join(micros int64, nanos int16) int64 {
	return (micros+epochMicros)*1000 + int64(nanos)
}
