package listener

import (
	"crypto/tls"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// dialTLS connects as a device that trusts ca and shows certs.
func dialTLS(t *testing.T, b *broker, transport string, ca *authority, config *tls.Config) *tls.Conn {
	t.Helper()
	if config == nil {
		config = new(tls.Config)
	}
	config.RootCAs, config.ServerName = ca.pool(), "localhost"
	nc := tls.Client(dial(t, b.addr(transport)), config)
	if err := nc.Handshake(); err != nil {
		t.Fatal(err)
	}
	return nc
}

func shown(nc *tls.Conn) string { return nc.ConnectionState().PeerCertificates[0].Subject.CommonName }

func TestTLSCarriesMQTT(t *testing.T) {
	ca := newAuthority(t, "ca")
	b := start(t, Options{TLS: anyPort, Certificates: certificates(t, ca, t.TempDir(), "broker", CertificateOptions{})})
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		nc := dialTLS(t, b, TLS, ca, &tls.Config{MinVersion: version, MaxVersion: version})
		echo(t, nc, strings.Repeat("hello", 10000))
		if c := b.next(t); c.Transport != TLS || c.TCP() != nil {
			t.Errorf("handed over %+v", c)
		}
	}
	old := tls.Client(dial(t, b.addr(TLS)), &tls.Config{RootCAs: ca.pool(), ServerName: "localhost", MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11})
	if err := old.Handshake(); err == nil {
		t.Error("TLS 1.1 is accepted")
	}
	eventually(t, "the refusal is counted", func() bool { return b.refused(HandshakeFailed) == 1 })
}

func TestARenewedCertificateReachesTheNextHandshake(t *testing.T) {
	ca, dir := newAuthority(t, "ca"), t.TempDir()
	b := start(t, Options{TLS: anyPort, Certificates: certificates(t, ca, dir, "first", CertificateOptions{})})
	before := dialTLS(t, b, TLS, ca, nil)
	if shown(before) != "first" {
		t.Fatalf("shows %s", shown(before))
	}
	cert, key := ca.issue(t, "second", 2*time.Hour)
	write(t, filepath.Join(dir, "tls.crt"), cert)
	write(t, filepath.Join(dir, "tls.key"), key)
	eventually(t, "a handshake shows the new certificate", func() bool { return shown(dialTLS(t, b, TLS, ca, nil)) == "second" })
	echo(t, before, "connections made before go on")
	if left := time.Until(b.options.Certificates.NotAfter()); left < time.Hour {
		t.Errorf("NotAfter is in %v", left)
	}
}

