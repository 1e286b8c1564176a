package listener

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
)

// stream is a WebSocket as a stream of bytes. In what is read, packets may share messages and span them
// [MQTT-6.0.0-2]; what is written goes one packet a message, as there are clients that take only the
// first packet of each.
//
// A frame is read as it is asked for, never gathered. A read that fails, its deadline included, ends the
// stream: every later read fails the same way.
type stream struct {
	ws     *websocket.Conn // reads, and answers control frames
	wire   *wire
	frame  io.Reader // rest of the message being read; nil between messages. The reader's own.
	failed error     // why reading ended. The reader's own.
	closed atomic.Bool
	over   atomic.Bool // a Close frame has been sent
}

// closing bounds the wait to send a Close frame, which a full socket would not take.
const closing = 100 * time.Millisecond

// newStream is the stream over ws, which has w as its connection.
func newStream(ws *websocket.Conn, w *wire) *stream {
	s := &stream{ws: ws, wire: w}
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

// Write sends each packet of p as one binary message, all of them at once. What is no whole packet is
// one message with the rest of p.
func (s *stream) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	f := frame(p)
	defer f.recycle()
	if err := s.wire.send(f); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close sends a Close frame, unless one was sent or a write is under way, and closes the connection.
func (s *stream) Close() error {
	if s.closed.Swap(true) {
		return net.ErrClosed
	}
	if s.wire.idle() {
		s.sendClose(websocket.CloseNormalClosure, "")
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
func (s *stream) SetWriteDeadline(t time.Time) error { return s.wire.expire(t) }
