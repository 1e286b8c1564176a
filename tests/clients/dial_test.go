package clients_test

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"testing"

	mqtt "github.com/eclipse/paho.mqtt.golang"

	"maestrohub.io/uns/tests/harness"
	"maestrohub.io/uns/tools/launch"
)

// dial opens the connection of a Go client: TCP, TLS, or the WebSocket stream of
// paho.mqtt.golang.
func dial(t *testing.T, o options) net.Conn {
	t.Helper()
	var c net.Conn
	var err error
	switch o.Transport {
	case tcp:
		c, err = net.DialTimeout("tcp", o.Address, harness.Patience)
	case overTLS:
		c, err = tls.DialWithDialer(&net.Dialer{Timeout: harness.Patience}, "tcp", o.Address, trust(t, o))
	case ws:
		c, err = mqtt.NewWebsocket("ws://"+o.Address+launch.WebSocketPath, nil, harness.Patience, nil, nil)
	case wss:
		c, err = mqtt.NewWebsocket("wss://"+o.Address+launch.WebSocketPath, trust(t, o), harness.Patience, nil, nil)
	}
	if err != nil {
		t.Fatalf("dial %s://%s: %v", o.Transport, o.Address, err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// trust returns the TLS configuration that trusts the broker's authority.
func trust(t *testing.T, o options) *tls.Config {
	t.Helper()
	authority, err := os.ReadFile(o.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		t.Fatalf("no certificate in %s", o.CAFile)
	}
	return &tls.Config{RootCAs: roots}
}
