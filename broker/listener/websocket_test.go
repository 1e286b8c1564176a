package listener

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// readBytes reads n bytes off a WebSocket, over as many messages as they come in.
func readBytes(t *testing.T, ws *websocket.Conn, n int) []byte {
	t.Helper()
	var got []byte
	for len(got) < n {
		kind, p, err := ws.ReadMessage()
		if err != nil || kind != websocket.BinaryMessage {
			t.Fatalf("message of kind %d after %d bytes: %v", kind, len(got), err)
		}
		got = append(got, p...)
	}
	return got
}

func TestWebSocketAndWSSCarryMQTT(t *testing.T) {
	ca := newAuthority(t, "ca")
	plain := start(t, Options{WebSocket: anyPort, TrustClientAddresses: true})
	secure := start(t, Options{WebSocket: anyPort, Certificates: certificates(t, ca, t.TempDir(), "broker", CertificateOptions{})})
	for _, c := range []struct {
		b         *broker
		config    *tls.Config
		transport string
	}{{plain, nil, WS}, {secure, &tls.Config{RootCAs: ca.pool(), ServerName: "localhost"}, WSS}} {
		ws := webSocket(t, c.b, c.config)
		if ws.Subprotocol() != "mqtt" { // [MQTT-6.0.0-4]
			t.Errorf("subprotocol %q", ws.Subprotocol())
		}
		if err := ws.WriteMessage(websocket.BinaryMessage, []byte("hello")); err != nil {
			t.Fatal(err)
		}
		if got := readBytes(t, ws, 5); string(got) != "hello" {
			t.Errorf("echo %q", got)
		}
		conn := c.b.next(t)
		if conn.Transport != c.transport || conn.TCP() != nil {
			t.Errorf("handed over %+v", conn)
		}
	}
}

func TestPacketsMayShareAndSpanFrames(t *testing.T) {
	b := start(t, Options{WebSocket: anyPort})
	text := bytes.Repeat([]byte("0123456789"), 100)

	ws := webSocket(t, b, nil) // one byte a frame [MQTT-6.0.0-2]
	for i := range text {
		if err := ws.WriteMessage(websocket.BinaryMessage, text[i:i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if got := readBytes(t, ws, len(text)); !bytes.Equal(got, text) {
		t.Errorf("one byte a frame: %q", got)
	}

	large := bytes.Repeat(text, 1000) // 1 MB in one message, of many fragments, some empty
	w, err := ws.NextWriter(websocket.BinaryMessage)
	if err != nil {
		t.Fatal(err)
	}
	received := make(chan []byte)
	go func() { received <- readBytes(t, ws, len(large)) }()
	for chunk := range slices.Chunk(large, 70_000) {
		if _, err := w.Write(chunk); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), ws.WriteMessage(websocket.BinaryMessage, nil), ws.WriteMessage(websocket.PingMessage, []byte("are you there"))); err != nil {
		t.Fatal(err)
	}
	if got := <-received; !bytes.Equal(got, large) {
		t.Errorf("large message: %d bytes", len(got))
	}
}

func TestATextFrameClosesTheConnection(t *testing.T) {
	b := start(t, Options{WebSocket: anyPort})
	ws := webSocket(t, b, nil)
	if err := ws.WriteMessage(websocket.TextMessage, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	_, _, err := ws.ReadMessage()
	if !websocket.IsCloseError(err, websocket.CloseUnsupportedData) { // [MQTT-6.0.0-1]
		t.Errorf("got %v", err)
	}
}

func TestTheCloseHandshakeIsMadeFromBothSides(t *testing.T) {
	b := start(t, Options{WebSocket: anyPort})

	ws := webSocket(t, b, nil) // the device closes: read as the end of the stream, and answered
	conn := b.next(t)
	if err := ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ws.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseNormalClosure) {
		t.Errorf("answer to a close: %v", err)
	}
	eventually(t, "the place is free", func() bool { return b.places.taken.Load() == 0 })
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the broker reads %v", err)
	}

	ws = webSocket(t, b, nil) // the broker closes
	conn = b.next(t)
	if err := conn.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if _, _, err := ws.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseNormalClosure) {
		t.Errorf("close by the broker: %v", err)
	}
}

