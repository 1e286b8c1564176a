package hostile_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"maestrohub.io/uns/tests/harness"
	"maestrohub.io/uns/tools/launch"
)

// TestHostileHTTP: what is no WebSocket handshake for MQTT is refused as HTTP says.
func TestHostileHTTP(t *testing.T) {
	r := start(t)
	for name, request := range map[string]string{
		"no upgrade":           "GET /mqtt HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
		"another path":         "GET /other HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
		"another method":       "POST /mqtt HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
		"no HTTP":              "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
		"MQTT":                 "\x10\x0d\x00\x04MQTT\x05\x02\x00\x00\x00\x00\x00\r\n\r\n",
		"a header without end": "GET /mqtt HTTP/1.1\r\nX: " + strings.Repeat("x", 1<<20),
	} {
		c := dial(t, r.WS)
		_, _ = c.Write([]byte(request)) // it may be closed before all is written
		if answer := string(closed(t, c, name)); answer != "" && !strings.HasPrefix(answer, "HTTP/1.1 4") {
			t.Errorf("%s is answered with %q, want a 4xx", name, answer)
		}
	}
	half := dial(t, r.WS)
	if _, err := half.Write([]byte("GET /mqtt HTTP/1.1\r\nHost: x\r\n")); err != nil {
		t.Fatal(err)
	}
	closed(t, half, "half a handshake")
}

// TestHostileFrames: frames MQTT does not travel in end the connection.
func TestHostileFrames(t *testing.T) {
	r := start(t)
	url := "ws://" + r.WS + launch.WebSocketPath
	open := func(name string) *websocket.Conn {
		d := websocket.Dialer{Subprotocols: []string{"mqtt"}, HandshakeTimeout: harness.Patience}
		c, _, err := d.Dial(url, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	ended := func(name string, c *websocket.Conn) {
		t.Helper()
		if err := c.SetReadDeadline(time.Now().Add(harness.Patience)); err != nil {
			t.Fatal(err)
		}
		for {
			if _, _, err := c.ReadMessage(); err != nil {
				if strings.Contains(err.Error(), "timeout") {
					t.Errorf("%s: the connection is still open after %s", name, harness.Patience)
				}
				return
			}
		}
	}
	text := open("a text frame")
	if err := text.WriteMessage(websocket.TextMessage, []byte("\x10\x00")); err != nil {
		t.Fatal(err)
	}
	ended("a text frame", text)

	silent := open("nothing after the handshake")
	ended("nothing after the handshake", silent)

	unmasked := open("an unmasked frame")
	if _, err := unmasked.NetConn().Write([]byte{0x82, 0x02, 0x10, 0x00}); err != nil {
		t.Fatal(err)
	}
	ended("an unmasked frame", unmasked)

	huge := open("a frame that says it is huge")
	if _, err := huge.NetConn().Write([]byte{0x82, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}); err != nil {
		t.Fatal(err)
	}
	ended("a frame that says it is huge", huge)

	without := websocket.Dialer{HandshakeTimeout: harness.Patience}
	c, response, err := without.Dial(url, nil)
	if err == nil {
		// Accepted without the subprotocol: then nothing may come of it.
		t.Cleanup(func() { c.Close() })
		ended("no subprotocol", c)
	} else if response == nil || response.StatusCode != http.StatusBadRequest && response.StatusCode != http.StatusUpgradeRequired {
		t.Errorf("a handshake without the subprotocol: %v", err)
	}
}
