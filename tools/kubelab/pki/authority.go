package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/netip"
	"os"
	"path/filepath"
	"time"
)

// validity of every certificate: longer than any lab is up.
const validity = 10 * 365 * 24 * time.Hour

// authority signs certificates and writes them into a folder.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// subject is whom a certificate names. Kubernetes takes the common name for the
// user and the organizations for its groups.
type subject struct {
	name   string
	groups []string
	hosts  []string // DNS names and addresses it serves as; none: a client
}

// pair is a certificate and its key in PEM.
type pair struct{ cert, key []byte }

// newAuthority makes an authority, writing <file>.crt and <file>.key.
func newAuthority(dir, file, name string) (*authority, error) {
	a := &authority{dir: dir}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, fmt.Errorf("make authority %s: %w", name, err)
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := sign(template, template, a.key, a.key)
	if err != nil {
		return nil, fmt.Errorf("make authority %s: %w", name, err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("make authority %s: %w", name, err)
	}
	made, err := encode(der, a.key)
	if err != nil {
		return nil, fmt.Errorf("make authority %s: %w", name, err)
	}
	a.pem = made.cert
	return a, a.write(file, made)
}

// issue makes a certificate, writing <file>.crt and <file>.key.
func (a *authority) issue(file string, s subject) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, fmt.Errorf("issue %s: %w", file, err)
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: s.name, Organization: s.groups},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if len(s.hosts) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	for _, h := range s.hosts {
		if ip, err := netip.ParseAddr(h); err == nil {
			template.IPAddresses = append(template.IPAddresses, ip.AsSlice())
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	der, err := sign(template, a.cert, key, a.key)
	if err != nil {
		return pair{}, fmt.Errorf("issue %s: %w", file, err)
	}
	made, err := encode(der, key)
	if err != nil {
		return pair{}, fmt.Errorf("issue %s: %w", file, err)
	}
	return made, a.write(file, made)
}

func sign(template, parent *x509.Certificate, key, signer *ecdsa.PrivateKey) ([]byte, error) {
	var err error
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return nil, err
	}
	now := time.Now()
	template.NotBefore, template.NotAfter = now.Add(-time.Hour), now.Add(validity)
	return x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
}

func encode(der []byte, key *ecdsa.PrivateKey) (pair, error) {
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return pair{}, err
	}
	return pair{
		cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}, nil
}

func (a *authority) write(file string, p pair) error {
	return writeAll(a.dir, map[string][]byte{file + ".crt": p.cert, file + ".key": p.key})
}

// writeAll writes files that only their owner may read.
func writeAll(dir string, files map[string][]byte) error {
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}
