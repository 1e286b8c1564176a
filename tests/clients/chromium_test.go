package clients_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"maestrohub.io/uns/tests/harness"
	"maestrohub.io/uns/tools/launch"
)

// browser is one headless Chromium for a whole test. It shows a page that the test
// serves, from an origin that is not the broker's, and that takes commands over a
// WebSocket of its own. Each MQTT session is MQTT.js in a frame of that page; to
// drop the session the page removes the frame.
type browser struct {
	origin  string
	control *websocket.Conn

	mu       sync.Mutex // owner of writes to control and of sessions
	sessions map[string]chan string
}

// command is what the test says to the page: open a session, do something in it,
// or drop it.
type command struct {
	Session string       `json:"session"`
	Open    *pageOptions `json:"open,omitempty"`
	Line    string       `json:"line,omitempty"`
	Drop    bool         `json:"drop,omitempty"`
}

// pageOptions are the options session.mjs takes.
type pageOptions struct {
	URL      string    `json:"url"`
	Version  version   `json:"version"`
	ClientID string    `json:"clientId"`
	User     string    `json:"user"`
	Password string    `json:"password"`
	Clean    bool      `json:"clean"`
	Will     *pageWill `json:"will,omitempty"`
}

type pageWill struct {
	Topic   string `json:"topic"`
	Payload string `json:"payload"`
	QoS     byte   `json:"qos"`
}

// event is a line that a session said.
type event struct {
	Session string `json:"session"`
	Line    string `json:"line"`
}

// openBrowser starts Chromium and waits until the page has called back.
func openBrowser(t *testing.T) *browser {
	harness.Require(t, "/usr/bin/chromium", "mqttjs/node_modules/mqtt/dist/mqtt.min.js")
	b := &browser{sessions: map[string]chan string{}}
	called := make(chan *websocket.Conn, 1)
	mux := http.NewServeMux()
	for path, file := range map[string]string{
		"/page.html": "mqttjs/page.html", "/frame.html": "mqttjs/frame.html", "/mqtt.min.js": "mqttjs/node_modules/mqtt/dist/mqtt.min.js",
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, file) })
	}
	mux.HandleFunc("/session.mjs", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/javascript") // not every machine knows .mjs
		http.ServeFile(w, r, "mqttjs/session.mjs")
	})
	mux.HandleFunc("/control", func(w http.ResponseWriter, r *http.Request) {
		if c, err := (&websocket.Upgrader{}).Upgrade(w, r, nil); err == nil {
			called <- c
		}
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	b.origin = server.URL
	harness.Program(t, launch.Spec{Name: "Chromium", Path: "/usr/bin/chromium", Args: []string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync",
		// The broker's certificate is of an authority made for this test.
		"--ignore-certificate-errors",
		// Headless Chromium ends after its page is loaded unless it is being debugged.
		"--remote-debugging-port=0", "--user-data-dir=" + t.TempDir(), server.URL + "/page.html",
	}})
	select {
	case b.control = <-called:
	case <-time.After(harness.Patience):
		t.Fatalf("the page did not call back within %s", harness.Patience)
	}
	t.Cleanup(func() { b.control.Close() })
	go b.read()
	return b
}

// read hands each line to its session until the page is gone.
func (b *browser) read() {
	for {
		var e event
		err := b.control.ReadJSON(&e)
		b.mu.Lock()
		if err != nil {
			for _, lines := range b.sessions {
				close(lines)
			}
			b.sessions = nil
			b.mu.Unlock()
			return
		}
		if lines := b.sessions[e.Session]; lines != nil {
			lines <- e.Line
		}
		b.mu.Unlock()
	}
}

func (b *browser) say(c command) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.control.WriteJSON(c)
}

func (b *browser) vendor() vendor {
	return vendor{short: "web", over: each(everyVersion, ws, wss), open: b.open}
}

func (b *browser) open(t *testing.T, o options) session {
	t.Helper()
	p := &pageOptions{
		URL: fmt.Sprintf("%s://%s%s", o.Transport, o.Address, launch.WebSocketPath), Version: o.Version,
		ClientID: o.ClientID, User: o.User, Password: o.Password, Clean: o.Clean,
	}
	if o.Will != nil {
		p.Will = &pageWill{Topic: o.Will.Topic, Payload: o.Will.Payload, QoS: o.Will.QoS}
	}
	lines := make(chan string, 1000)
	b.mu.Lock()
	name := fmt.Sprintf("session-%d", len(b.sessions))
	b.sessions[name] = lines
	b.mu.Unlock()
	if err := b.say(command{Session: name, Open: p}); err != nil {
		t.Fatal(err)
	}
	each := func(yield func(string) bool) {
		for line := range lines {
			if !yield(line) {
				return
			}
		}
	}
	return newDriver(t, o, "Chromium page", each,
		func(line string) error { return b.say(command{Session: name, Line: strings.TrimSuffix(line, "\n")}) },
		func() error { return b.say(command{Session: name, Drop: true}) })
}
