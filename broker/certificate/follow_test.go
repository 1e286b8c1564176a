package certificate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// pair makes a certificate that signs itself, and its key.
func pair(t *testing.T, name string, life time.Duration) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(life)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}

// secret is a mounted Secret: its files change all at once, by a rename of the directory they lie in.
type secret struct {
	t   *testing.T
	dir string
	n   int
}

func (s *secret) put(files map[string][]byte) {
	s.t.Helper()
	s.n++
	version := strings.Repeat("v", s.n)
	s.must(os.Mkdir(filepath.Join(s.dir, version), 0o700))
	for name, data := range files {
		s.must(os.WriteFile(filepath.Join(s.dir, version, name), data, 0o600))
		if _, err := os.Lstat(filepath.Join(s.dir, name)); err != nil {
			s.must(os.Symlink(filepath.Join("..data", name), filepath.Join(s.dir, name)))
		}
	}
	s.must(os.Symlink(version, filepath.Join(s.dir, "..data_tmp")))
	s.must(os.Rename(filepath.Join(s.dir, "..data_tmp"), filepath.Join(s.dir, "..data")))
}

func (s *secret) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *secret) options() Options {
	return Options{CertFile: filepath.Join(s.dir, "tls.crt"), KeyFile: filepath.Join(s.dir, "tls.key"), CAFile: filepath.Join(s.dir, "ca.crt"), Name: "certificate"}
}

func TestARenewedSecretIsTakenWhole(t *testing.T) {
	s := &secret{t: t, dir: t.TempDir()}
	cert, key := pair(t, "first", time.Hour)
	s.put(map[string][]byte{"tls.crt": cert, "tls.key": key, "ca.crt": cert})
	taken := make(chan *Set, 10)
	o := s.options()
	o.Taken = func(set *Set) { taken <- set }
	f, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if first := <-taken; first != f.Current() || first.Certificate.Leaf.Subject.CommonName != "first" {
		t.Errorf("first set %+v", first)
	}
	next, nextKey := pair(t, "second", 2*time.Hour)
	s.put(map[string][]byte{"tls.crt": next, "tls.key": nextKey, "ca.crt": append(append([]byte(nil), next...), cert...)})
	select {
	case set := <-taken:
		if got := set.Certificate.Leaf.Subject.CommonName; got != "second" || len(set.Authorities) != 2 || set != f.Current() {
			t.Errorf("taken %s with %d authorities", got, len(set.Authorities))
		}
		if left := time.Until(set.NotAfter()); left < time.Hour {
			t.Errorf("ends in %v", left)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the renewal was not taken")
	}
}

func TestWhatDoesNotFitTogetherIsNotTaken(t *testing.T) {
	cert, key := pair(t, "first", time.Hour)
	good := map[string][]byte{"tls.crt": cert, "tls.key": key, "ca.crt": cert}
	other, otherKey := pair(t, "other", time.Hour)
	ended, endedKey := pair(t, "ended", -time.Hour)
	for name, c := range map[string]struct {
		files  map[string][]byte
		reason string
	}{
		"another key":    {map[string][]byte{"tls.crt": cert, "tls.key": otherKey, "ca.crt": cert}, "private key does not match"},
		"no authorities": {map[string][]byte{"tls.crt": other, "tls.key": otherKey, "ca.crt": []byte("\n")}, "ca.crt: holds no PEM certificate"},
		"ended":          {map[string][]byte{"tls.crt": ended, "tls.key": endedKey, "ca.crt": cert}, "ended"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &secret{t: t, dir: t.TempDir()}
			s.put(good)
			rejected := make(chan error, 10)
			var log strings.Builder
			o := s.options()
			o.Rejected, o.Log = func(err error) { rejected <- err }, slog.New(slog.NewTextHandler(&log, nil))
			f, err := Open(o)
			if err != nil {
				t.Fatal(err)
			}
			s.put(c.files)
			select {
			case err := <-rejected:
				if !strings.Contains(err.Error(), c.reason) {
					t.Errorf("rejected with %v, want %q", err, c.reason)
				}
			case <-time.After(20 * time.Second):
				t.Error("not rejected")
			}
			f.Close()
			if got := f.Current().Certificate.Leaf.Subject.CommonName; got != "first" {
				t.Errorf("in use: %s", got)
			}
			if !strings.Contains(log.String(), "not reloaded, the earlier one stays in use") {
				t.Errorf("log: %s", log.String())
			}
		})
	}
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	cert, key := pair(t, "x", time.Hour)
	put := func(name string, data []byte) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	certFile, keyFile := put("tls.crt", cert), put("tls.key", key)
	for want, o := range map[string]Options{
		"needs its key":              {CertFile: certFile},
		"something must be followed": {},
		"no such file":               {CAFile: filepath.Join(dir, "absent")},
		"holds no PEM certificate":   {CertFile: certFile, KeyFile: keyFile, CAFile: keyFile},
	} {
		if f, err := Open(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, %v, want %q", o, f, err, want)
		}
	}
	f, err := Open(Options{CAFile: certFile})
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if s := f.Current(); s.Certificate != nil || len(s.Authorities) != 1 || !s.NotAfter().Equal(s.Authorities[0].NotAfter) {
		t.Errorf("authorities alone: %+v", s)
	}
}
