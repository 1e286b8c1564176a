package replica_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"maestrohub.io/uns/broker/config"
	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/harness"
	"maestrohub.io/uns/tests/mqtttest"
	"maestrohub.io/uns/tools/localcluster/natsserver"
)

// site is a NATS cluster of three servers and what replicas need to share it.
type site struct {
	*natsserver.Cluster
	cert, key string
}

func startSite(t *testing.T) *site {
	t.Helper()
	dir := t.TempDir()
	c, err := natsserver.Start(natsserver.Options{Dir: filepath.Join(dir, "nats"), MaxPayload: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := c.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	s := &site{Cluster: c, cert: filepath.Join(dir, "tls.crt"), key: filepath.Join(dir, "tls.key")}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "mesh"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{s.cert: {Type: "CERTIFICATE", Bytes: der}, s.key: {Type: "EC PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// replica starts one replica of the site and waits until it serves.
func (s *site) replica(t *testing.T, id string) *mqtttest.Broker {
	t.Helper()
	b := mqtttest.Start(t, func(c *config.Config) {
		c.ReplicaID = id
		c.MemberTTL = 5 * time.Second
		for _, u := range s.URLs("BROKER") {
			at := strings.LastIndex(u, "@")
			c.NATS.Servers = append(c.NATS.Servers, "nats://"+u[at+1:])
		}
		c.NATS.User, c.NATS.Password = "BROKER", config.NewSecret("BROKER")
		c.NATS.Copies = 3
		c.Mesh = config.Mesh{Listen: "127.0.0.1:0", CertFile: s.cert, KeyFile: s.key}
	})
	harness.Eventually(t, "replica "+id+" to serve", func() (bool, string) {
		return strings.Contains(b.Logged(), "broker cluster: joined"), b.Logged()
	})
	return b
}

func persistent(id string) func(*mqtt.Connect) {
	return func(p *mqtt.Connect) { p.ClientID, p.CleanStart, p.SessionExpiry = id, false, 600 }
}

func named(id string) func(*mqtt.Connect) {
	return func(p *mqtt.Connect) { p.ClientID = id }
}

func TestTwoReplicasAreOneBroker(t *testing.T) {
	s := startSite(t)
	a, b := s.replica(t, "a"), s.replica(t, "b")

	t.Run("a value goes to a clean subscriber of the other replica", func(t *testing.T) {
		sub := b.Connect(t, mqtt.V5, "dev-b", named("clean"))
		sub.Subscribe("live/#", 1)
		pub := a.Connect(t, mqtt.V5, "dev-a", named("live-publisher"))
		for n := range 20 {
			pub.Publish("live/x", 1, fmt.Sprint(n))
		}
		for n := range 20 {
			sub.Ack(sub.ExpectPublish("live/x", fmt.Sprint(n)))
		}
	})
	t.Run("a session moves with what it is owed", func(t *testing.T) {
		sub := a.Connect(t, mqtt.V5, "dev-b", persistent("mover"))
		sub.Subscribe("kept/#", 2)
		pub := b.Connect(t, mqtt.V5, "dev-a", named("kept-publisher"))
		pub.Publish("kept/x", 2, "0")
		sub.Ack(sub.ExpectPublish("kept/x", "0"))
		sub.Disconnect()
		for n := 1; n <= 50; n++ {
			pub.Publish("kept/x", 2, fmt.Sprint(n))
		}
		again := b.Connect(t, mqtt.V5, "dev-b", persistent("mover"))
		if !again.Connack.SessionPresent {
			t.Fatal("the session is not present at the other replica")
		}
		for n := 1; n <= 50; n++ {
			again.Ack(again.ExpectPublish("kept/x", fmt.Sprint(n)))
		}
		again.ExpectNothing()
	})
	t.Run("a client identifier is taken over across replicas", func(t *testing.T) {
		old := a.Connect(t, mqtt.V5, "dev-a", persistent("roamer"))
		old.Subscribe("roam/#", 1)
		fresh := b.Connect(t, mqtt.V5, "dev-a", persistent("roamer"))
		old.ExpectDisconnect(mqtt.SessionTakenOver)
		if !fresh.Connack.SessionPresent {
			t.Error("the session did not come along")
		}
		other := a.Dial(t, mqtt.V5, "tcp")
		if c := other.Connect(a.Credentials("dev-b", persistent("roamer"))); c.Code != mqtt.ClientIdentifierNotValid {
			t.Errorf("another identity: %v, want %v", c.Code, mqtt.ClientIdentifierNotValid)
		}
	})
}
