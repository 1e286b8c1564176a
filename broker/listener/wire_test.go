package listener

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

func TestControlFramesNeverTearMessages(t *testing.T) {
	ws, s, _ := pair(t, nil)
	go func() { _, _ = io.Copy(io.Discard, s) }() // answers pings
	const rounds = 200
	pongs := 0
	ws.SetPongHandler(func(string) error { pongs++; return nil })
	packets := [][]byte{publish(10), publish(300), publish(copied + 1), publish(0)}
	var writers sync.WaitGroup
	for range 2 {
		writers.Go(func() {
			for range rounds {
				if _, err := s.Write(bytes.Join(packets, nil)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Go(func() {
		for range rounds {
			if err := ws.WriteControl(websocket.PingMessage, []byte("are you there"), time.Now().Add(10*time.Second)); err != nil {
				t.Error(err)
			}
		}
	})
	for range 2 * rounds {
		messages(t, ws, packets...)
	}
	writers.Wait()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ws.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseNormalClosure) {
		t.Errorf("after the last message: %v", err)
	}
	if pongs == 0 {
		t.Error("no ping was answered")
	}
}

func TestNoMessageFollowsACloseFrame(t *testing.T) {
	ws, s, _ := pair(t, nil)
	if err := ws.WriteMessage(websocket.TextMessage, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(make([]byte, 1)); !errors.Is(err, errNotBinary) { // and answers with a Close frame
		t.Fatalf("read: %v", err)
	}
	if _, err := s.Write(publish(1)); !errors.Is(err, websocket.ErrCloseSent) {
		t.Errorf("write: %v", err)
	}
}

// A pong that would wait for messages to be written is left out; neither it nor the next is an error.
func TestAControlFrameThatGetsNoTurnIsLeftOut(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	w := newWire(near)
	sent := make(chan error, 1)
	f := frame(publish(1))
	go func() { sent <- w.send(f) }()
	if _, err := far.Read(make([]byte, 1)); err != nil { // the message is under way
		t.Fatal(err)
	}
	if w.idle() {
		t.Error("idle while a message is under way")
	}
	_ = w.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
	if n, err := w.Write([]byte{0x8A, 0}); n != 2 || err != nil {
		t.Errorf("pong: %d, %v", n, err)
	}
	rest := make([]byte, 1+len(publish(1)))
	if _, err := io.ReadFull(far, rest); err != nil || !bytes.HasSuffix(rest, publish(1)) {
		t.Errorf("the message arrives as %x, %v", rest, err)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

// A deadline that ends a message half-way ends the connection's writing: the rest could only be taken for
// something else.
func TestNothingFollowsAMessageCutShort(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	w := newWire(near)
	sent := make(chan error, 1)
	f := frame(publish(1))
	go func() { sent <- w.send(f) }()
	if _, err := far.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	_ = w.expire(time.Now().Add(-time.Second)) // also of the message under way
	if err := <-sent; late(err, "") != ConnectTimeout {
		t.Errorf("message: %v", err)
	}
	_ = w.expire(time.Time{})
	_ = w.SetWriteDeadline(time.Now().Add(time.Second))
	if _, err := w.Write([]byte{0x8A, 0}); err == nil {
		t.Error("a pong follows")
	}
	if err := w.send(f); err == nil {
		t.Error("a message follows")
	}
}
