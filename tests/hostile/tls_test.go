package hostile_test

import (
	"crypto/tls"
	"net"
	"testing"

	"maestrohub.io/uns/tests/harness"
)

// TestHostileTLS: what is no TLS handshake, half of one, or one without a CONNECT
// after it ends with connectTimeout at the latest.
func TestHostileTLS(t *testing.T) {
	r := &rig{harness.Start(t, harness.Options{Clients: harness.Clients(healthy, attacker), Settings: limits, TLS: true})}
	r.watch(t)
	for name, bytes := range map[string]string{
		"plain MQTT":           "\x10\x0d\x00\x04MQTT\x05\x02\x00\x00\x00\x00\x00",
		"HTTP":                 "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"half a ClientHello":   "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
		"a record of no bytes": "\x16\x03\x01\x00\x00",
		"nothing":              "",
	} {
		c := dial(t, r.TLS)
		if _, err := c.Write([]byte(bytes)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		closed(t, c, name)
	}
	var silent []net.Conn
	for range 50 {
		silent = append(silent, r.DialTLS(t, nil))
	}
	for _, c := range silent {
		closed(t, c, "a TLS connection without a CONNECT")
	}
	if _, err := tls.Dial("tcp", r.TLS, &tls.Config{RootCAs: r.Roots(t), MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}); err == nil {
		t.Error("a handshake of TLS 1.1 was accepted, want 1.2 or later")
	}
	r.DialTLS(t, nil).Connect(r.ConnectAs(healthy, "after-the-handshakes"))
}
