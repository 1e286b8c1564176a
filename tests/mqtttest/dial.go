package mqtttest

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"maestrohub.io/uns/broker/mqtt"
)

// Timeout bounds every wait of a test for one packet. It is far above what a
// packet takes, so that a busy machine fails no test.
const Timeout = 15 * time.Second

// Dial opens a connection ("tcp", "tls", "ws", "wss") on which nothing has been
// said yet, closed at the end of the test.
func (b *Broker) Dial(t testing.TB, v mqtt.Version, transport string) *Client {
	t.Helper()
	nc, err := b.dial(transport)
	if err != nil {
		t.Fatalf("dial %s: %v", transport, err)
	}
	return NewClient(t, v, nc)
}

func (b *Broker) dial(transport string) (net.Conn, error) {
	b = b.next()
	address := b.Address(transport)
	if address == "" {
		return nil, fmt.Errorf("the broker has no %s listener", transport)
	}
	dialer := &net.Dialer{Timeout: Timeout}
	var secure *tls.Config
	if transport == "tls" || transport == "wss" {
		var err error
		if secure, err = b.TLS(); err != nil {
			return nil, err
		}
	}
	switch transport {
	case "tls":
		return tls.DialWithDialer(dialer, "tcp", address, secure)
	case "ws", "wss":
		ws := &websocket.Dialer{HandshakeTimeout: Timeout, Subprotocols: []string{"mqtt"}, TLSClientConfig: secure}
		conn, response, err := ws.Dial(transport+"://"+address+b.Config.Broker.WebSocket.Path, nil)
		if err != nil {
			return nil, err
		}
		_ = response.Body.Close()
		return &webSocket{Conn: conn}, nil
	default:
		return dialer.Dial("tcp", address)
	}
}

// webSocket is a WebSocket as a stream of bytes; each Write is one message.
type webSocket struct {
	*websocket.Conn
	message io.Reader
}

func (w *webSocket) Read(p []byte) (int, error) {
	for {
		if w.message == nil {
			kind, message, err := w.NextReader()
			if err != nil {
				var closed *websocket.CloseError
				if errors.As(err, &closed) {
					return 0, io.EOF
				}
				return 0, err
			}
			if kind != websocket.BinaryMessage {
				return 0, fmt.Errorf("a WebSocket message of type %d came, want binary", kind)
			}
			w.message = message
		}
		n, err := w.message.Read(p)
		if errors.Is(err, io.EOF) {
			w.message, err = nil, nil
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

func (w *webSocket) Write(p []byte) (int, error) {
	if err := w.WriteMessage(websocket.BinaryMessage, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (w *webSocket) SetDeadline(at time.Time) error {
	return errors.Join(w.SetReadDeadline(at), w.SetWriteDeadline(at))
}
