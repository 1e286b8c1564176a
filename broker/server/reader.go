package server

import (
	"errors"
	"io"
	"net"
	"syscall"
	"time"

	"maestrohub.io/uns/broker/mqtt"
)

// packetReader cuts the byte stream of one connection into packets.
//
// On plain TCP it waits for the socket to become readable before it takes a
// buffer, so that an idle connection costs no buffer at all. Other transports
// (TLS, WebSocket) have no such wait and read into a small buffer of their own.
type packetReader struct {
	nc net.Conn
	// raw waits for readability; nil where the transport has no socket to wait on.
	raw syscall.RawConn
	// try is the method value tryRead, made once.
	try func(fd uintptr) bool
	n   int
	err error

	buf []byte // what was read and not yet consumed lies in buf[start:]
	// start is the first byte not consumed.
	start int
	// large says that the last read filled its buffer: the next takes a large one.
	large bool
}

func newPacketReader(nc net.Conn, tcp *net.TCPConn) *packetReader {
	r := &packetReader{nc: nc}
	if tcp != nil {
		if raw, err := tcp.SyscallConn(); err == nil {
			r.raw, r.try = raw, r.tryRead
		}
	}
	return r
}

// next returns the next whole packet in the buffer. ok is false if more bytes
// are needed. The body is valid until the next fill. A packet of more than most
// bytes, its fixed header counted as the standard counts it, is an error as soon
// as its length is known.
func (r *packetReader) next(most int) (h mqtt.Header, body []byte, ok bool, err error) {
	pending := r.buf[r.start:]
	h, ok, err = mqtt.ParseHeader(pending)
	if err != nil || !ok {
		return h, nil, false, err
	}
	total := h.Size + h.Remaining
	if total > most {
		return h, pending[h.Size:], false, &mqtt.Error{Code: mqtt.PacketTooLarge, Detail: "packet larger than the Maximum Packet Size"}
	}
	if len(pending) < total {
		return h, nil, false, nil
	}
	r.start += total
	return h, pending[h.Size:total], true, nil
}

// buffered reports whether bytes of a packet not yet complete are held.
func (r *packetReader) buffered() bool { return len(r.buf) > r.start }

// fill reads more bytes, at least one, until the read deadline.
func (r *packetReader) fill() error {
	r.makeRoom()
	if r.raw == nil {
		if r.buf == nil {
			r.buf = r.take()
		}
		n, err := r.nc.Read(r.buf[len(r.buf):cap(r.buf)])
		return r.got(n, err)
	}
	if err := r.raw.Read(r.try); err != nil {
		return err
	}
	return r.got(r.n, r.err)
}

// tryRead is called by the runtime's poller with the socket: first at once, then
// whenever it is readable. It takes a buffer only when there is something to
// read; false means wait.
func (r *packetReader) tryRead(fd uintptr) bool {
	if r.buf == nil {
		r.buf = r.take()
	}
	for {
		r.n, r.err = syscall.Read(int(fd), r.buf[len(r.buf):cap(r.buf)])
		if r.err != syscall.EINTR {
			break
		}
	}
	if r.err == syscall.EAGAIN {
		r.release()
		return false
	}
	return true
}

func (r *packetReader) got(n int, err error) error {
	if n > 0 {
		r.buf = r.buf[:len(r.buf)+n]
		r.large = len(r.buf) == cap(r.buf)
		return nil
	}
	if err == nil {
		err = io.EOF
	}
	return err
}

func (r *packetReader) take() []byte {
	if r.large {
		return largeBuffers.get()
	}
	return smallBuffers.get()
}

// release gives the buffer back if nothing of a packet is left in it.
func (r *packetReader) release() {
	if r.buf != nil && !r.buffered() {
		putBuffer(r.buf)
		r.buf, r.start = nil, 0
	}
}

// makeRoom prepares the buffer for another read: consumed bytes go, and a full
// buffer grows by doubling only as bytes really arrive, so that a length claimed
// in a header reserves nothing.
func (r *packetReader) makeRoom() {
	if r.raw != nil {
		r.release()
	}
	if r.buf == nil {
		return
	}
	if r.start > 0 {
		n := copy(r.buf, r.buf[r.start:])
		r.buf, r.start = r.buf[:n], 0
	}
	if len(r.buf) < cap(r.buf) {
		return
	}
	grown := make([]byte, len(r.buf), 2*cap(r.buf))
	copy(grown, r.buf)
	putBuffer(r.buf)
	r.buf = grown
}

// timedOut reports whether err is the read deadline's.
func timedOut(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

// drain reads and forgets what the client still sends, until it closes or the
// deadline: closing a socket with unread data would reset it, and the client
// would lose the DISCONNECT that tells it why.
func (r *packetReader) drain(deadline time.Time) {
	_ = r.nc.SetReadDeadline(deadline)
	buf := smallBuffers.get()
	defer putBuffer(buf)
	for budget := 4 << 20; budget > 0; {
		n, err := r.nc.Read(buf[:cap(buf)])
		if err != nil {
			return
		}
		budget -= n
	}
}
