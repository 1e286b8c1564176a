package listener

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
)

// stream is a WebSocket as a stream of bytes: packets may share frames and span them [MQTT-6.0.0-2].
//
// A frame is read as it is asked for, never gathered. A read that fails, its deadline included, ends the
// stream: every later read fails the same way.
type stream struct {
	ws     *websocket.Conn
	frame  io.Reader // rest of the message being read; nil between messages. The reader's own.
	failed error     // why reading ended. The reader's own.
	closed atomic.Bool
	over   atomic.Bool // a Close frame has been sent

	writing  sync.Mutex
	deadline atomic.Pointer[time.Time] // of writes
}

// closing bounds the wait to send a Close frame, which a full socket would not take.
const closing = 100 * time.Millisecond

func newStream(ws *websocket.Conn) *stream {
	s := &stream{ws: ws}
	answerClose := ws.CloseHandler()
	ws.SetCloseHandler(func(code int, text string) error {
		s.over.Store(true)
		return answerClose(code, text)
	})
	return s
}

func (s *stream) Read(p []byte) (int, error) {
	if s.failed != nil {
		return 0, s.failed
	}
	if len(p) == 0 {
		return 0, nil
	}
	for {
		if s.frame == nil {
			kind, frame, err := s.ws.NextReader()
			if err != nil {
				return 0, s.fail(err)
			}
			if kind != websocket.BinaryMessage { // [MQTT-6.0.0-1]
				s.sendClose(websocket.CloseUnsupportedData, errNotBinary.Error())
				return 0, s.fail(errNotBinary)
			}
			s.frame = frame
		}
		n, err := s.frame.Read(p)
		if errors.Is(err, io.EOF) {
			s.frame, err = nil, nil
		}
		if err != nil {
			err = s.fail(err)
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

var errNotBinary = errors.New("WebSocket message is not binary")

// fail ends reading. A peer that closed as it should reads as the end of the stream.
func (s *stream) fail(err error) error {
	switch {
	case s.closed.Load():
		err = net.ErrClosed
	case websocket.IsCloseError(err, websocket.CloseNormalClosure, websocket.CloseGoingAway, websocket.CloseNoStatusReceived):
		err = io.EOF
	}
	s.failed = err
	return err
}

// Write sends p as one binary message.
func (s *stream) Write(p []byte) (int, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if t := s.deadline.Load(); t != nil {
		_ = s.ws.SetWriteDeadline(*t)
	}
	if err := s.ws.WriteMessage(websocket.BinaryMessage, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close sends a Close frame, unless one was sent or a write is under way, and closes the connection.
func (s *stream) Close() error {
	if s.closed.Swap(true) {
		return net.ErrClosed
	}
	if s.writing.TryLock() {
		s.sendClose(websocket.CloseNormalClosure, "")
		s.writing.Unlock()
	}
	return s.ws.Close()
}

// sendClose sends the one Close frame of this side.
func (s *stream) sendClose(status int, text string) {
	if !s.over.Swap(true) {
		_ = s.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(status, text), time.Now().Add(closing))
	}
}

func (s *stream) LocalAddr() net.Addr  { return s.ws.LocalAddr() }
func (s *stream) RemoteAddr() net.Addr { return s.ws.RemoteAddr() }

func (s *stream) SetDeadline(t time.Time) error {
	return errors.Join(s.SetReadDeadline(t), s.SetWriteDeadline(t))
}
func (s *stream) SetReadDeadline(t time.Time) error { return s.ws.SetReadDeadline(t) }

// SetWriteDeadline bounds the write under way and those after it.
func (s *stream) SetWriteDeadline(t time.Time) error {
	s.deadline.Store(&t)
	return s.ws.NetConn().SetWriteDeadline(t)
}
