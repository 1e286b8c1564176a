package listener

import (
	"encoding/binary"
	"io"
	"net"
	"sync"

	"github.com/gorilla/websocket"

	"maestrohub.io/uns/broker/mqtt"
)

// frames are binary WebSocket messages ready to be sent, each one unmasked frame.
//
// Small packets are copied behind their headers, so that one write takes them all, over TLS too. Large
// ones are not: on a plain socket they go along in the same write (writev), over TLS in writes of their
// own, as their bytes fill several records anyway.
type frames struct {
	buf   []byte      // headers and small packets
	parts net.Buffers // slices of buf, with large packets between them
	rest  net.Buffers // what is not written yet of parts
}

const (
	copied = 16 << 10 // bytes of the largest packet that is copied: a TLS record's

	longestHeader = 10 // bytes

	// Room for what the server writes at once, 4 or 64 KiB, when half as much again is headers: all
	// packets are acknowledgements.
	smallFrames = 6 << 10
	largeFrames = 96 << 10
)

// Frames are held only while they are written. Those a packet made larger are left to the collector.
var smallPool, largePool = newFrames(smallFrames), newFrames(largeFrames)

func newFrames(size int) *sync.Pool {
	return &sync.Pool{New: func() any { return &frames{buf: make([]byte, 0, size)} }}
}

// frame makes one message of each packet in p. Large packets are referred to: p must not change before
// the frames are recycled.
func frame(p []byte) *frames {
	size := 0
	for rest := p; len(rest) > 0; {
		n := packet(rest)
		size += headerSize(n)
		if n <= copied {
			size += n
		}
		rest = rest[n:]
	}
	var f *frames
	switch {
	case size <= smallFrames:
		f = smallPool.Get().(*frames)
	case size <= largeFrames:
		f = largePool.Get().(*frames)
	default:
		f = &frames{buf: make([]byte, 0, size)}
	}
	from := 0 // of buf, what is not in parts
	for len(p) > 0 {
		n := packet(p)
		f.buf = appendHeader(f.buf, n)
		if n <= copied {
			f.buf = append(f.buf, p[:n]...)
		} else {
			f.parts = append(f.parts, f.buf[from:], p[:n])
			from = len(f.buf)
		}
		p = p[n:]
	}
	if from < len(f.buf) {
		f.parts = append(f.parts, f.buf[from:])
	}
	return f
}

// packet is the length of the MQTT packet p begins with; all of p if it does not begin with a whole one.
func packet(p []byte) int {
	h, ok, err := mqtt.ParseHeader(p)
	if !ok || err != nil {
		return len(p)
	}
	return min(h.Size+h.Remaining, len(p))
}

func headerSize(n int) int {
	switch {
	case n < 126:
		return 2
	case n < 1<<16:
		return 4
	}
	return longestHeader
}

// appendHeader appends the header of an unmasked, final, binary frame of n bytes (RFC 6455, 5.2).
func appendHeader(dst []byte, n int) []byte {
	dst = append(dst, 0x80|websocket.BinaryMessage)
	switch headerSize(n) {
	case 2:
		return append(dst, byte(n))
	case 4:
		return binary.BigEndian.AppendUint16(append(dst, 126), uint16(n))
	}
	return binary.BigEndian.AppendUint64(append(dst, 127), uint64(n))
}

// WriteTo writes the messages, in one write unless there are large packets and w is no plain socket.
func (f *frames) WriteTo(w io.Writer) (int64, error) {
	if len(f.parts) == 1 {
		n, err := w.Write(f.parts[0])
		return int64(n), err
	}
	f.rest = f.parts
	return f.rest.WriteTo(w)
}

// recycle ends the frames' use.
func (f *frames) recycle() {
	clear(f.parts)
	f.buf, f.parts, f.rest = f.buf[:0], f.parts[:0], nil
	switch cap(f.buf) {
	case smallFrames:
		smallPool.Put(f)
	case largeFrames:
		largePool.Put(f)
	}
}
