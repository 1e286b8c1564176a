package replica

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"
)

// selfSigned writes a self-signed certificate for 127.0.0.1 and returns its
// files and a pool that trusts it.
func selfSigned(t *testing.T, dir string) (certFile, keyFile string, pool *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(certPEM)
	return write(t, filepath.Join(dir, "tls.crt"), string(certPEM)),
		write(t, filepath.Join(dir, "tls.key"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))), pool
}

func TestTheAPIAndMQTTAreServedOverTLSWithTheirCertificates(t *testing.T) {
	dir := t.TempDir()
	c := ephemeral(filepath.Join(dir, "data"))
	var pool *x509.CertPool
	c.HTTP.TLS.CertFile, c.HTTP.TLS.KeyFile, pool = selfSigned(t, dir)
	c.Broker.TLS.CertFile, c.Broker.TLS.KeyFile, c.Broker.TLSListen, c.Broker.DisablePlaintext = c.HTTP.TLS.CertFile, c.HTTP.TLS.KeyFile, "127.0.0.1:0", true
	r := start(t, c)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	defer client.CloseIdleConnections()
	response, err := client.Get("https://" + r.Address("http") + "/health/ready")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != 200 {
		t.Errorf("ready over TLS: %s", response.Status)
	}
	secure, err := tls.Dial("tcp", r.Address("tls"), &tls.Config{RootCAs: pool})
	if err != nil {
		t.Fatalf("MQTT over TLS: %v", err)
	}
	_ = secure.Close()
	if address := r.Address("tcp"); address != "" {
		t.Errorf("plain MQTT listens on %s although it is disabled", address)
	}
	if r.Address("wss") == "" || r.Address("ws") != "" {
		t.Errorf("WebSocket listens on %q and %q, want WSS only", r.Address("ws"), r.Address("wss"))
	}
}
