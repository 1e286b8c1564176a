package certificate

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"time"
)

// Set is one state of the files. It is never changed.
type Set struct {
	// Certificate is the chain with its key; nil without CertFile.
	Certificate *tls.Certificate
	// Authorities are the certificates of CAFile, in its order; nil without it.
	Authorities []*x509.Certificate

	digest [sha256.Size]byte // of the files' contents
}

// Pool is the authorities as roots.
func (s *Set) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	for _, a := range s.Authorities {
		pool.AddCert(a)
	}
	return pool
}

// NotAfter is when the certificate ends; without one, when the first of the authorities does.
func (s *Set) NotAfter() time.Time {
	if s.Certificate != nil {
		return s.Certificate.Leaf.NotAfter
	}
	var first time.Time
	for _, a := range s.Authorities {
		if first.IsZero() || a.NotAfter.Before(first) {
			first = a.NotAfter
		}
	}
	return first
}

// read reads the files, all of which must be there and fit together.
func (o *Options) read() (*Set, error) {
	sum := sha256.New()
	content := func(file string) ([]byte, error) {
		if file == "" {
			return nil, nil
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read certificate: %w", err)
		}
		digest := sha256.Sum256(data)
		sum.Write(digest[:])
		return data, nil
	}
	chain, err := content(o.CertFile)
	if err != nil {
		return nil, err
	}
	key, err := content(o.KeyFile)
	if err != nil {
		return nil, err
	}
	authorities, err := content(o.CAFile)
	if err != nil {
		return nil, err
	}
	s := new(Set)
	if o.CertFile != "" {
		pair, err := tls.X509KeyPair(chain, key)
		if err != nil {
			return nil, fmt.Errorf("certificate %s with key %s: %w", o.CertFile, o.KeyFile, err)
		}
		s.Certificate = &pair
	}
	if o.CAFile != "" {
		if s.Authorities, err = parse(authorities); err != nil {
			return nil, fmt.Errorf("authorities %s: %w", o.CAFile, err)
		}
	}
	sum.Sum(s.digest[:0])
	return s, nil
}

// parse reads PEM certificates, at least one. What else is in the file is passed over.
func parse(data []byte) ([]*x509.Certificate, error) {
	var all []*x509.Certificate
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	if len(all) == 0 {
		return nil, errors.New("holds no PEM certificate")
	}
	return all, nil
}
