package listener

import (
	"net"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
)

// wire is the socket under a WebSocket. Messages are written to it by send, control frames by the
// WebSocket library; it keeps them from tearing each other apart.
type wire struct {
	net.Conn
	turn    chan struct{} // full while a write is under way; its sender owns failed
	failed  error         // why nothing may be written any more
	control time.Time     // deadline of the library's writes; owned by the library's write lock

	deadline atomic.Pointer[time.Time] // of messages; nil = none
}

func newWire(nc net.Conn) *wire { return &wire{Conn: nc, turn: make(chan struct{}, 1)} }

// send writes f, in one write as far as the socket can. After an error nothing more is written: what was
// begun cannot be ended.
func (w *wire) send(f *frames) error {
	w.turn <- struct{}{}
	defer func() { <-w.turn }()
	if w.failed != nil {
		return w.failed
	}
	for { // until the deadline set is the one asked for last, as expire may be called meanwhile
		t := w.deadline.Load()
		if t == nil {
			_ = w.Conn.SetWriteDeadline(time.Time{})
		} else {
			_ = w.Conn.SetWriteDeadline(*t)
		}
		if t == w.deadline.Load() {
			break
		}
	}
	_, w.failed = f.WriteTo(w.Conn)
	return w.failed
}

// expire sets the deadline of messages, also of one under way.
func (w *wire) expire(t time.Time) error {
	w.deadline.Store(&t)
	return w.Conn.SetWriteDeadline(t)
}

// idle reports whether no write is under way.
func (w *wire) idle() bool { return len(w.turn) == 0 }

// closeFrame is the first byte of a Close frame. No HTTP answer begins with it.
const closeFrame = 0x80 | websocket.CloseMessage

// Write is the library's: the answer to the upgrade, or one control frame. A control frame that gets no
// turn before its deadline is left out, as messages are being written for that long.
func (w *wire) Write(p []byte) (int, error) {
	select {
	case w.turn <- struct{}{}:
	default:
		late := time.NewTimer(time.Until(w.control))
		defer late.Stop()
		select {
		case w.turn <- struct{}{}:
		case <-late.C:
			return len(p), nil
		}
	}
	defer func() { <-w.turn }()
	if w.failed != nil {
		return 0, w.failed
	}
	_ = w.Conn.SetWriteDeadline(w.control)
	n, err := w.Conn.Write(p)
	if w.failed = err; err == nil && p[0] == closeFrame {
		w.failed = websocket.ErrCloseSent // no message follows it
	}
	return n, err
}

// SetWriteDeadline bounds the library's next write.
func (w *wire) SetWriteDeadline(t time.Time) error {
	w.control = t
	return nil
}
