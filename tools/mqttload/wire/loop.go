package wire

import (
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// readSize is the size of the one read buffer all connections share.
const readSize = 256 << 10

// Loop is an epoll instance and its connections. Make it with NewLoop; use it
// from one goroutine.
type Loop struct {
	epoll, timer int
	conns        map[int32]*Conn
	dirty        []*Conn // have something to write this turn
	events       []unix.EpollEvent
	read         []byte
	base         time.Time
	nextLocal    uint32

	// Now is the time of the read whose packets are being handled, in
	// nanoseconds since the loop was made. Handlers use it instead of asking the
	// clock for each packet.
	Now int64
}

// NewLoop returns an empty loop.
func NewLoop() (*Loop, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make epoll: %w", err)
	}
	timer, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		unix.Close(epoll)
		return nil, fmt.Errorf("make timer: %w", err)
	}
	l := &Loop{
		epoll: epoll, timer: timer, conns: map[int32]*Conn{},
		events: make([]unix.EpollEvent, 512), read: make([]byte, readSize), base: time.Now(),
	}
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(timer)}
	if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, timer, &event); err != nil {
		l.Close()
		return nil, fmt.Errorf("watch timer: %w", err)
	}
	return l, nil
}

// Close closes every connection without a word and frees the loop.
func (l *Loop) Close() {
	for _, c := range l.conns {
		c.handler = nil
		c.Close()
	}
	unix.Close(l.timer)
	unix.Close(l.epoll)
}

// Clock asks the clock: nanoseconds since the loop was made.
func (l *Loop) Clock() int64 { return int64(time.Since(l.base)) }

// Len returns how many connections are open or opening.
func (l *Loop) Len() int { return len(l.conns) }

// Dial begins a connection to an IPv4 address. The local address rotates through
// 127.1.0.0/16 if the target is on loopback, so that connections by the ten
// thousand do not run out of local ports that are still in TIME_WAIT.
func (l *Loop) Dial(to netip.AddrPort, h Handler) (*Conn, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", to, err)
	}
	c := &Conn{loop: l, fd: fd, handler: h, opening: true}
	if err := c.open(to); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("dial %s: %w", to, err)
	}
	l.conns[int32(fd)] = c
	return c, nil
}

// localAddress returns the next of the loopback addresses to connect from.
func (l *Loop) localAddress() [4]byte {
	l.nextLocal++
	return [4]byte{127, 1, byte(l.nextLocal >> 8), byte(l.nextLocal)}
}

// Turn waits until something happens on a connection or the clock reaches until
// (nanoseconds since the loop was made), calls the handlers, and writes what
// they queued.
func (l *Loop) Turn(until int64) error {
	l.flush()
	wait := until - l.Clock()
	timeout := 0
	if wait > 0 {
		spec := unix.ItimerSpec{Value: unix.NsecToTimespec(wait)}
		if err := unix.TimerfdSettime(l.timer, 0, &spec, nil); err != nil {
			return fmt.Errorf("set timer: %w", err)
		}
		timeout = -1
	}
	n, err := unix.EpollWait(l.epoll, l.events, timeout)
	if err != nil && err != unix.EINTR {
		return fmt.Errorf("wait for connections: %w", err)
	}
	l.Now = l.Clock()
	for i := range max(n, 0) {
		e := l.events[i]
		if e.Fd == int32(l.timer) {
			var expirations [8]byte
			_, _ = unix.Read(l.timer, expirations[:]) // its end is all it says
			continue
		}
		if c := l.conns[e.Fd]; c != nil {
			c.ready(e.Events)
		}
	}
	l.flush()
	return nil
}

// Flush writes what was queued outside a handler.
func (l *Loop) Flush() { l.flush() }

func (l *Loop) flush() {
	// A write that fails calls Down, whose handler may queue elsewhere.
	for i := 0; i < len(l.dirty); i++ {
		c := l.dirty[i]
		c.dirty = false
		c.write()
	}
	l.dirty = l.dirty[:0]
}
