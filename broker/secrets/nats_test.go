package secrets

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"maestrohub.io/uns/tools/launch"
)

// server is a real nats-server that reads what was made.
type server struct {
	*world
	dir, url string
	process  *launch.Process
	reloads  int
}

func startNATS(t *testing.T, w *world) *server {
	t.Helper()
	binary, err := launch.Build("tools/peers", "github.com/nats-io/nats-server/v2", "nats-server")
	if err != nil {
		t.Fatal(err)
	}
	ports, err := launch.Reserve(1)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{world: w, dir: t.TempDir(), url: fmt.Sprintf("tls://127.0.0.1:%d", ports[0])}
	s.mount()
	conf := fmt.Sprintf("listen: %q\ntls { cert_file: tls.crt, key_file: tls.key, ca_file: ca.crt, verify: true }\njetstream { store_dir: js }\ninclude accounts.conf\nsystem_account: SYS\n", strings.TrimPrefix(s.url, "tls://"))
	if err := os.WriteFile(filepath.Join(s.dir, "nats.conf"), []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	if s.process, err = launch.Start(launch.Spec{Name: "nats-server", Path: binary, Args: []string{"-c", "nats.conf"}, Dir: s.dir}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.process.Kill)
	s.wait("Server is ready")
	return s
}

// mount writes the Secrets' keys as the kubelet would.
func (s *server) mount() {
	s.t.Helper()
	for name, keys := range map[string][]string{"server-tls": {keyCertificate, keyPrivate, keyAuthority}, "auth": {"accounts.conf"}} {
		data := s.secret(name).Data
		for _, k := range keys {
			if err := os.WriteFile(filepath.Join(s.dir, k), data[k], 0o600); err != nil {
				s.t.Fatal(err)
			}
		}
	}
}

// reload has the server read its files again, as its reloader does when they change.
func (s *server) reload() {
	s.t.Helper()
	s.mount()
	if err := s.process.Signal(syscall.SIGHUP); err != nil {
		s.t.Fatal(err)
	}
	s.reloads++
	s.wait(fmt.Sprintf(`(?s)(Reloaded server configuration.*){%d}`, s.reloads))
}

func (s *server) wait(pattern string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 20*time.Second)
	defer cancel()
	if _, err := s.process.WaitFor(ctx, regexp.MustCompile(pattern)); err != nil {
		s.t.Fatalf("%v:\n%s", err, s.process.Output())
	}
}

// connect signs in with the client certificate and the password as they are in given Secrets.
func (s *server) connect(user string, password []byte, client *Secret) (*nats.Conn, error) {
	config := &tls.Config{RootCAs: client.roots(s.t), Certificates: []tls.Certificate{client.pair(s.t)}, ServerName: "nats"}
	nc, err := nats.Connect(s.url, nats.Secure(config), nats.UserInfo(user, string(password)), nats.NoReconnect(), nats.Timeout(20*time.Second))
	if err == nil {
		s.t.Cleanup(nc.Close)
	}
	return nc, err
}

// serves says that every user can do its part with what there is now.
func (s *server) serves() {
	s.t.Helper()
	passwords, system, client := s.secret("auth-uns"), s.secret("auth-sys"), s.secret("client-tls")
	for user, password := range map[string][]byte{"uns-broker": passwords.Data["broker"], "uns": passwords.Data["uns"], "sys": system.Data["sys"]} {
		nc, err := s.connect(user, password, client)
		if err != nil {
			s.t.Errorf("sign in as %s: %v", user, err)
			continue
		}
		if user == "sys" {
			if _, err := nc.Request("$SYS.REQ.SERVER.PING", nil, 20*time.Second); err != nil {
				s.t.Errorf("sys: %v", err)
			}
			continue
		}
		js, err := nc.JetStream(nats.MaxWait(20 * time.Second))
		if err == nil {
			_, err = js.AccountInfo()
		}
		if err != nil {
			s.t.Errorf("JetStream as %s: %v", user, err)
		}
	}
}

// What is made is taken by nats-server: accounts, hashes, certificates; and so is each renewal, by a reload.
func TestNATSTakesWhatIsMadeAndWhatIsRenewed(t *testing.T) {
	w := newWorld(t)
	w.ensure()
	s := startNATS(t, w)
	s.serves()
	passwords, client := w.secret("auth-uns"), w.secret("client-tls")
	if _, err := s.connect("uns-broker", passwords.Data["uns"], client); err == nil {
		t.Error("another user's password signs in")
	}
	// The broker's account is its own.
	nc, err := s.connect("uns-broker", passwords.Data["broker"], client)
	if err != nil {
		t.Fatal(err)
	}
	heard, err := nc.SubscribeSync(">")
	if err != nil || nc.Flush() != nil {
		t.Fatal(err)
	}
	other, err := s.connect("uns", passwords.Data["uns"], client)
	if err != nil {
		t.Fatal(err)
	}
	if other.Publish("x", nil) != nil || other.Flush() != nil || nc.Publish("own", nil) != nil || nc.Flush() != nil {
		t.Fatal("publish")
	}
	if m, err := heard.NextMsg(20 * time.Second); err != nil || m.Subject != "own" {
		t.Errorf("heard %v %v, want what its own account says alone", m, err)
	}

	if err := w.plan.RenewNow("NATS passwords", "2027"); err != nil {
		t.Fatal(err)
	}
	if err := w.plan.RenewNow("NATS server certificate", "2027"); err != nil {
		t.Fatal(err)
	}
	w.ensure()
	s.reload()
	s.serves()
	if _, err := s.connect("uns-broker", passwords.Data["broker"], client); err == nil {
		t.Error("the password from before the renewal still signs in")
	}
	earlier := w.secret("client-tls")
	authority := w.plan.authority(w.ref("nats-ca"))
	for _, stage := range []Stage{Introduce, Switch, Settled} {
		authority.Stage = stage
		w.ensure()
		now := w.secret("auth-uns").Data["broker"]
		// Servers and clients follow one after the other, whoever is first.
		if _, err := s.connect("uns-broker", now, w.secret("client-tls")); err != nil {
			t.Errorf("stage %q, the client is first: %v", stage, err)
		}
		s.reload()
		if _, err := s.connect("uns-broker", now, earlier); err != nil {
			t.Errorf("stage %q, the server is first: %v", stage, err)
		}
		s.serves()
		earlier = w.secret("client-tls")
	}
	if _, err := s.connect("uns-broker", w.secret("auth-uns").Data["broker"], client); err == nil {
		t.Error("a certificate of the forgotten authority is let in")
	}
}
