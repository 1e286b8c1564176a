package secrets

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"
)

var usages = map[string]x509.ExtKeyUsage{"server": x509.ExtKeyUsageServerAuth, "client": x509.ExtKeyUsageClientAuth}

// skew is how far clocks may be apart: a certificate is valid that long before it was made.
const skew = time.Hour

const day = 24 * time.Hour

// pair is a certificate with its key, and the chain above it.
type pair struct {
	tls.Certificate
	chainPEM, keyPEM []byte
}

func (p *pair) leaf() *x509.Certificate { return p.Leaf }

// parsePair reads a certificate chain with its key.
func parsePair(chainPEM, keyPEM []byte) (*pair, error) {
	c, err := tls.X509KeyPair(chainPEM, keyPEM)
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "tls: "))
	}
	return &pair{c, chainPEM, keyPEM}, nil
}

// parseBundle reads PEM certificates, at least one.
func parseBundle(bundle []byte) ([]*x509.Certificate, error) {
	var all []*x509.Certificate
	for rest := bundle; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("holds a %s, only certificates belong there", block.Type)
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

func encodeBundle(certificates []*x509.Certificate) []byte {
	var out []byte
	for _, c := range certificates {
		out = append(out, encodePEM("CERTIFICATE", c.Raw)...)
	}
	return out
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// sign makes a key and has the template signed for it, by parent or, without one, by itself.
func sign(template *x509.Certificate, parent *pair) (*pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return nil, err
	}
	signer, signed := any(key), template
	var above []byte
	if parent != nil {
		signer, signed = parent.PrivateKey, parent.leaf()
		if !parent.selfSigned() { // an intermediate: those who trust its root need it
			above = parent.chainPEM
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, signed, key.Public(), signer)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return parsePair(append(encodePEM("CERTIFICATE", der), above...), encodePEM("PRIVATE KEY", keyDER))
}

func (p *pair) selfSigned() bool { return p.leaf().CheckSignatureFrom(p.leaf()) == nil }

func newAuthority(a *Authority, now time.Time) (*pair, error) {
	p, err := sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: a.Name, Organization: []string{"MaestroHub"}}, NotBefore: now.Add(-skew), NotAfter: now.Add(time.Duration(a.Days) * day),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign, BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("make %s: %w", a.Thing, err)
	}
	return p, nil
}

func newCertificate(c *Certificate, authority *pair, now time.Time) (*pair, error) {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: c.Name, Organization: []string{"MaestroHub"}}, DNSNames: c.DNS,
		NotBefore: now.Add(-skew), NotAfter: now.Add(time.Duration(c.Days) * day), KeyUsage: x509.KeyUsageDigitalSignature, BasicConstraintsValid: true,
	}
	for _, u := range c.Usages {
		template.ExtKeyUsage = append(template.ExtKeyUsage, usages[u])
	}
	// Nobody trusts it longer than its authority.
	if end := authority.leaf().NotAfter; template.NotAfter.After(end) {
		template.NotAfter = end
	}
	p, err := sign(template, authority)
	if err != nil {
		return nil, fmt.Errorf("make %s: %w", c.Thing, err)
	}
	return p, nil
}

// signs says whether the authority's key signed the certificate.
func signs(authority, certificate *x509.Certificate) bool {
	return certificate.CheckSignatureFrom(authority) == nil
}

// verify says what is wrong with a certificate for its use, apart from its time: an untrusted signer, a missing usage or name.
func (c *Certificate) verify(p *pair, trusted []*x509.Certificate) []string {
	var wrong []string
	leaf := p.leaf()
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	for _, t := range trusted {
		roots.AddCert(t)
	}
	for _, der := range p.Certificate.Certificate[1:] {
		if i, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(i)
		}
	}
	if !slices.ContainsFunc(trusted, leaf.Equal) {
		// At an instant when the leaf is valid: its time is told apart.
		_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: leaf.NotAfter.Add(-time.Second), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("key %s is not signed by a certificate in key %s (%v)", keyCertificate, keyAuthority, err))
		}
	}
	for _, u := range c.Usages {
		if !slices.Contains(leaf.ExtKeyUsage, usages[u]) && !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageAny) {
			wrong = append(wrong, fmt.Sprintf("key %s is not for use as a %s (extended key usage)", keyCertificate, u))
		}
	}
	var missing []string
	for _, name := range c.DNS {
		// VerifyHostname takes no wildcard: such a name must be there as it is.
		if !slices.Contains(leaf.DNSNames, name) && (strings.HasPrefix(name, "*.") || leaf.VerifyHostname(name) != nil) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		has := strings.Join(leaf.DNSNames, ", ")
		if has == "" {
			has = "none"
		}
		wrong = append(wrong, fmt.Sprintf("key %s is not valid for the names %s (it names %s)", keyCertificate, strings.Join(missing, ", "), has))
	}
	return wrong
}

// lastThird says whether a certificate is in the last third of its life.
func lastThird(c *x509.Certificate, now time.Time) bool {
	return now.After(c.NotAfter.Add(-c.NotAfter.Sub(c.NotBefore) / 3))
}
