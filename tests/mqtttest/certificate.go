package mqtttest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"maestrohub.io/uns/broker/config"
)

// Secure gives the broker a certificate for 127.0.0.1, in files under dir. The
// listeners are then tcp, tls and wss; there is no ws beside wss.
func Secure(c *config.Config, dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make a key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "mqtttest"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return fmt.Errorf("make a certificate: %w", err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("write a key: %w", err)
	}
	c.Broker.TLS.CertFile, c.Broker.TLS.KeyFile = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	for _, f := range []struct {
		path, kind string
		der        []byte
	}{{c.Broker.TLS.CertFile, "CERTIFICATE", certificate}, {c.Broker.TLS.KeyFile, "PRIVATE KEY", private}} {
		if err := os.WriteFile(f.path, pem.EncodeToMemory(&pem.Block{Type: f.kind, Bytes: f.der}), 0o600); err != nil {
			return fmt.Errorf("write certificate: %w", err)
		}
	}
	return nil
}

// TLS is a client's side of the broker's TLS: it trusts the broker's certificate
// and nothing else.
func (b *Broker) TLS() (*tls.Config, error) {
	data, err := os.ReadFile(b.Config.Broker.TLS.CertFile)
	if err != nil {
		return nil, fmt.Errorf("read the broker's certificate: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("no certificate in %s", b.Config.Broker.TLS.CertFile)
	}
	return &tls.Config{RootCAs: roots, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}, nil
}
