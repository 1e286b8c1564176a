package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
)

// Format numbers the layout of everything the replicas store and send. Formats
// are append-only: a number never changes its meaning, and a further one only
// adds fields at the end, so whoever reads a format reads every older one.
type Format uint64

// Oldest is the oldest format this release reads. Newest, the newest one it reads and
// can write, is in release.go.
const Oldest Format = 1

// writes is the format a record is written in: the floor, nothing higher, or a
// replica that reads no more than the floor would meet a record it cannot read.
func (floor Format) writes() Format { return max(Oldest, min(floor, Newest)) }

// ErrRecord is wrapped by every decoding error.
var ErrRecord = errors.New("damaged record")

// newer counts for the whole process, so that no reader of a record can forget to.
var newer atomic.Uint64

// NewerMet is how many records of a newer format than Newest this process has met,
// and how often it was kept from joining by a floor above Newest.
func NewerMet() uint64 { return newer.Load() }

// appender writes a record: its format number, then the fields in order.
type appender struct{ b []byte }

func record(floor Format) *appender {
	return &appender{binary.AppendUvarint(make([]byte, 0, 128), uint64(floor.writes()))}
}

func (a *appender) byte(v byte)     { a.b = append(a.b, v) }
func (a *appender) uint(v uint64)   { a.b = binary.AppendUvarint(a.b, v) }
func (a *appender) int(v int64)     { a.b = binary.AppendVarint(a.b, v) }
func (a *appender) id(v ID)         { a.b = append(a.b, v[:]...) }
func (a *appender) string(v string) { a.uint(uint64(len(v))); a.b = append(a.b, v...) }
func (a *appender) bytes(v []byte)  { a.uint(uint64(len(v))); a.b = append(a.b, v...) }
func (a *appender) incarnation(v Incarnation) {
	a.string(v.Replica)
	a.id(v.ID)
}

// bool fields share a byte; bit i is the i-th flag.
func (a *appender) flags(flags ...bool) {
	var v byte
	for i, f := range flags {
		if f {
			v |= 1 << i
		}
	}
	a.byte(v)
}

// parser reads a record; its first error stays and every later field is zero.
type parser struct {
	kind   string
	format Format
	rest   []byte
	err    error
}

// parse begins to read a record of the kind, which only errors name.
func parse(kind string, b []byte) *parser {
	p := &parser{kind: kind, rest: b}
	p.format = Format(p.uint("format"))
	if p.err == nil && p.format > Newest {
		newer.Add(1)
	}
	if p.err == nil && (p.format < Oldest || p.format > Newest) {
		p.err = fmt.Errorf("%w: %s of format %d, this release reads %d to %d", ErrRecord, kind, p.format, Oldest, Newest)
	}
	return p
}

func (p *parser) fail(field string) {
	if p.err == nil {
		p.err = fmt.Errorf("%w: %s, field %s", ErrRecord, p.kind, field)
	}
	p.rest = nil
}

// end is the error of the whole record: bytes left over are one.
func (p *parser) end() error {
	if p.err == nil && len(p.rest) > 0 {
		p.err = fmt.Errorf("%w: %s, %d bytes after its end", ErrRecord, p.kind, len(p.rest))
	}
	return p.err
}

func (p *parser) byte(field string) byte {
	if p.err != nil || len(p.rest) == 0 {
		p.fail(field)
		return 0
	}
	v := p.rest[0]
	p.rest = p.rest[1:]
	return v
}

// enum is a byte that has at most the value last.
func (p *parser) enum(field string, last byte) byte {
	v := p.byte(field)
	if v > last {
		p.fail(field)
		return 0
	}
	return v
}

func (p *parser) uint(field string) uint64 {
	v, n := binary.Uvarint(p.rest)
	if p.err != nil || n <= 0 {
		p.fail(field)
		return 0
	}
	p.rest = p.rest[n:]
	return v
}

// limited is an unsigned number of at most last.
func (p *parser) limited(field string, last uint64) uint64 {
	v := p.uint(field)
	if v > last {
		p.fail(field)
		return 0
	}
	return v
}

func (p *parser) int(field string) int64 {
	v, n := binary.Varint(p.rest)
	if p.err != nil || n <= 0 {
		p.fail(field)
		return 0
	}
	p.rest = p.rest[n:]
	return v
}

func (p *parser) view(field string) []byte {
	n := p.uint(field)
	if p.err != nil || n > uint64(len(p.rest)) {
		p.fail(field)
		return nil
	}
	v := p.rest[:n:n]
	p.rest = p.rest[n:]
	return v
}

func (p *parser) string(field string) string { return string(p.view(field)) }

// bytes copies, for records outlive the message they came in. Empty is nil.
func (p *parser) bytes(field string) []byte { return append([]byte(nil), p.view(field)...) }

func (p *parser) id(field string) (v ID) {
	if p.err != nil || len(p.rest) < len(v) {
		p.fail(field)
		return ID{}
	}
	copy(v[:], p.rest)
	p.rest = p.rest[len(v):]
	return v
}

func (p *parser) incarnation(field string) Incarnation {
	return Incarnation{Replica: p.string(field), ID: p.id(field)}
}

// flags reads n flags; a further bit is an error.
func (p *parser) flags(field string, n int) (v [8]bool) {
	b := p.byte(field)
	if b>>n != 0 {
		p.fail(field)
		return v
	}
	for i := range n {
		v[i] = b&(1<<i) != 0
	}
	return v
}

// count is how many elements follow, each of at least least bytes, so that a
// damaged record cannot ask for more memory than it brings.
func (p *parser) count(field string, least int) int {
	n := p.uint(field)
	if p.err != nil || n > uint64(len(p.rest)/least) {
		p.fail(field)
		return 0
	}
	return int(n)
}
