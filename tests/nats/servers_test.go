package nats_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/state/jetstream"
	"maestrohub.io/uns/tests/contract"
	"maestrohub.io/uns/tools/launch"
	"maestrohub.io/uns/tools/localcluster/proxy"
)

// serviceName is how clients call NATS; its certificate names nothing shorter and not localhost.
const serviceName = "maestrohub-nats.maestrohub-deps.svc"

// cluster is the three servers, running.
type cluster struct {
	*installation
	pods    []*pod
	servers []*launch.Process
}

// boot starts the three servers of the rendered StatefulSet.
func boot(t *testing.T, net int, overlays ...map[string]any) *cluster {
	t.Helper()
	overlay := map[string]any{}
	for _, o := range overlays {
		overlay = contract.Merged(overlay, o)
	}
	c := &cluster{installation: install(t, overlay, nil)}
	c.pods = c.installation.pods(t, net)
	// Alone, a server is alive and ready, and not started: a rolling update waits.
	c.servers = append(c.servers, c.pods[0].start(t, "nats"))
	server := c.pods[0].container(t, "nats")
	startup, readiness, liveness := server.StartupProbe.HTTPGet.Path, server.ReadinessProbe.HTTPGet.Path, server.LivenessProbe.HTTPGet.Path
	await(t, time.Minute, "the first server's port", func() bool { return c.pods[0].ask(t.Context(), liveness) == 200 })
	if code := c.pods[0].ask(t.Context(), readiness); code != 200 {
		t.Errorf("readiness (%s) of a server that is alone: %d, want 200: it serves its clients over others", readiness, code)
	}
	if code := c.pods[0].ask(t.Context(), startup); code != 503 {
		t.Errorf("startup (%s) of a server without a quorum: %d, want 503", startup, code)
	}
	for _, p := range c.pods[1:] {
		c.servers = append(c.servers, p.start(t, "nats"))
	}
	for _, p := range c.pods {
		await(t, time.Minute, p.name+" to have started", func() bool { return p.ask(t.Context(), startup) == 200 })
	}
	return c
}

// tls is a client's view: the Secret's authority and certificate, the Service's name.
func (c *cluster) tls(t *testing.T, certificate bool) *tls.Config {
	t.Helper()
	s := c.secret(t, "maestrohub", "maestrohub-nats-client-tls")
	conf := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool(), ServerName: serviceName}
	if !conf.RootCAs.AppendCertsFromPEM(s["ca.crt"]) {
		t.Fatal("ca.crt holds no certificate")
	}
	if certificate {
		pair, err := tls.X509KeyPair(s["tls.crt"], s["tls.key"])
		must(t, err)
		conf.Certificates = []tls.Certificate{pair}
	}
	return conf
}

func (c *cluster) password(t *testing.T, user string) string {
	t.Helper()
	switch user {
	case "sys":
		return string(c.secret(t, "maestrohub-deps", "maestrohub-nats-auth-sys")["sys"])
	case "uns-broker":
		return string(c.secret(t, "maestrohub", "maestrohub-nats-auth-uns")["broker"])
	}
	return string(c.secret(t, "maestrohub", "maestrohub-nats-auth-uns")[user])
}

// sign signs in to one server.
func (c *cluster) sign(t *testing.T, p *pod, conf *tls.Config, user, password string) (*nats.Conn, error) {
	t.Helper()
	nc, err := nats.Connect("tls://"+p.address+":4222", nats.Secure(conf), nats.UserInfo(user, password), nats.Timeout(10*time.Second), nats.NoReconnect())
	if err == nil {
		t.Cleanup(nc.Close)
	}
	return nc, err
}

