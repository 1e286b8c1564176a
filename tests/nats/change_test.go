package nats_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
)

// TestRenewedSecretsServeWithoutARestart: another password and another certificate reach
// the servers through the reloader alone; connections that are open stay so.
func TestRenewedSecretsServeWithoutARestart(t *testing.T) {
	c := boot(t, 3)
	p := c.pods[1]
	p.start(t, "reloader", "nats-server-config-reloader")
	before, old := c.tls(t, true), c.password(t, "uns-broker")
	nc, err := c.sign(t, p, before, "uns-broker", old)
	must(t, err)
	serial := func(nc *nats.Conn) string {
		state, err := nc.TLSConnectionState()
		must(t, err)
		return state.PeerCertificates[0].SerialNumber.String()
	}
	first := serial(nc)

	c.installation = install(t, map[string]any{"secrets": map[string]any{"renew": map[string]any{"natsPasswords": "today", "natsServer": "today"}}}, c.secrets)
	fresh := c.password(t, "uns-broker")
	if fresh == old {
		t.Fatal("the password was not renewed")
	}
	p.project(t, c.files(t))
	var renewed *nats.Conn
	took := await(t, time.Minute, "the new password to be taken", func() bool {
		renewed, err = c.sign(t, p, c.tls(t, true), "uns-broker", fresh)
		return err == nil
	})
	t.Logf("the new password and certificate serve %v after the volume changed", took.Round(time.Millisecond))
	if serial(renewed) == first {
		t.Error("the server still shows the old certificate")
	}
	if _, err := c.sign(t, p, c.tls(t, true), "uns-broker", old); err == nil {
		t.Error("the old password is still taken")
	}
	if !c.servers[1].Running() {
		t.Error("the server was restarted")
	}
	// The others have not been told yet: a cluster of both kinds works.
	if _, err := c.sign(t, c.pods[0], c.tls(t, true), "uns-broker", old); err != nil {
		t.Errorf("a server whose volume has not changed yet: %v", err)
	}
}

// TestADrainedServerHandsOverAndEnds: what Kubernetes does to a pod, by the rendered
// preStop, within the rendered grace.
func TestADrainedServerHandsOverAndEnds(t *testing.T) {
	c := boot(t, 4)
	conf, password := c.tls(t, true), c.password(t, "uns-broker")
	nc, err := c.sign(t, c.pods[0], conf, "uns-broker", password)
	must(t, err)
	js, err := natsjs.New(nc)
	must(t, err)
	stream, err := js.CreateStream(t.Context(), natsjs.StreamConfig{Name: "s", Subjects: []string{"s"}, Replicas: 3})
	must(t, err)
	leader := stream.CachedInfo().Cluster.Leader
	var victim int
	for i, p := range c.pods {
		if p.name == leader {
			victim = i
		}
	}
	witness, err := c.sign(t, c.pods[(victim+1)%3], conf, "uns-broker", password)
	must(t, err)
	onVictim := make(chan struct{})
	lame, err := nats.Connect("tls://"+c.pods[victim].address+":4222", nats.Secure(conf), nats.UserInfo("uns-broker", password), nats.NoReconnect(),
		nats.ClosedHandler(func(*nats.Conn) { close(onVictim) }))
	must(t, err)
	defer lame.Close()
	if js, err = natsjs.New(witness); err != nil {
		t.Fatal(err)
	}

	server := c.pods[victim].container(t, "nats")
	grace := time.Duration(*c.pods[victim].spec.TerminationGracePeriodSeconds) * time.Second
	began := time.Now()
	if out, err := c.pods[victim].exec(t.Context(), server.Lifecycle.PreStop.Exec.Command...); err != nil {
		t.Fatalf("preStop: %v: %s", err, out)
	}
	preStop := time.Since(began)
	moved := await(t, grace, "another server to lead", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		info, err := js.Stream(ctx, "s")
		return err == nil && info.CachedInfo().Cluster.Leader != leader && info.CachedInfo().Cluster.Leader != ""
	})
	// SIGTERM follows at once, and is not to cut the drain short.
	must(t, c.servers[victim].Signal(syscall.SIGTERM))
	if _, err := js.Publish(t.Context(), "s", []byte("x")); err != nil {
		t.Errorf("a publish after the drain: %v", err)
	}
	select {
	case <-onVictim:
	case <-time.After(grace):
		t.Error("a client of the drained server was never sent away")
	}
	within, cancel := context.WithTimeout(t.Context(), grace)
	defer cancel()
	if err := c.servers[victim].Wait(within); err != nil {
		t.Errorf("the drained server: %v; it must end by itself, with 0, within the grace of %v", err, grace)
	}
	total := time.Since(began)
	t.Logf("preStop returned after %v, another server led %v later; the server ended by itself after %v, of %v it has", preStop.Round(time.Millisecond), moved.Round(time.Millisecond), total.Round(100*time.Millisecond), grace)
	if total > grace-10*time.Second {
		t.Errorf("the drain took %v: less than 10 s are to spare of %v", total, grace)
	}
}
