package harness

import (
	"crypto/x509"
	"testing"
)

// Roots returns the pool that trusts the broker's certificate.
func (b *Broker) Roots(t testing.TB) *x509.CertPool {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(b.CA.PEM) {
		t.Fatal("the broker's authority has no certificate: start it with TLS")
	}
	return roots
}
