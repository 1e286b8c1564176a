package mesh

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
)

// protocolName keeps anything else that speaks TLS apart (ALPN).
const protocolName = "maestrohub-mesh"

// errCertificate is wrapped when the other end shows another certificate than this deployment's.
var errCertificate = errors.New("the other end's certificate is not this deployment's")

// pinned returns the TLS configuration of both ends: TLS 1.3, and each end takes the one certificate it
// has itself, byte for byte. Session tickets are off, so that the certificate is looked at every time.
func pinned(certificate tls.Certificate) (*tls.Config, error) {
	if len(certificate.Certificate) == 0 || certificate.PrivateKey == nil {
		return nil, errors.New("mesh: a certificate with its key is needed")
	}
	own := certificate.Certificate[0]
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{certificate},
		NextProtos:             []string{protocolName},
		ClientAuth:             tls.RequireAnyClientCert,
		InsecureSkipVerify:     true, // VerifyConnection is stricter: no authority is trusted
		SessionTicketsDisabled: true,
		// Every write is as large as can be; small records first only cost system calls.
		DynamicRecordSizingDisabled: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			if s.NegotiatedProtocol != protocolName {
				return fmt.Errorf("the other end does not speak %s", protocolName)
			}
			if len(s.PeerCertificates) == 0 {
				return fmt.Errorf("%w: it shows none", errCertificate)
			}
			if theirs := s.PeerCertificates[0].Raw; !bytes.Equal(theirs, own) {
				return fmt.Errorf("%w: it shows SHA-256 %.16x, this replica has %.16x", errCertificate, sha256.Sum256(theirs), sha256.Sum256(own))
			}
			return nil
		},
	}, nil
}
