package jetstream

import (
	"encoding/binary"
	"fmt"

	"maestrohub.io/uns/broker/state"
)

// A batch of a session log is one message, so that it lands whole or not at all,
// at one message's cost. Only a batch larger than a message may be is several,
// published as an atomic batch. Each is a frame:
//
//	format  1 byte, frameFormat
//	part    uvarint, how many messages of its batch come before it
//	offset  uvarint, how many records of its batch come before its own
//	count   uvarint, its records; none in a fence (writer.go)
//	count × (length uvarint, data)
//
// A record's sequence follows from the sequence of its batch's first message:
// that of the message times sequenceStride, plus the record's place. So within a
// batch sequences are consecutive, and between batches there is a gap.
const (
	frameFormat    = 1
	sequenceStride = 1024 // over state.MaxAppend
)

// firstSequence is that of the first record of a batch whose first message has
// the given sequence.
func firstSequence(message uint64) uint64 { return (message-1)*sequenceStride + 1 }

// messageOf is the sequence of the first message of the batch a record is in.
func messageOf(sequence uint64) uint64 {
	return (max(sequence, 1)-1)/sequenceStride + 1
}

// appendFrame appends the frame of records.
func appendFrame(dst []byte, part, offset int, records [][]byte) []byte {
	dst = append(dst, frameFormat)
	dst = binary.AppendUvarint(dst, uint64(part))
	dst = binary.AppendUvarint(dst, uint64(offset))
	dst = binary.AppendUvarint(dst, uint64(len(records)))
	for _, r := range records {
		dst = binary.AppendUvarint(dst, uint64(len(r)))
		dst = append(dst, r...)
	}
	return dst
}

// frameOverhead is more than a record, or a frame, takes beside its data.
const frameOverhead = 10

// decodeFrame appends a message's entries to dst. Data aliases the message.
func decodeFrame(dst []state.Entry, m message) ([]state.Entry, error) {
	rest := m.data
	number := func() uint64 {
		n, size := binary.Uvarint(rest)
		if size <= 0 {
			rest = nil
			return 0
		}
		rest = rest[size:]
		return n
	}
	damaged := func(what string) error {
		return fmt.Errorf("message %d on %s: %s", m.sequence, m.subject, what)
	}
	if len(rest) < 4 || rest[0] != frameFormat {
		return dst, damaged(fmt.Sprintf("not a frame of format %d", frameFormat))
	}
	rest = rest[1:]
	part, offset, count := number(), number(), number()
	if part >= m.sequence || part >= state.MaxAppend || count > state.MaxAppend || offset > state.MaxAppend-count {
		return dst, damaged(fmt.Sprintf("frame of part %d, offset %d, %d records", part, offset, count))
	}
	sequence := firstSequence(m.sequence-part) + offset
	n := len(dst)
	for range count {
		if len(rest) == 0 {
			return dst[:n], damaged("the frame ends early")
		}
		size := number()
		if size > uint64(len(rest)) {
			return dst[:n], damaged("the frame ends early")
		}
		dst = append(dst, state.Entry{Sequence: sequence, Time: m.time, Data: rest[:size:size]})
		rest = rest[size:]
		sequence++
	}
	if len(rest) > 0 {
		return dst[:n], damaged(fmt.Sprintf("%d bytes after the frame", len(rest)))
	}
	return dst, nil
}
