package clients_test

import (
	"net"
	"net/http"
	"testing"

	"maestrohub.io/uns/tests/harness"
	"maestrohub.io/uns/tools/launch"
)

// mqttJSInChromium is MQTT.js in a web page, served by the test from an origin of
// its own, in one headless Chromium for the whole test.
func mqttJSInChromium(t *testing.T, page string) vendor {
	node := nodeJS(t)
	harness.Require(t, "/usr/bin/chromium")
	serve(t, page)
	browser := harness.Program(t, launch.Spec{Name: "Chromium", Path: "/usr/bin/chromium", Args: []string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync",
		// The broker's certificate is of an authority made for this test.
		"--ignore-certificate-errors",
		"--remote-debugging-port=0", "--user-data-dir=" + t.TempDir(), "about:blank",
	}})
	devTools := harness.WaitFor(t, browser, `DevTools listening on ws://([0-9.:]+)/`)[1]
	return vendor{
		name: "mqttjs-chromium", short: "web", versions: []version{v31, v311, v5}, transports: []transport{ws, wss},
		open: func(t *testing.T, o options) session {
			return open(t, o, "Chromium page", node, []string{"mqttjs/chromium.mjs"},
				"BROWSER_URL=http://"+devTools, "PAGE_URL=http://"+page+"/page.html")
		},
	}
}

// serve serves the page and the library on host:port until the test ends.
func serve(t *testing.T, address string) {
	t.Helper()
	mux := http.NewServeMux()
	for path, file := range map[string]string{
		"/page.html": "mqttjs/page.html", "/session.mjs": "mqttjs/session.mjs", "/mqtt.min.js": "mqttjs/node_modules/mqtt/dist/mqtt.min.js",
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			if path == "/session.mjs" {
				w.Header().Set("Content-Type", "text/javascript")
			}
			http.ServeFile(w, r, file)
		})
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: mux}
	go server.Serve(listener) // ends with Close
	t.Cleanup(func() { server.Close() })
}
