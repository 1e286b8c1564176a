package value

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
)

// Format is the number every encoded record begins with. Formats are
// append-only: a field is added by a new number, never by changing this one.
const Format = 1

// ErrRecord is wrapped by every error of DecodeRecord.
var ErrRecord = errors.New("damaged value record")

// newer counts for the whole process, so that no reader of a record can forget to.
var newer atomic.Uint64

// NewerMet is how many records of a newer format than Format this process has met.
func NewerMet() uint64 { return newer.Load() }

// Flag bits of a record, second byte after the format.
const (
	flagTimed = 1 << iota
	flagRetain
	flagPayloadFormat
	flagPayloadFormatValue
	flagOpaque
	flagCorrelation
	flagRedirected
	flagContentType
)

// AppendRecord appends the encoded value to dst and returns it. Everything a
// delivery, a retained message or another replica needs is in the record.
func (v *Value) AppendRecord(dst []byte) []byte {
	var flags byte
	if v.Timed {
		flags |= flagTimed
	}
	if v.Retain {
		flags |= flagRetain
	}
	if v.Properties.HasPayloadFormat {
		flags |= flagPayloadFormat
		if v.Properties.PayloadFormat != 0 {
			flags |= flagPayloadFormatValue
		}
	}
	if v.Kind == Opaque {
		flags |= flagOpaque
	}
	if v.Properties.CorrelationData != nil {
		flags |= flagCorrelation
	}
	if v.Redirected {
		flags |= flagRedirected
	}
	if v.Properties.HasContentType {
		flags |= flagContentType
	}
	dst = append(dst, Format, flags, v.QoS, byte(v.Quality))
	dst = binary.AppendVarint(dst, v.Timestamp)
	dst = binary.AppendVarint(dst, v.Received)
	dst = binary.AppendVarint(dst, v.Expires)
	dst = binary.AppendUvarint(dst, v.RowID)
	dst = binary.AppendUvarint(dst, v.Position)
	dst = appendString(dst, v.Workspace)
	dst = appendString(dst, v.Name)
	// Topic is the end of Name; its length alone says which part.
	dst = binary.AppendUvarint(dst, uint64(len(v.Topic)))
	dst = appendString(dst, v.Publisher)
	dst = appendString(dst, v.ClientID)
	if v.Properties.HasContentType {
		dst = appendString(dst, v.Properties.ContentType)
	}
	dst = appendString(dst, v.Properties.ResponseTopic)
	if v.Properties.CorrelationData != nil {
		dst = appendBytes(dst, v.Properties.CorrelationData)
	}
	dst = binary.AppendUvarint(dst, uint64(len(v.Properties.User)))
	for _, p := range v.Properties.User {
		dst = appendString(dst, p.Key)
		dst = appendString(dst, p.Value)
	}
	dst = binary.AppendUvarint(dst, uint64(len(v.Shares)))
	for _, s := range v.Shares {
		dst = appendString(dst, s.Key)
		dst = appendString(dst, s.Session)
	}
	dst = appendBytes(dst, v.Payload)
	offset, length := v.bodySpan()
	dst = binary.AppendUvarint(dst, uint64(offset))
	return binary.AppendUvarint(dst, uint64(length))
}

// bodySpan returns where Body lies inside Payload, of which it is a part by
// construction: they share their last byte of capacity.
func (v *Value) bodySpan() (offset, length int) {
	offset = cap(v.Payload) - cap(v.Body)
	if v.Body == nil || offset < 0 || offset+len(v.Body) > len(v.Payload) {
		return 0, 0
	}
	return offset, len(v.Body)
}

