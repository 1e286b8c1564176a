package pebble

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"maestrohub.io/uns/broker/historian"
	"maestrohub.io/uns/broker/value"
)

// The first byte of a key says what it is. Rows sort after everything else: when
// Pebble merges the other entries, which are few and change often, it takes along
// what lies next to them, and at that end that is the oldest segment.
const (
	spaceSegment  = 'c' // segment -> start, end, high
	spaceMeta     = 'm' // name -> number
	spaceName     = 'n' // workspace, topic -> topic id
	spacePresence = 'p' // topic, start of segment, segment -> nothing
	spaceRow      = 'r' // segment, topic, timestamp, identity -> row
)

// identitySize is the end of a row's key that tells rows of one topic and
// timestamp apart: one byte for the way it was made, 16 for what it was made of.
const (
	identitySize   = 17
	identityUntime = 0 // RowID, 8 bytes of the publisher's digest
	identityTimed  = 1 // digest of publisher, quality, kind and body
)

// rowKeySize: space 1, segment 4, topic 4, timestamp 8, identity.
const rowKeySize = 1 + 4 + 4 + 8 + identitySize

type rowKey [rowKeySize]byte

// Offsets within a row key.
const (
	keyTopic    = 1 + 4
	keyTime     = keyTopic + 4
	keyIdentity = keyTime + 8
)

// orderedTime maps a timestamp so that its big-endian bytes sort as it does.
func orderedTime(ns int64) uint64 { return uint64(ns) ^ 1<<63 }

func plainTime(ordered uint64) int64 { return int64(ordered ^ 1<<63) }

// identity makes the end of v's row key. scratch is reused between calls.
//
// The digest is cryptographic, cut to 128 bits: a device that could make two
// values collide could have another value acknowledged and not stored.
func identity(v *value.Value, scratch []byte) (id [identitySize]byte, _ []byte) {
	scratch = binary.AppendUvarint(scratch[:0], uint64(len(v.Publisher)))
	scratch = append(scratch, v.Publisher...)
	if !v.Timed {
		id[0] = identityUntime
		binary.BigEndian.PutUint64(id[1:], v.RowID)
		digest := sha256.Sum256(scratch)
		copy(id[9:], digest[:8])
		return id, scratch
	}
	id[0] = identityTimed
	scratch = append(scratch, byte(v.Quality), byte(v.Kind))
	scratch = append(scratch, v.Body...)
	digest := sha256.Sum256(scratch)
	copy(id[1:], digest[:16])
	return id, scratch
}

// A stored row: position 8, received 8, quality 1, flags 1, publisher (length and
// bytes), body to the end. Position comes first because the writer fills it in.
const (
	rowPosition = 0
	rowHeader   = 8 + 8 + 1 + 1

	rowOpaque = 1 << 0
)

// appendRow appends v's row with a Position of 0.
func appendRow(dst []byte, v *value.Value) []byte {
	dst = binary.BigEndian.AppendUint64(dst, 0)
	dst = binary.BigEndian.AppendUint64(dst, uint64(v.Received))
	var flags byte
	if v.Kind == value.Opaque {
		flags |= rowOpaque
	}
	dst = append(dst, byte(v.Quality), flags)
	dst = binary.AppendUvarint(dst, uint64(len(v.Publisher)))
	dst = append(dst, v.Publisher...)
	return append(dst, v.Body...)
}

// errDamagedRow is wrapped by the error of a row that does not decode.
var errDamagedRow = errors.New("damaged row")

// decodeRow reads a row. Everything in it is copied but Body, which aliases data.
func decodeRow(key, data []byte) (historian.Row, error) {
	if len(key) != rowKeySize || key[keyIdentity] > identityTimed {
		return historian.Row{}, fmt.Errorf("%w: key of %d bytes", errDamagedRow, len(key))
	}
	if len(data) < rowHeader {
		return historian.Row{}, fmt.Errorf("%w: %d bytes, at least %d expected", errDamagedRow, len(data), rowHeader)
	}
	row := historian.Row{
		Timestamp: plainTime(binary.BigEndian.Uint64(key[keyTime:])),
		Timed:     key[keyIdentity] == identityTimed,
		Position:  binary.BigEndian.Uint64(data[rowPosition:]),
		Received:  int64(binary.BigEndian.Uint64(data[8:])),
		Quality:   value.Quality(data[16]),
	}
	if data[17]&rowOpaque != 0 {
		row.Kind = value.Opaque
	}
	length, n := binary.Uvarint(data[rowHeader:])
	rest := data[rowHeader+max(n, 0):]
	if n <= 0 || length > uint64(len(rest)) {
		return historian.Row{}, fmt.Errorf("%w: publisher cut short", errDamagedRow)
	}
	row.Publisher, row.Body = string(rest[:length]), rest[length:]
	return row, nil
}

// appendName appends a key of the names index. Levels are separated by a zero
// byte, which no topic contains [MQTT-4.7.3-2] and which sorts before all others,
// so that the index is in the order of the topic tree.
func appendName(dst []byte, workspace, topic string) []byte {
	dst = append(dst, spaceName)
	dst = append(dst, workspace...)
	dst = append(dst, 0)
	return appendLevels(dst, topic)
}

// appendLevels appends a topic with its separators as zero bytes.
func appendLevels(dst []byte, topic string) []byte {
	from := len(dst)
	dst = append(dst, topic...)
	for i := from; ; {
		j := bytes.IndexByte(dst[i:], '/')
		if j < 0 {
			return dst
		}
		i += j
		dst[i] = 0
	}
}

// topicOf turns the end of a names key back into the topic.
func topicOf(levels []byte) string {
	return string(bytes.ReplaceAll(levels, []byte{0}, []byte{'/'}))
}

// appendPresence appends the key that says topic has rows in the segment.
func appendPresence(dst []byte, topic uint32, start int64, segment uint32) []byte {
	dst = append(dst, spacePresence)
	dst = binary.BigEndian.AppendUint32(dst, topic)
	dst = binary.BigEndian.AppendUint64(dst, orderedTime(start))
	return binary.BigEndian.AppendUint32(dst, segment)
}

const presenceKeySize = 1 + 4 + 8 + 4

// appendRowPrefix appends the start of the keys of a topic's rows in a segment.
func appendRowPrefix(dst []byte, segment, topic uint32) []byte {
	dst = append(dst, spaceRow)
	dst = binary.BigEndian.AppendUint32(dst, segment)
	return binary.BigEndian.AppendUint32(dst, topic)
}

// segmentSpan returns the bounds of all rows of a segment.
func segmentSpan(segment uint32) (from, to []byte) {
	from = binary.BigEndian.AppendUint32([]byte{spaceRow}, segment)
	to = binary.BigEndian.AppendUint32([]byte{spaceRow}, segment+1)
	return from, to
}

// parseName reads a key of the names index.
func parseName(key []byte) (workspace, topic string, err error) {
	i := bytes.IndexByte(key, 0)
	if i < 2 || i == len(key)-1 {
		return "", "", fmt.Errorf("%w: name with a key of %d bytes", errDamagedStore, len(key))
	}
	return string(key[1:i]), topicOf(key[i+1:]), nil
}
