package listener

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"
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
	options CertificateOptions
	current atomic.Pointer[loaded]
	cancel  context.CancelFunc
	done    sync.WaitGroup
}

// loaded is one state of the files. Its configuration has session ticket keys of its own, so that a
// session begun under an earlier client CA is not resumed under a later one.
type loaded struct {
	config   *tls.Config
	notAfter time.Time
	digest   [sha256.Size]byte // of the files' contents
}

// unseenAfter is how often the files are read when no change is announced (network file systems do not).
const unseenAfter = 30 * time.Second

// OpenCertificates reads the files and follows them until Close.
func OpenCertificates(o CertificateOptions) (*Certificates, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	c := &Certificates{options: o}
	first, err := c.load()
	if err != nil {
		return nil, err
	}
	c.current.Store(first)
	if time.Now().After(first.notAfter) {
		o.Log.Warn("embedded broker: the certificate has ended, devices will refuse it", "file", o.CertFile, "not_after", first.notAfter)
	}
	watcher, err := c.watch()
	if err != nil {
		o.Log.Warn("embedded broker: certificate changes are not announced, looking every "+unseenAfter.String(), "error", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	c.done.Go(func() { c.follow(ctx, watcher) })
	return c, nil
}

// watch announces changes in the files' directories: a Kubernetes Secret changes by a symlink swap there.
func (c *Certificates) watch() (*fsnotify.Watcher, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	for _, file := range []string{c.options.CertFile, c.options.KeyFile, c.options.ClientCAFile} {
		if file == "" {
			continue
		}
		if err := w.Add(filepath.Dir(file)); err != nil {
			_ = w.Close()
			return nil, fmt.Errorf("watch directory of %s: %w", file, err)
		}
	}
	return w, nil
}

// Close stops following the files.
func (c *Certificates) Close() {
	c.cancel()
	c.done.Wait()
}

// NotAfter is when the certificate in use ends.
func (c *Certificates) NotAfter() time.Time { return c.current.Load().notAfter }

// Server is a configuration for servers that make their own handshakes, such as net/http: each uses the
// files of its moment.
func (c *Certificates) Server() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.current.Load().config, nil },
	}
}

// handshake makes nc a TLS connection, within nc's deadline.
func (c *Certificates) handshake(nc net.Conn) (*tls.Conn, error) {
	secure := tls.Server(nc, c.current.Load().config)
	return secure, secure.Handshake()
}

func (c *Certificates) load() (*loaded, error) {
	var contents [3][]byte
	sum := sha256.New()
	for i, file := range []string{c.options.CertFile, c.options.KeyFile, c.options.ClientCAFile} {
		if file == "" {
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read certificate: %w", err)
		}
		contents[i] = data
		digest := sha256.Sum256(data)
		sum.Write(digest[:])
	}
	pair, err := tls.X509KeyPair(contents[0], contents[1])
	if err != nil {
		return nil, fmt.Errorf("certificate %s with key %s: %w", c.options.CertFile, c.options.KeyFile, err)
	}
	l := &loaded{notAfter: pair.Leaf.NotAfter, config: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}}
	if c.options.ClientCAFile != "" {
		l.config.ClientCAs = x509.NewCertPool()
		if !l.config.ClientCAs.AppendCertsFromPEM(contents[2]) {
			return nil, fmt.Errorf("client CA %s: holds no PEM certificate", c.options.ClientCAFile)
		}
		l.config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	sum.Sum(l.digest[:0])
	return l, nil
}

// follow takes changes into use. Writers change the files one after the other, so a state that does not
// fit together is given a moment before it is reported.
func (c *Certificates) follow(ctx context.Context, w *fsnotify.Watcher) {
	var events <-chan fsnotify.Event
	var lost <-chan error
	if w != nil {
		defer func() { _ = w.Close() }()
		events, lost = w.Events, w.Errors
	}
	const settle = 100 * time.Millisecond
	timer := time.NewTimer(unseenAfter)
	defer timer.Stop()
	tries := 0
	var reported string
	for {
		select {
		case <-ctx.Done():
			return
		case <-events:
			tries = 0
			timer.Reset(settle)
		case <-lost: // events were: look
			timer.Reset(settle)
		case <-timer.C:
			timer.Reset(unseenAfter)
			changed, err := c.reload()
			if err == nil {
				tries, reported = 0, ""
				if changed {
					c.options.Log.Info("embedded broker: certificate reloaded", "file", c.options.CertFile, "not_after", c.NotAfter())
					c.observe(nil)
				}
				continue
			}
			if tries++; tries < 10 {
				timer.Reset(settle)
			} else if err.Error() != reported {
				reported = err.Error()
				c.options.Log.Error("embedded broker: certificate not reloaded, the earlier one stays in use", "error", err)
				c.observe(err)
			}
		}
	}
}

// reload takes the files into use if they differ from those in use.
func (c *Certificates) reload() (changed bool, err error) {
	next, err := c.load()
	if err != nil {
		return false, err
	}
	if next.digest == c.current.Load().digest {
		return false, nil
	}
	if time.Now().After(next.notAfter) {
		return false, errors.New("certificate " + c.options.CertFile + ": ended " + next.notAfter.Format(time.RFC3339))
	}
	c.current.Store(next)
	return true, nil
}

func (c *Certificates) observe(err error) {
	if c.options.Reloaded != nil {
		c.options.Reloaded(err)
	}
}
