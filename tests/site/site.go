package site

import (
	"context"
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

	"maestrohub.io/uns/broker/config"
	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/state/jetstream"
	"maestrohub.io/uns/tests/harness"
	"maestrohub.io/uns/tests/mqtttest"
	"maestrohub.io/uns/tools/localcluster/natsserver"
)

// Site is a NATS cluster of three servers and what replicas need to share it.
type Site struct {
	*natsserver.Cluster
	cert, key string
}

// Start starts the servers; they are killed when the test ends.
func Start(t *testing.T) *Site {
	t.Helper()
	return StartWith(t, natsserver.Options{})
}

// StartWith is Start with other servers than usual.
func StartWith(t *testing.T, o natsserver.Options) *Site {
	t.Helper()
	s, err := Open(t.Context(), t.TempDir(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// Open is StartWith for a site that several tests share, with its files in dir. Close it
// when the last has ended.
func Open(ctx context.Context, dir string, o natsserver.Options) (s *Site, err error) {
	o.Dir, o.MaxPayload = filepath.Join(dir, "nats"), 8<<20
	c, err := natsserver.Start(o)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := c.Ready(ctx); err != nil {
		return nil, err
	}
	s = &Site{Cluster: c, cert: filepath.Join(dir, "tls.crt"), key: filepath.Join(dir, "tls.key")}
	return s, s.writeCertificate()
}

// writeCertificate makes the mesh's.
func (s *Site) writeCertificate() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "mesh"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	for file, block := range map[string]*pem.Block{s.cert: {Type: "CERTIFICATE", Bytes: der}, s.key: {Type: "EC PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// Bucket opens a bucket of what the replicas share, to look into it.
func (s *Site) Bucket(t *testing.T, name string) state.Bucket {
	t.Helper()
	var servers []string
	for _, server := range s.Servers {
		servers = append(servers, "nats://"+server.Address)
	}
	store, err := jetstream.Open(jetstream.Options{Servers: servers, Replica: "test", Replicas: 3, MemberTTL: memberTTL, Logger: slog.New(slog.DiscardHandler),
		Credentials: func() (string, string) { return "BROKER", "BROKER" }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	b, err := store.Bucket(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// memberTTL is the replicas' unless a test changes it.
const memberTTL = 5 * time.Second

// Replica starts one replica inside the test's process and waits until it serves.
// Each has a historian of its own. change, if not nil, changes its configuration.
func (s *Site) Replica(t *testing.T, id string, change func(*config.Config)) *mqtttest.Broker {
	t.Helper()
	b := s.Begin(t, id, change)
	harness.Eventually(t, "replica "+id+" to serve", func() (bool, string) {
		return strings.Contains(b.Logged(), "broker cluster: joined"), b.Logged()
	})
	return b
}

// Begin is Replica for one that may not come to serve.
func (s *Site) Begin(t *testing.T, id string, change func(*config.Config)) *mqtttest.Broker {
	t.Helper()
	return mqtttest.Start(t, func(c *config.Config) {
		s.Configure(c, id)
		if change != nil {
			change(c)
		}
	})
}

// Configure makes a configuration that of a replica of this site.
func (s *Site) Configure(c *config.Config, id string) {
	c.ReplicaID = id
	c.MemberTTL = memberTTL
	for _, u := range s.URLs("BROKER") {
		at := strings.LastIndex(u, "@")
		c.NATS.Servers = append(c.NATS.Servers, "nats://"+u[at+1:])
	}
	c.NATS.User, c.NATS.Password = "BROKER", config.NewSecret("BROKER")
	c.NATS.Copies = 3
	c.Mesh = config.Mesh{Listen: "127.0.0.1:0", CertFile: s.cert, KeyFile: s.key}
}
