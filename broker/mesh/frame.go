package mesh

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Format is the number every frame begins with. Formats are append-only: what a frame says is changed
// by a new number or a new kind, never in place.
const Format = 1

// kind says what a frame is. Numbers are append-only.
type kind byte

const (
	kindHello   kind = 1
	kindRefuse  kind = 2
	kindResume  kind = 3
	kindPing    kind = 4
	kindAck     kind = 5
	kindSkip    kind = 6
	kindApplied kind = 7
	kindBye     kind = 8

	kindValue     kind = 16
	kindShare     kind = 17
	kindSettled   kind = 18
	kindRelease   kind = 19
	kindReleased  kind = 20
	kindReturning kind = 21
	kindReport    kind = 22
	kindReported  kind = 23
)

// numbered reports whether frames of this kind count in the numbers of their pair.
func (k kind) numbered() bool { return k >= kindValue }

const (
	// headerBytes: format, kind, length of what follows as four bytes, most significant first.
	headerBytes = 6
	// maxPayload bounds what follows the header.
	maxPayload = 32 << 20
)

// errFrame is wrapped by every error about a frame that cannot be read.
var errFrame = errors.New("bad frame")

// parseHeader reads the header at the front of b. ok is false if it needs more bytes.
func parseHeader(b []byte) (k kind, length int, ok bool, err error) {
	if len(b) > 0 && b[0] != Format {
		return 0, 0, false, fmt.Errorf("%w: format %d, this release reads %d", errFrame, b[0], Format)
	}
	if len(b) < headerBytes {
		return 0, 0, false, nil
	}
	n := binary.BigEndian.Uint32(b[2:])
	if n > maxPayload {
		return 0, 0, false, fmt.Errorf("%w: kind %d with %d bytes, at most %d are allowed", errFrame, b[1], n, maxPayload)
	}
	return kind(b[1]), int(n), true, nil
}

// beginFrame appends a header whose length endFrame sets.
func beginFrame(dst []byte, k kind) []byte { return append(dst, Format, byte(k), 0, 0, 0, 0) }

// endFrame sets the length of the frame that begins at start and ends with dst.
func endFrame(dst []byte, start int) []byte {
	binary.BigEndian.PutUint32(dst[start+2:], uint32(len(dst)-start-headerBytes))
	return dst
}

// appendNumber appends a frame that holds one number: resume, ping, ack, skip.
func appendNumber(dst []byte, k kind, n uint64) []byte {
	start := len(dst)
	return endFrame(binary.AppendUvarint(beginFrame(dst, k), n), start)
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// fields takes fields from the front of a payload; after the first failure it yields zero values and
// keeps the error.
type fields struct {
	kind string
	rest []byte
	err  error
}

func (f *fields) fail(field string) {
	if f.err == nil {
		f.err = fmt.Errorf("%w: %s: %s cut short", errFrame, f.kind, field)
	}
	f.rest = nil
}

func (f *fields) byte(field string) byte {
	if len(f.rest) == 0 {
		f.fail(field)
		return 0
	}
	b := f.rest[0]
	f.rest = f.rest[1:]
	return b
}

func (f *fields) number(field string) uint64 {
	n, size := binary.Uvarint(f.rest)
	if size <= 0 {
		f.fail(field)
		return 0
	}
	f.rest = f.rest[size:]
	return n
}

func (f *fields) string(field string) string {
	n := f.number(field)
	if f.err != nil || n > uint64(len(f.rest)) {
		f.fail(field)
		return ""
	}
	s := string(f.rest[:n])
	f.rest = f.rest[n:]
	return s
}

// end reports the first failure, or bytes that no field took.
func (f *fields) end() error {
	if f.err == nil && len(f.rest) > 0 {
		return fmt.Errorf("%w: %s: %d bytes after its end", errFrame, f.kind, len(f.rest))
	}
	return f.err
}

// decodeNumber reads the payload of a frame that holds one number.
func decodeNumber(name string, payload []byte) (uint64, error) {
	f := fields{kind: name, rest: payload}
	n := f.number("number")
	return n, f.end()
}
