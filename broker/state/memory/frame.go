package memory

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// A journal or snapshot file is a head and a row of frames:
//
//	magic "UNSF" · seed, 4 bytes
//	magic "UNSJ" · length of the body, 4 bytes · CRC-32C of the body, 4 bytes · body
//	…
//
// integers big-endian. A body is the format number, the frame's number, how many
// records follow, and the records. The checksums start from the file's random
// seed, so that no value a device publishes can pass for a frame.
const (
	fileMagic   = "UNSF"
	fileHeader  = 8
	frameMagic  = "UNSJ"
	frameHeader = 12
	frameFormat = 1
	// maxFrame bounds what a damaged length can ask for.
	maxFrame = 1 << 30
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errFrame = errors.New("damaged frame")

// appendFileHeader appends the head of a file.
func appendFileHeader(dst []byte, seed uint32) []byte {
	return binary.BigEndian.AppendUint32(append(dst, fileMagic...), seed)
}

// parseFile splits a file into its seed and its frames. A file that has no byte
// behind its head holds nothing, sound or not.
func parseFile(data []byte) (seed uint32, frames []byte, err error) {
	if len(data) <= fileHeader {
		return 0, nil, nil
	}
	if string(data[:4]) != fileMagic {
		return 0, nil, fmt.Errorf("%w: the file's head is %q, not %q", errFrame, data[:4], fileMagic)
	}
	return binary.BigEndian.Uint32(data[4:]), data[fileHeader:], nil
}

// appendFrame appends a frame that carries the records given by each.
func appendFrame(dst []byte, seed uint32, number uint64, count int, each func(yield func(bucket string, r *record))) []byte {
	start := len(dst)
	dst = append(dst, frameMagic...)
	dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0)
	dst = append(dst, frameFormat)
	dst = binary.AppendUvarint(dst, number)
	dst = binary.AppendUvarint(dst, uint64(count))
	each(func(bucket string, r *record) { dst = appendRecord(dst, bucket, r) })
	body := dst[start+frameHeader:]
	binary.BigEndian.PutUint32(dst[start+4:], uint32(len(body)))
	binary.BigEndian.PutUint32(dst[start+8:], crc32.Update(seed, castagnoli, body))
	return dst
}

func appendRecord(dst []byte, bucket string, r *record) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(bucket)))
	dst = append(dst, bucket...)
	dst = binary.AppendUvarint(dst, uint64(len(r.key)))
	dst = append(dst, r.key...)
	dst = binary.AppendUvarint(dst, r.revision)
	dst = binary.AppendVarint(dst, r.time)
	if r.deleted {
		return append(dst, 1)
	}
	dst = append(dst, 0)
	dst = binary.AppendUvarint(dst, uint64(len(r.value)))
	return append(dst, r.value...)
}

// nextFrame returns the body of the frame buf begins with and how long the
// frame is. The error wraps errFrame.
func nextFrame(buf []byte, seed uint32) (body []byte, size int, err error) {
	if len(buf) < frameHeader || string(buf[:4]) != frameMagic {
		return nil, 0, fmt.Errorf("%w: no frame begins here", errFrame)
	}
	n := binary.BigEndian.Uint32(buf[4:])
	if n > maxFrame || uint64(n) > uint64(len(buf)-frameHeader) {
		return nil, 0, fmt.Errorf("%w: it says %d bytes, %d are there", errFrame, n, len(buf)-frameHeader)
	}
	body = buf[frameHeader : frameHeader+int(n)]
	if crc32.Update(seed, castagnoli, body) != binary.BigEndian.Uint32(buf[8:]) {
		return nil, 0, fmt.Errorf("%w: wrong checksum", errFrame)
	}
	return body, frameHeader + int(n), nil
}

// frameNumber reads the head of a body.
func frameNumber(body []byte) (number, count uint64, rest []byte, err error) {
	if len(body) == 0 {
		return 0, 0, nil, fmt.Errorf("%w: empty", errFrame)
	}
	if body[0] != frameFormat {
		return 0, 0, nil, fmt.Errorf("%w: format %d, this release reads %d", errFrame, body[0], frameFormat)
	}
	d := decoder{rest: body[1:]}
	number, count = d.uvarint(), d.uvarint()
	if d.damaged {
		return 0, 0, nil, fmt.Errorf("%w: head cut short", errFrame)
	}
	return number, count, d.rest, nil
}

// decodeRecords calls load with each of the count records in rest. Nothing of
// them aliases rest.
func decodeRecords(rest []byte, count uint64, load func(bucket string, r *record)) error {
	d := decoder{rest: rest}
	for i := range count {
		bucket := string(d.bytes())
		r := &record{key: string(d.bytes()), revision: d.uvarint(), time: d.varint()}
		switch d.byte() {
		case 0:
			r.value = append([]byte{}, d.bytes()...)
		case 1:
			r.deleted = true
		default:
			d.damaged = true
		}
		if d.damaged {
			return fmt.Errorf("%w: record %d of %d cut short", errFrame, i+1, count)
		}
		load(bucket, r)
	}
	if len(d.rest) != 0 {
		return fmt.Errorf("%w: %d bytes after the last record", errFrame, len(d.rest))
	}
	return nil
}

// decoder takes fields from the front; after the first failure it yields zero
// values.
type decoder struct {
	rest    []byte
	damaged bool
}

func (d *decoder) fail() {
	d.damaged, d.rest = true, nil
}

func (d *decoder) byte() byte {
	if len(d.rest) == 0 {
		d.fail()
		return 0
	}
	b := d.rest[0]
	d.rest = d.rest[1:]
	return b
}

func (d *decoder) uvarint() uint64 {
	x, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.rest = d.rest[n:]
	return x
}

func (d *decoder) varint() int64 {
	x, n := binary.Varint(d.rest)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.rest = d.rest[n:]
	return x
}

func (d *decoder) bytes() []byte {
	n := d.uvarint()
	if n > uint64(len(d.rest)) {
		d.fail()
		return nil
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}