// A mounted Secret: tls.crt -> ..data/tls.crt, ..data -> a directory, which is swapped for another by a rename.
func TestASecretsSymlinkSwapReachesTheNextHandshake(t *testing.T) {
	ca, dir := newAuthority(t, "ca"), t.TempDir()
	put := func(version, name string) {
		t.Helper()
		if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
			t.Fatal(err)
		}
		cert, key := ca.issue(t, name, time.Hour)
		write(t, filepath.Join(dir, version, "tls.crt"), cert)
		write(t, filepath.Join(dir, version, "tls.key"), key)
		if err := os.Symlink(version, filepath.Join(dir, "..data_tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	put("..v1", "first")
	for _, file := range []string{"tls.crt", "tls.key"} {
		if err := os.Symlink(filepath.Join("..data", file), filepath.Join(dir, file)); err != nil {
			t.Fatal(err)
		}
	}
	c, err := OpenCertificates(CertificateOptions{CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	b := start(t, Options{TLS: anyPort, Certificates: c})
	if got := shown(dialTLS(t, b, TLS, ca, nil)); got != "first" {
		t.Fatalf("shows %s", got)
	}
	for _, name := range []string{"second", "third"} {
		put("..v-"+name, name)
		eventually(t, "a handshake shows the "+name, func() bool { return shown(dialTLS(t, b, TLS, ca, nil)) == name })
	}
}

func TestABadRenewalLeavesTheEarlierCertificateInUse(t *testing.T) {
	ca, dir := newAuthority(t, "ca"), t.TempDir()
	outcomes := make(chan error, 10)
	b := start(t, Options{TLS: anyPort, Certificates: certificates(t, ca, dir, "first", CertificateOptions{Reloaded: func(err error) { outcomes <- err }})})
	expired, expiredKey := ca.issue(t, "expired", -time.Hour)
	for _, bad := range []struct{ cert, key []byte }{{[]byte("not PEM"), []byte("at all")}, {expired, expiredKey}} {
		write(t, filepath.Join(dir, "tls.crt"), bad.cert)
		write(t, filepath.Join(dir, "tls.key"), bad.key)
		select {
		case err := <-outcomes:
			if err == nil || !strings.Contains(err.Error(), "tls.crt") {
				t.Fatalf("outcome %v", err)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("the bad renewal was not reported")
		}
		if got := shown(dialTLS(t, b, TLS, ca, nil)); got != "first" {
			t.Errorf("shows %s", got)
		}
	}
	cert, key := ca.issue(t, "second", time.Hour)
	write(t, filepath.Join(dir, "tls.crt"), cert)
	write(t, filepath.Join(dir, "tls.key"), key)
	eventually(t, "the good one is in use", func() bool { return shown(dialTLS(t, b, TLS, ca, nil)) == "second" })
}

func TestMutualTLSAdmitsOnlyDevicesOfTheClientCA(t *testing.T) {
	ca, devices, strangers, dir := newAuthority(t, "ca"), newAuthority(t, "devices"), newAuthority(t, "strangers"), t.TempDir()
	clientCA := filepath.Join(dir, "ca.crt")
	write(t, clientCA, devices.pem())
	b := start(t, Options{TLS: anyPort, Certificates: certificates(t, ca, dir, "broker", CertificateOptions{ClientCAFile: clientCA})})

	cache := tls.NewLRUClientSessionCache(8)
	device := &tls.Config{Certificates: []tls.Certificate{devices.pair(t, "pump-7")}, ClientSessionCache: cache}
	nc := dialTLS(t, b, TLS, ca, device)
	echo(t, nc, "hello")
	if c := b.next(t); c.PeerCertificate == nil || c.PeerCertificate.Subject.CommonName != "pump-7" {
		t.Errorf("peer certificate %v", c.PeerCertificate)
	}
	for name, certs := range map[string][]tls.Certificate{"none": nil, "stranger": {strangers.pair(t, "pump-7")}} {
		if err := admitted(t, b, ca, certs, nil); err == nil {
			t.Errorf("%s is admitted", name)
		}
	}

	// The client CA is renewed as well, and a session begun under the old one is not resumed.
	write(t, clientCA, strangers.pem())
	eventually(t, "the new CA's devices are admitted", func() bool { return admitted(t, b, ca, []tls.Certificate{strangers.pair(t, "x")}, nil) == nil })
	if err := admitted(t, b, ca, device.Certificates, cache); err == nil {
		t.Error("the old CA's device is still admitted")
	}
}

// admitted tries a round trip as a device with these certificates: TLS 1.3 tells a client only then.
func admitted(t *testing.T, b *broker, ca *authority, certs []tls.Certificate, cache tls.ClientSessionCache) error {
	t.Helper()
	nc := tls.Client(dial(t, b.addr(TLS)), &tls.Config{RootCAs: ca.pool(), ServerName: "localhost", Certificates: certs, ClientSessionCache: cache})
	defer nc.Close()
	if _, err := io.WriteString(nc, "hello"); err != nil {
		return err
	}
	_, err := io.ReadFull(nc, make([]byte, 5))
	return err
}

func TestOpenCertificatesSaysWhatIsWrong(t *testing.T) {
	ca, dir := newAuthority(t, "ca"), t.TempDir()
	cert, key := ca.issue(t, "one", time.Hour)
	_, other := ca.issue(t, "two", time.Hour)
	path := func(name string, data []byte) string {
		p := filepath.Join(dir, name)
		write(t, p, data)
		return p
	}
	good := CertificateOptions{CertFile: path("c", cert), KeyFile: path("k", key)}
	for name, change := range map[string]func(*CertificateOptions){
		"missing":       func(o *CertificateOptions) { o.CertFile = filepath.Join(dir, "missing") },
		"k-other":       func(o *CertificateOptions) { o.KeyFile = path("k-other", other) },
		"ca-empty":      func(o *CertificateOptions) { o.ClientCAFile = path("ca-empty", nil) },
		"no such file":  func(o *CertificateOptions) { o.ClientCAFile = filepath.Join(dir, "gone") },
		"k-not-a-key":   func(o *CertificateOptions) { o.KeyFile = path("k-not-a-key", cert) },
		"c-not-a-chain": func(o *CertificateOptions) { o.CertFile = path("c-not-a-chain", []byte("x")) },
	} {
		o := good
		change(&o)
		if _, err := OpenCertificates(o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := OpenCertificates(CertificateOptions{CertFile: filepath.Join(dir, "missing"), KeyFile: good.KeyFile})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}
