package listener

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

const (
	longestRequest = 16 << 10 // bytes of an upgrade request, cookies included
	readBuffer     = 512      // bytes held by an idle WebSocket; frames larger than it bypass it
	answering      = 5 * time.Second
)

// upgrader makes WebSockets of connections.
type upgrader struct {
	path     string
	upgrader websocket.Upgrader
}

func newUpgrader(path string, allowedOrigins []string) *upgrader {
	u := &upgrader{path: path}
	u.upgrader = websocket.Upgrader{
		HandshakeTimeout: answering,
		ReadBufferSize:   readBuffer,
		WriteBufferPool:  new(sync.Pool), // stays empty, as messages are written past the library: without it each WebSocket holds a buffer
		// The server's answer names the subprotocol it took [MQTT-6.0.0-4]; "mqttv3.1" is what MQTT 3.1 clients ask for.
		Subprotocols: []string{"mqtt", "mqttv3.1"},
		CheckOrigin:  func(r *http.Request) bool { return originAllowed(r, allowedOrigins) },
	}
	return u
}

// originAllowed reports whether the page a browser opens the WebSocket from may: those of the endpoint's
// own host and those allowed. What is not a browser sends no Origin.
func originAllowed(r *http.Request, allowed []string) bool {
	origin := r.Header.Get("Origin")
	if origin == "" || slices.Contains(allowed, "*") {
		return true
	}
	if u, err := url.Parse(origin); err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host) {
		return true
	}
	return slices.ContainsFunc(allowed, func(a string) bool { return strings.EqualFold(a, origin) })
}

// handshake answers one upgrade request on nc, within nc's deadline.
func (u *upgrader) handshake(nc net.Conn) (net.Conn, error) {
	limited := &io.LimitedReader{R: nc, N: longestRequest}
	br := bufio.NewReaderSize(limited, 1<<10)
	r, err := http.ReadRequest(br)
	if err != nil {
		if limited.N == 0 {
			answer(nc, http.StatusRequestHeaderFieldsTooLarge, "the request is larger than "+strconv.Itoa(longestRequest)+" bytes")
		} else if late(err, "") == "" && !errors.Is(err, io.EOF) {
			answer(nc, http.StatusBadRequest, "not an HTTP request")
		}
		return nil, fmt.Errorf("read WebSocket request: %w", err)
	}
	if r.URL.Path != u.path {
		answer(nc, http.StatusNotFound, "the MQTT WebSocket is at "+u.path)
		return nil, fmt.Errorf("WebSocket request for %q", r.URL.Path)
	}
	if asked := websocket.Subprotocols(r); !slices.ContainsFunc(asked, func(p string) bool { return slices.Contains(u.upgrader.Subprotocols, p) }) {
		// A client must offer "mqtt" [MQTT-6.0.0-3].
		answer(nc, http.StatusBadRequest, `the WebSocket subprotocol must be "mqtt"`)
		return nil, fmt.Errorf("WebSocket subprotocols %q", asked)
	}
	w := &response{nc: nc, br: br, header: make(http.Header)}
	ws, err := u.upgrader.Upgrade(w, r, nil)
	if err != nil {
		return nil, fmt.Errorf("WebSocket handshake: %w", err)
	}
	return newStream(ws, w.wire), nil
}

// answer writes an HTTP response that ends the connection. Whether it arrives does not matter.
func answer(nc net.Conn, code int, text string) {
	w := &response{nc: nc, header: make(http.Header)}
	http.Error(w, text, code)
}

// response is the ResponseWriter of one request that is upgraded or refused.
type response struct {
	nc     net.Conn
	br     *bufio.Reader
	wire   *wire // once hijacked
	header http.Header
	code   int
}

func (w *response) Header() http.Header { return w.header }

func (w *response) WriteHeader(code int) {
	if w.code != 0 {
		return
	}
	w.code = code
	w.header.Set("Connection", "close")
	head := "HTTP/1.1 " + strconv.Itoa(code) + " " + http.StatusText(code) + "\r\n"
	var b strings.Builder
	b.WriteString(head)
	_ = w.header.Write(&b)
	b.WriteString("\r\n")
	_, _ = io.WriteString(w.nc, b.String())
}

func (w *response) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.nc.Write(p)
}

// Hijack hands the connection to the upgrader.
func (w *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.wire = newWire(w.nc)
	return w.wire, bufio.NewReadWriter(w.br, bufio.NewWriterSize(w.wire, 16)), nil
}
