package listener

import (
	"crypto/tls"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"maestrohub.io/uns/broker/certificate"
)

// CertificateOptions are the files of a server's certificate.
type CertificateOptions struct {
	CertFile     string      // PEM chain
	KeyFile      string      // PEM key
	ClientCAFile string      // PEM certificates; "" = clients show none, else each must show one they signed
	Reloaded     func(error) // observes: nil when changed files were taken into use, else why not; nil = nobody
	Log          *slog.Logger
}

// Certificates is a server's certificate, and the client CAs, as the files hold them: changed files are
// in use at the next handshake. Files that do not fit together are logged and the earlier ones stay in
// use until they do.
type Certificates struct {
	files *certificate.Follower
	// config has session ticket keys of its own for each state of the files, so that a session begun under an
	// earlier client CA is not resumed under a later one.
	config atomic.Pointer[tls.Config]
}

// OpenCertificates reads the files and follows them until Close.
func OpenCertificates(o CertificateOptions) (*Certificates, error) {
	c := new(Certificates)
	observe := o.Reloaded
	if observe == nil {
		observe = func(error) {}
	}
	var err error
	c.files, err = certificate.Open(certificate.Options{CertFile: o.CertFile, KeyFile: o.KeyFile, CAFile: o.ClientCAFile,
		Prefix: "embedded broker: ", Name: "certificate", Log: o.Log, Rejected: observe,
		Taken: func(s *certificate.Set) {
			config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*s.Certificate}}
			if o.ClientCAFile != "" {
				config.ClientCAs, config.ClientAuth = s.Pool(), tls.RequireAndVerifyClientCert
			}
			if c.config.Swap(config) != nil {
				observe(nil)
			}
		}})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Close stops following the files.
func (c *Certificates) Close() { c.files.Close() }

// NotAfter is when the certificate in use ends.
func (c *Certificates) NotAfter() time.Time { return c.files.Current().NotAfter() }

// Server is a configuration for servers that make their own handshakes, such as net/http: each uses the
// files of its moment.
func (c *Certificates) Server() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.config.Load(), nil },
	}
}

// handshake makes nc a TLS connection, within nc's deadline.
func (c *Certificates) handshake(nc net.Conn) (*tls.Conn, error) {
	secure := tls.Server(nc, c.config.Load())
	return secure, secure.Handshake()
}
