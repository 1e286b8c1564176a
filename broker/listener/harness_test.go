package listener

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// broker is a listener whose handler writes back all it reads, after sending the connection to conns.
type broker struct {
	*Listener
	conns chan *Conn
	mu    sync.Mutex
	said  map[string]int // reasons of refusals
}

func start(t *testing.T, o Options) *broker {
	t.Helper()
	b := &broker{conns: make(chan *Conn, 100), said: make(map[string]int)}
	if o.MaxPending == 0 {
		o.MaxPending = 100
	}
	if o.MaxPerSource == 0 {
		o.MaxPerSource = 100
	}
	if o.ConnectTimeout == 0 {
		o.ConnectTimeout = 10 * time.Second
	}
	if o.WebSocketPath == "" {
		o.WebSocketPath = "/mqtt"
	}
	o.Refused = func(_, reason string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.said[reason]++
	}
	l, err := New(o, func(c *Conn) {
		b.conns <- c
		_, _ = io.Copy(c, c)
		_ = c.Close()
	})
	if err != nil {
		t.Fatal(err)
	}
	b.Listener = l
	t.Cleanup(l.Close)
	return b
}

func (b *broker) refused(reason string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.said[reason]
}

func (b *broker) addr(transport string) string { return b.Addrs()[transport].String() }

// next is the connection handed over next.
func (b *broker) next(t *testing.T) *Conn {
	t.Helper()
	select {
	case c := <-b.conns:
		return c
	case <-time.After(10 * time.Second):
		t.Fatal("no connection was handed over within 10s")
		return nil
	}
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	nc, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(10 * time.Second))
	return nc
}

// echo sends text and expects it back.
func echo(t *testing.T, nc net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(nc, text); err != nil {
		t.Fatalf("write: %v", err)
	}
	got := make([]byte, len(text))
	if _, err := io.ReadFull(nc, got); err != nil || string(got) != text {
		t.Fatalf("echo of %q: %q, %v", text, got, err)
	}
}

// ended waits until the other side has closed nc.
func ended(t *testing.T, nc net.Conn) {
	t.Helper()
	_ = nc.SetReadDeadline(time.Now().Add(10 * time.Second))
	if n, err := io.Copy(io.Discard, nc); err != nil {
		if ne, ok := err.(net.Error); ok && ne.Timeout() {
			t.Fatalf("not closed within 10s, read %d bytes", n)
		}
	}
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline, look := time.After(20*time.Second), time.NewTicker(2*time.Millisecond)
	defer look.Stop()
	for !condition() {
		select {
		case <-look.C:
		case <-deadline:
			t.Fatalf("not within 20s: %s", what)
		}
	}
}

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert, key}
}

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// issue makes a certificate and key for name, valid for the time given.
func (a *authority) issue(t *testing.T, name string, valid time.Duration) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(valid),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, private.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}

func (a *authority) pair(t *testing.T, name string) tls.Certificate {
	t.Helper()
	cert, key := a.issue(t, name, time.Hour)
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// certificates are files in dir with a certificate for name, and followed.
func certificates(t *testing.T, a *authority, dir, name string, o CertificateOptions) *Certificates {
	t.Helper()
	cert, key := a.issue(t, name, time.Hour)
	o.CertFile, o.KeyFile = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	write(t, o.CertFile, cert)
	write(t, o.KeyFile, key)
	c, err := OpenCertificates(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// webSocket dials the broker's WebSocket as an MQTT client does.
func webSocket(t *testing.T, b *broker, config *tls.Config) *websocket.Conn {
	t.Helper()
	scheme := WS
	if config != nil {
		scheme = WSS
	}
	url := scheme + "://" + b.addr(scheme) + "/mqtt"
	d := websocket.Dialer{Subprotocols: []string{"mqtt"}, TLSClientConfig: config}
	ws, _, err := d.Dial(url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ws.Close() })
	_ = ws.SetReadDeadline(time.Now().Add(10 * time.Second))
	return ws
}