func TestClosingDoesNotWaitForAPeerThatReadsNothing(t *testing.T) {
	conns := make(chan *Conn, 1)
	l, err := New(Options{WebSocket: anyPort, WebSocketPath: "/mqtt", MaxPending: 10, ConnectTimeout: 10 * time.Second}, func(c *Conn) { conns <- c })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	webSocket(t, &broker{Listener: l}, nil)
	c := <-conns
	stalled, written := make(chan struct{}), make(chan error)
	go func() {
		packet := make([]byte, 1<<20)
		for i := 0; ; i++ {
			if i == 1 {
				close(stalled)
			}
			if _, err := c.Write(packet); err != nil {
				written <- err
				return
			}
		}
	}()
	<-stalled
	begun := time.Now()
	_ = c.Close()
	if err := <-written; err == nil {
		t.Error("the write succeeded")
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("close took %v", took)
	}
}

func TestAReadDeadlineHoldsOverWebSocket(t *testing.T) {
	conns := make(chan *Conn, 1)
	l, err := New(Options{WebSocket: anyPort, WebSocketPath: "/mqtt", MaxPending: 10, ConnectTimeout: 300 * time.Millisecond}, func(c *Conn) { conns <- c })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	webSocket(t, &broker{Listener: l}, nil)
	c := <-conns
	defer c.Close()
	for range 3 { // the ConnectTimeout's, and it stays so
		if _, err := c.Read(make([]byte, 1)); late(err, "") != ConnectTimeout {
			t.Errorf("read: %v", err)
		}
	}
	if err := c.SetWriteDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte("late")); late(err, "") != ConnectTimeout {
		t.Errorf("write: %v", err)
	}
}

func TestUpgradesAreRefusedWithAnAnswer(t *testing.T) {
	b := start(t, Options{WebSocket: anyPort, AllowedOrigins: []string{"https://plant.example"}})
	same := start(t, Options{WebSocket: anyPort})
	any := start(t, Options{WebSocket: anyPort, AllowedOrigins: []string{"*"}})
	for name, c := range map[string]struct {
		b         *broker
		path      string
		protocols []string
		origin    string
		code      int // 101 = accepted
	}{
		"mqtt":                {b, "/mqtt", []string{"mqtt"}, "", 101},
		"mqtt among others":   {b, "/mqtt", []string{"chat", "mqtt"}, "", 101},
		"MQTT 3.1's":          {b, "/mqtt", []string{"mqttv3.1"}, "", 101},
		"no subprotocol":      {b, "/mqtt", nil, "", 400},
		"other subprotocol":   {b, "/mqtt", []string{"chat"}, "", 400},
		"other path":          {b, "/", []string{"mqtt"}, "", 404},
		"allowed origin":      {b, "/mqtt", []string{"mqtt"}, "https://plant.example", 101},
		"other origin":        {b, "/mqtt", []string{"mqtt"}, "https://evil.example", 403},
		"own host not listed": {b, "/mqtt", []string{"mqtt"}, "http://" + b.addr(WS), 101},
		"no page's origin":    {b, "/mqtt", []string{"mqtt"}, "null", 403},
		"own host":            {same, "/mqtt", []string{"mqtt"}, "http://" + same.addr(WS), 101},
		"not own host":        {same, "/mqtt", []string{"mqtt"}, "http://evil.example", 403},
		"any origin":          {any, "/mqtt", []string{"mqtt"}, "http://evil.example", 101},
	} {
		header := http.Header{}
		if c.origin != "" {
			header.Set("Origin", c.origin)
		}
		d := websocket.Dialer{Subprotocols: c.protocols}
		ws, answer, err := d.Dial("ws://"+c.b.addr(WS)+c.path, header)
		if answer == nil {
			t.Errorf("%s: no answer: %v", name, err)
			continue
		}
		if answer.StatusCode != c.code {
			t.Errorf("%s: %s", name, answer.Status)
		}
		if err == nil {
			_ = ws.Close()
		}
	}
}

func TestWhatIsNoUpgradeIsRefused(t *testing.T) {
	b := start(t, Options{WebSocket: anyPort})
	for request, status := range map[string]string{
		"GET /mqtt HTTP/1.1\r\nHost: x\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n":                                               "HTTP/1.1 400 ",
		"\x10\x0e\x00\x04MQTT\x04\x02\x00\x00\x00\x02id\r\n\r\n":                                                              "HTTP/1.1 400 ",
		"GET /mqtt HTTP/1.1\r\nX: " + strings.Repeat("x", longestRequest):                                                     "HTTP/1.1 431 ",
		"POST /mqtt HTTP/1.1\r\nHost: x\r\nSec-WebSocket-Protocol: mqtt\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n": "HTTP/1.1 405 ",
	} {
		nc := dial(t, b.addr(WS))
		if _, err := io.WriteString(nc, request); err != nil {
			t.Fatal(err)
		}
		answer, _ := io.ReadAll(nc) // closed after it
		if !strings.HasPrefix(string(answer), status) {
			t.Errorf("%.40q: %.60q", request, answer)
		}
	}
}
