package jetstream_test

import (
	"crypto/tls"
	"crypto/x509"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/state/jetstream"
	"maestrohub.io/uns/tools/launch"
	"maestrohub.io/uns/tools/localcluster/natsserver"
)

func TestBothConnectionsUseTheCredentialsAndTLS(t *testing.T) {
	t.Parallel()
	authority, err := launch.NewAuthority("nats test authority")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := authority.IssueTo(dir, "nats"); err != nil {
		t.Fatal(err)
	}
	o := natsserver.Options{Dir: dir, Servers: 1}
	o.TLS.Cert, o.TLS.Key, o.TLS.CA = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"), filepath.Join(dir, "ca.crt")
	c, err := natsserver.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	ctx, cancel := contextFor(t, time.Minute)
	defer cancel()
	if err := c.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority.PEM)
	var password atomic.Value
	password.Store("wrong")
	asked := make(chan struct{}, 100)
	store, err := jetstream.Open(jetstream.Options{
		Servers: []string{"tls://" + c.Servers[0].Address}, Replica: "uns-0", Replicas: 1,
		TLS: &tls.Config{RootCAs: roots},
		Credentials: func() (string, string) {
			select {
			case asked <- struct{}{}:
			default:
			}
			return "BROKER", password.Load().(string)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	<-asked
	short, cancel := contextFor(t, 200*time.Millisecond)
	defer cancel()
	if _, err := store.Bucket(short, state.Routes); err == nil {
		t.Fatal("a wrong password was let in")
	}
	// The Secret is corrected: the next attempt takes it.
	password.Store("BROKER")
	bucket, err := store.Bucket(ctx, state.Routes)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bucket.Put(ctx, "a", nil); err != nil {
		t.Fatal(err)
	}
	lease, err := store.Lease(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lease.Create(ctx, "uns-0", nil); err != nil {
		t.Fatal(err)
	}
}

// Servers' certificates get another authority; whoever connects then must know it, without having been restarted.
func TestARenewedAuthorityIsMetByTheNextReconnect(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	issue := func(name string) *x509.CertPool {
		t.Helper()
		authority, err := launch.NewAuthority(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := authority.IssueTo(dir, "nats"); err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(authority.PEM)
		return roots
	}
	var roots atomic.Pointer[x509.CertPool]
	roots.Store(issue("first authority"))
	o := natsserver.Options{Dir: dir, Servers: 1}
	o.TLS.Cert, o.TLS.Key, o.TLS.CA = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"), filepath.Join(dir, "ca.crt")
	c, err := natsserver.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	ctx, cancel := contextFor(t, time.Minute)
	defer cancel()
	if err := c.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	store, err := jetstream.Open(jetstream.Options{
		Servers: []string{"tls://" + c.Servers[0].Address}, Replica: "uns-0", Replicas: 1,
		TLS: &tls.Config{MinVersion: tls.VersionTLS12}, Roots: roots.Load,
		Credentials: func() (string, string) { return "BROKER", "BROKER" },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	bucket, err := store.Bucket(ctx, state.Routes)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bucket.Put(ctx, "a", nil); err != nil {
		t.Fatal(err)
	}
	next := issue("next authority")
	if err := c.Servers[0].Stop(20 * time.Second); err != nil {
		t.Fatal(err)
	}
	if err := c.Servers[0].Start(); err != nil {
		t.Fatal(err)
	}
	short, cancel := contextFor(t, time.Second)
	defer cancel()
	if _, err := bucket.Put(short, "b", nil); err == nil {
		t.Fatal("a server of an unknown authority was connected to")
	}
	roots.Store(next)
	if _, err := bucket.Put(ctx, "b", nil); err != nil {
		t.Fatal(err)
	}
}
