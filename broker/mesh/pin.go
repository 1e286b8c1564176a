package mesh

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
)

// protocolName keeps anything else that speaks TLS apart (ALPN).
const protocolName = "maestrohub-mesh"

// errCertificate is wrapped when the other end shows another certificate than this deployment's.
var errCertificate = errors.New("the other end's certificate is not this deployment's")

// config is the TLS configuration of both ends: TLS 1.3, each shows a certificate and takes this deployment's alone.
// Session tickets are off, so that the certificate is looked at every time.
func (i Identity) config() *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{i.Certificate},
		NextProtos:             []string{protocolName},
		ClientAuth:             tls.RequireAnyClientCert,
		InsecureSkipVerify:     true, // VerifyConnection is stricter: no other authority is trusted
		SessionTicketsDisabled: true,
		// Every write is as large as can be; small records first only cost system calls.
		DynamicRecordSizingDisabled: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			if s.NegotiatedProtocol != protocolName {
				return fmt.Errorf("the other end does not speak %s", protocolName)
			}
			return i.takes(s.PeerCertificates)
		},
	}
}

// takes says why the chain the other end shows is not this deployment's; nil if it is.
func (i Identity) takes(chain []*x509.Certificate) error {
	if len(chain) == 0 {
		return fmt.Errorf("%w: it shows none", errCertificate)
	}
	own, theirs := i.Certificate.Certificate[0], chain[0]
	// As they are, whenever they end: a replica whose certificate nobody renewed still links with its like.
	if bytes.Equal(theirs.Raw, own) || slices.ContainsFunc(i.Authorities, theirs.Equal) {
		return nil
	}
	if len(i.Authorities) == 0 {
		return fmt.Errorf("%w: it shows SHA-256 %.16x, this replica has %.16x", errCertificate, sha256.Sum256(theirs.Raw), sha256.Sum256(own))
	}
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	for _, a := range i.Authorities {
		roots.AddCert(a)
	}
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	if _, err := theirs.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
		return fmt.Errorf("%w: it shows SHA-256 %.16x, this replica has %.16x and authorities who say: %w", errCertificate, sha256.Sum256(theirs.Raw), sha256.Sum256(own), err)
	}
	// An authority that signs for others too must not let them in.
	leaf, err := x509.ParseCertificate(own)
	if err != nil {
		return fmt.Errorf("read own certificate: %w", err)
	}
	if !sameName(leaf, theirs) {
		return fmt.Errorf("%w: it is for the names %q, this replica's is for %q", errCertificate, names(theirs), names(leaf))
	}
	return nil
}

func sameName(a, b *x509.Certificate) bool {
	of := names(b)
	return slices.ContainsFunc(names(a), func(n string) bool { return slices.Contains(of, n) })
}

// names are those a certificate is for; without any, its common name.
func names(c *x509.Certificate) []string {
	if len(c.DNSNames) > 0 {
		return c.DNSNames
	}
	return []string{c.Subject.CommonName}
}
