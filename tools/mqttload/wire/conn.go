package wire

import (
	"errors"
	"fmt"
	"io"
	"net/netip"

	"golang.org/x/sys/unix"

	"maestrohub.io/uns/broker/mqtt"
)

// Handler is told what happens on a connection.
type Handler interface {
	// Up: the TCP connection stands.
	Up(c *Conn)
	// Packet: a whole packet came; body is valid during the call only.
	Packet(c *Conn, h mqtt.Header, body []byte)
	// Down: the connection is closed; err is io.EOF if the other side did so
	// in order, nil if this side did.
	Down(c *Conn, err error)
}

// Conn is one TCP connection of a Loop.
type Conn struct {
	loop    *Loop
	fd      int
	handler Handler

	rest []byte // received, not yet a whole packet
	out  []byte // queued, not yet written

	opening bool // the TCP connect is not through
	writing bool // the socket's buffer is full; waiting for EPOLLOUT
	dirty   bool // in loop.dirty
	closed  bool
}

func (c *Conn) open(to netip.AddrPort) error {
	if err := unix.SetsockoptInt(c.fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return fmt.Errorf("set TCP_NODELAY: %w", err)
	}
	if to.Addr().IsLoopback() {
		// The port is chosen at connect, when the whole four-tuple is known.
		_ = unix.SetsockoptInt(c.fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
		if err := unix.Bind(c.fd, &unix.SockaddrInet4{Addr: c.loop.localAddress()}); err != nil {
			return fmt.Errorf("bind: %w", err)
		}
	}
	err := unix.Connect(c.fd, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().Unmap().As4()})
	if err != nil && err != unix.EINPROGRESS {
		return err
	}
	event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLOUT, Fd: int32(c.fd)}
	return unix.EpollCtl(c.loop.epoll, unix.EPOLL_CTL_ADD, c.fd, &event)
}

// Buffer returns the connection's output buffer to append packets to; hand the
// result to Queue.
func (c *Conn) Buffer() []byte { return c.out }

// Queue replaces the output buffer by one to which packets were appended. They
// leave at the end of the turn.
func (c *Conn) Queue(out []byte) {
	if c.closed {
		return
	}
	c.out = out
	if !c.dirty {
		c.dirty = true
		c.loop.dirty = append(c.loop.dirty, c)
	}
}

// Queued returns how many bytes wait to be written.
func (c *Conn) Queued() int { return len(c.out) }

// Flush writes now what is queued.
func (c *Conn) Flush() { c.write() }

// Finish writes what is queued and half-closes the connection: the other side sees
// its end, and Down is called with io.EOF when that side has closed in turn.
func (c *Conn) Finish() {
	c.write()
	if !c.closed {
		_ = unix.Shutdown(c.fd, unix.SHUT_WR) // an error here shows at the next read
	}
}

// Close closes the connection; Down is called with nil.
func (c *Conn) Close() { c.fail(nil) }

func (c *Conn) fail(err error) {
	if c.closed {
		return
	}
	c.closed = true
	delete(c.loop.conns, int32(c.fd))
	unix.Close(c.fd) // leaves the epoll set by itself
	c.out, c.rest = nil, nil
	if c.handler != nil {
		c.handler.Down(c, err)
	}
}

// ready handles the events of one epoll entry.
func (c *Conn) ready(events uint32) {
	if c.opening {
		if code, err := unix.GetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_ERROR); err != nil || code != 0 {
			if err == nil {
				err = unix.Errno(code)
			}
			c.fail(fmt.Errorf("connect: %w", err))
			return
		}
		if events&unix.EPOLLOUT == 0 {
			return
		}
		c.opening = false
		if err := c.watch(unix.EPOLLIN); err != nil {
			c.fail(err)
			return
		}
		c.handler.Up(c)
		return
	}
	if events&unix.EPOLLOUT != 0 && c.writing {
		c.writing = false
		if err := c.watch(unix.EPOLLIN); err != nil {
			c.fail(err)
			return
		}
		c.write()
	}
	if !c.closed && events&(unix.EPOLLIN|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		c.receive()
	}
}

func (c *Conn) watch(events uint32) error {
	event := unix.EpollEvent{Events: events, Fd: int32(c.fd)}
	if err := unix.EpollCtl(c.loop.epoll, unix.EPOLL_CTL_MOD, c.fd, &event); err != nil {
		return fmt.Errorf("watch connection: %w", err)
	}
	return nil
}

// receive reads once (epoll says so if there is more) and hands out the packets.
func (c *Conn) receive() {
	buf := c.loop.read
	kept := copy(buf, c.rest)
	n, err := unix.Read(c.fd, buf[kept:])
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
		return
	case err != nil:
		c.fail(fmt.Errorf("read: %w", err))
		return
	case n == 0:
		c.fail(io.EOF)
		return
	}
	data := buf[:kept+n]
	for len(data) > 0 {
		h, ok, err := mqtt.ParseHeader(data)
		if err != nil {
			c.fail(fmt.Errorf("read packet: %w", err))
			return
		}
		if !ok || len(data) < h.Size+h.Remaining {
			if ok && h.Size+h.Remaining > len(buf) {
				c.fail(errPacketTooLarge)
				return
			}
			break
		}
		c.handler.Packet(c, h, data[h.Size:h.Size+h.Remaining])
		if c.closed {
			return
		}
		data = data[h.Size+h.Remaining:]
	}
	if len(data) == 0 {
		c.rest = nil
		return
	}
	c.rest = append(c.rest[:0], data...)
}

var errPacketTooLarge = errors.New("received a packet larger than the read buffer")

// write writes what is queued, as much as the socket takes.
func (c *Conn) write() {
	if c.closed || c.opening || c.writing {
		return
	}
	for len(c.out) > 0 {
		n, err := unix.Write(c.fd, c.out)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			c.writing = true
			if err := c.watch(unix.EPOLLIN | unix.EPOLLOUT); err != nil {
				c.fail(err)
			}
			return
		case err != nil:
			c.fail(fmt.Errorf("write: %w", err))
			return
		}
		if n == len(c.out) {
			c.out = c.out[:0]
			return
		}
		c.out = c.out[:copy(c.out, c.out[n:])]
	}
}