func TestTheRenderedServersKeepAccountsApart(t *testing.T) {
	c := boot(t, 2)
	broker := c.password(t, "uns-broker")
	store, err := jetstream.Open(jetstream.Options{
		Servers: []string{"tls://" + c.pods[0].address + ":4222", "tls://" + c.pods[1].address + ":4222"}, Replica: "uns-0", TLS: c.tls(t, true),
		Credentials: func() (string, string) { return "uns-broker", broker },
	})
	must(t, err)
	defer store.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	bucket, err := store.Bucket(ctx, state.SessionState)
	must(t, err)
	if _, err := bucket.Create(ctx, "device", []byte("x")); err != nil {
		t.Fatalf("the broker's client, its user and its certificate: %v", err)
	}
	if got := store.MaxPayload(); got != 8<<20 {
		t.Errorf("max_payload is %d, want 8 MiB", got)
	}

	// The user of the other services sees nothing of it.
	nc, err := c.sign(t, c.pods[0], c.tls(t, true), "uns", c.password(t, "uns"))
	must(t, err)
	js, err := natsjs.New(nc)
	must(t, err)
	if _, err := js.Stream(ctx, state.BucketStream+state.SessionState); !errors.Is(err, natsjs.ErrStreamNotFound) {
		t.Errorf("the user uns asks for the broker's stream: %v, want not found", err)
	}
	heard, err := nc.SubscribeSync(">")
	must(t, err)
	must(t, nc.Flush())
	if _, err := bucket.Put(ctx, "device", []byte("y")); err != nil {
		t.Fatal(err)
	}
	must(t, nc.Flush())
	if m, err := heard.NextMsg(200 * time.Millisecond); err == nil {
		t.Errorf("the user uns hears %s of the broker's account", m.Subject)
	}

	// Who has no certificate, no password, another's password or an unknown name stays out.
	for who, try := range map[string]func() (*nats.Conn, error){
		"without a certificate": func() (*nats.Conn, error) { return c.sign(t, c.pods[0], c.tls(t, false), "uns-broker", broker) },
		"without a password":    func() (*nats.Conn, error) { return c.sign(t, c.pods[0], c.tls(t, true), "uns-broker", "") },
		"with another user's password": func() (*nats.Conn, error) {
			return c.sign(t, c.pods[0], c.tls(t, true), "uns-broker", c.password(t, "uns"))
		},
		"with an unknown name": func() (*nats.Conn, error) { return c.sign(t, c.pods[0], c.tls(t, true), "broker", broker) },
		"who takes it for localhost": func() (*nats.Conn, error) {
			conf := c.tls(t, true)
			conf.ServerName = "localhost"
			return c.sign(t, c.pods[0], conf, "uns-broker", broker)
		},
	} {
		if _, err := try(); err == nil {
			t.Errorf("somebody %s is let in", who)
		}
	}

	// The nats command line as the runbook has it: the name of the Service mapped to
	// 127.0.0.1, where a port-forward listens.
	forward, err := proxy.Open(c.pods[2].address + ":4222")
	must(t, err)
	defer forward.Close()
	_, port, _ := strings.Cut(forward.Address, ":")
	desk := newPod(t, "workstation", "127.0.0.1", c.pods[0].spec, map[string]string{serviceName: "127.0.0.1"}, c.pods[0].binaries)
	for file, content := range c.secret(t, "maestrohub", "maestrohub-nats-client-tls") {
		must(t, os.WriteFile(filepath.Join(desk.dir, "run", file), content, 0o600))
	}
	at := func(host, user string) []string {
		return []string{"nats", "--no-context", "--timeout", "30s", "--server", "nats://" + host + ":" + port, "--user", user, "--password", c.password(t, user),
			"--tlsca", "/run/nats/ca.crt", "--tlscert", "/run/nats/tls.crt", "--tlskey", "/run/nats/tls.key"}
	}
	out, err := desk.exec(t.Context(), append(at(serviceName, "uns-broker"), "stream", "ls", "--names")...)
	if err != nil || !strings.Contains(out, "KV_mqtt-session-state") {
		t.Errorf("nats stream ls through the forward, by the Service's name: %v: %s", err, out)
	}
	if out, err := desk.exec(t.Context(), append(at("localhost", "uns-broker"), "stream", "ls")...); err == nil || !strings.Contains(out, "certificate is valid for") {
		t.Errorf("nats stream ls through the forward, by localhost: %v: %s; want a certificate that does not name it", err, out)
	}
	out, err = desk.exec(t.Context(), append(at(serviceName, "sys"), "server", "list", "3")...)
	if err != nil || !strings.Contains(out, "maestrohub-nats-2") || !strings.Contains(out, "maestrohub") {
		t.Errorf("nats server list as the system account's user: %v: %s", err, out)
	}
}