// DecodeRecord decodes a record. The value's payload aliases record. The error
// wraps ErrRecord and names the field it could not read.
func DecodeRecord(record []byte) (*Value, error) {
	r := reader{rest: record}
	if f := r.byte("format"); r.err == nil && f != Format {
		if f > Format {
			newer.Add(1)
		}
		return nil, fmt.Errorf("%w: format %d, this release reads %d", ErrRecord, f, Format)
	}
	flags := r.byte("flags")
	v := &Value{}
	v.QoS = r.byte("QoS")
	v.Quality = Quality(r.byte("quality"))
	v.Timed = flags&flagTimed != 0
	v.Redirected = flags&flagRedirected != 0
	v.Retain = flags&flagRetain != 0
	v.Properties.HasPayloadFormat = flags&flagPayloadFormat != 0
	if flags&flagPayloadFormatValue != 0 {
		v.Properties.PayloadFormat = 1
	}
	if flags&flagOpaque != 0 {
		v.Kind = Opaque
	}
	v.Timestamp = r.varint("timestamp")
	v.Received = r.varint("received")
	v.Expires = r.varint("expiry")
	v.RowID = r.uvarint("row id")
	v.Position = r.uvarint("position")
	v.Workspace = r.string("workspace")
	v.Name = r.string("name")
	topic := r.uvarint("topic length")
	if r.err == nil {
		if topic > uint64(len(v.Name)) {
			return nil, fmt.Errorf("%w: topic length %d of a name of %d bytes", ErrRecord, topic, len(v.Name))
		}
		v.Topic = v.Name[len(v.Name)-int(topic):]
	}
	v.Publisher = r.string("publisher")
	v.ClientID = r.string("client id")
	if v.Properties.HasContentType = flags&flagContentType != 0; v.Properties.HasContentType {
		v.Properties.ContentType = r.string("content type")
	}
	v.Properties.ResponseTopic = r.string("response topic")
	if flags&flagCorrelation != 0 {
		v.Properties.CorrelationData = r.bytes("correlation data")
	}
	for n := r.count("user properties"); n > 0 && r.err == nil; n-- {
		v.Properties.User = append(v.Properties.User, UserProperty{r.string("user property"), r.string("user property")})
	}
	for n := r.count("shares"); n > 0 && r.err == nil; n-- {
		v.Shares = append(v.Shares, Share{r.string("share"), r.string("share")})
	}
	v.Payload = r.bytes("payload")
	offset, length := r.uvarint("body offset"), r.uvarint("body length")
	if r.err != nil {
		return nil, r.err
	}
	if v.QoS > 2 {
		return nil, fmt.Errorf("%w: QoS %d", ErrRecord, v.QoS)
	}
	if offset > uint64(len(v.Payload)) || length > uint64(len(v.Payload))-offset {
		return nil, fmt.Errorf("%w: body %d+%d outside a payload of %d bytes", ErrRecord, offset, length, len(v.Payload))
	}
	if len(r.rest) != 0 {
		return nil, fmt.Errorf("%w: %d bytes after its end", ErrRecord, len(r.rest))
	}
	v.Body = v.Payload[offset : offset+length]
	return v, nil
}

func appendString(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

func appendBytes(dst, b []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(b)))
	return append(dst, b...)
}

// reader takes fields from the front of a record; after the first failure it
// yields zero values and keeps the error.
type reader struct {
	rest []byte
	err  error
}

func (r *reader) fail(field string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s cut short", ErrRecord, field)
	}
	r.rest = nil
}

func (r *reader) byte(field string) byte {
	if len(r.rest) == 0 {
		r.fail(field)
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

func (r *reader) varint(field string) int64 {
	x, n := binary.Varint(r.rest)
	if n <= 0 {
		r.fail(field)
		return 0
	}
	r.rest = r.rest[n:]
	return x
}

func (r *reader) uvarint(field string) uint64 {
	x, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.fail(field)
		return 0
	}
	r.rest = r.rest[n:]
	return x
}

// count reads a number of elements, each of at least two bytes, so that a
// damaged record cannot ask for more than it has room for.
func (r *reader) count(field string) uint64 {
	n := r.uvarint(field)
	if n > uint64(len(r.rest)) {
		r.fail(field)
		return 0
	}
	return n
}

func (r *reader) bytes(field string) []byte {
	n := r.uvarint(field)
	if r.err != nil || n > uint64(len(r.rest)) {
		r.fail(field)
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) string(field string) string { return string(r.bytes(field)) }
