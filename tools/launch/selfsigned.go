package launch

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"os"
	"time"
)

// SelfSignedTo writes a certificate that signs itself, valid for a day, and its
// key: what is trusted for being exactly this one, as between replicas.
func SelfSignedTo(certFile, keyFile, name string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make certificate %s: %w", name, err)
	}
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return fmt.Errorf("make certificate %s: %w", name, err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("make certificate %s: %w", name, err)
	}
	for file, content := range map[string][]byte{certFile: encode("CERTIFICATE", der), keyFile: encode("PRIVATE KEY", keyDER)} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			return fmt.Errorf("write certificate %s: %w", name, err)
		}
	}
	return nil
}
