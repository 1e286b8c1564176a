package backup_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/harness"
	"maestrohub.io/uns/tools/localcluster/deployment"
	"maestrohub.io/uns/tools/localcluster/natsserver"
)

const (
	ttl   = 5 * time.Second // memberTTL
	grace = 3 * time.Second // willStopGrace

	logStream = "LOG_mqtt-sessions-" + harness.Workspace
)

// model lets topics below retained/ keep their last value.
const model = `
workspaces:
  - slug: acme
    bindings:
      - topic: retained/#
        retain: true
`

var clients = harness.Clients("device", "admin")

// cluster is a deployment, and the tools that save and restore its state.
type cluster struct {
	*deployment.Deployment
	brokers []*harness.Broker
	binary  string // of the broker
	nats    string // folder of the nats command line
	home    string // of its contexts
}

// shared is the deployment of all tests of this package, one after the other. A test
// that fails leaves it to nobody.
var shared *cluster

func TestMain(m *testing.M) {
	code := m.Run()
	if shared != nil {
		if err := shared.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func start(t *testing.T) *cluster {
	t.Helper()
	c := shared
	if c == nil {
		cli, err := natsserver.BuildCLI()
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		d, err := deployment.Start(ctx, deployment.Options{Binary: harness.Binary(t), MemberTTL: ttl, Clients: clients, Model: model,
			Settings: map[string]any{"brokerWillStopGrace": grace.String()}})
		if err != nil {
			t.Fatal(err)
		}
		c = &cluster{Deployment: d, binary: harness.Binary(t), nats: filepath.Dir(cli)}
		for _, r := range d.Replicas {
			c.brokers = append(c.brokers, harness.Attach(r.Broker, clients))
		}
		shared = c
	}
	c.home = t.TempDir()
	marks := make([]int, len(c.Replicas))
	for i, r := range c.Replicas {
		marks[i] = len(r.Output())
	}
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		for i, r := range c.Replicas {
			t.Logf("%s printed:\n%s", r.ID, r.Output()[marks[i]:])
		}
		shared = nil
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	c.startReplicas(t)
	return c
}

// startReplicas starts those that do not run and waits until all serve.
func (c *cluster) startReplicas(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := c.StartReplicas(ctx); err != nil {
		t.Fatal(err)
	}
	for _, b := range c.brokers {
		if err := b.Ready(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// stopReplicas is `kubectl scale --replicas=0`.
func (c *cluster) stopReplicas(t *testing.T) {
	t.Helper()
	for _, r := range c.Replicas {
		if r.Alive() {
			if err := r.Stop(30 * time.Second); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// wipe takes what NATS has stored from all its servers, as when their volumes are lost.
func (c *cluster) wipe(t *testing.T) {
	t.Helper()
	for _, s := range c.NATS.Servers {
		s.Kill()
	}
	for _, s := range c.NATS.Servers {
		if err := s.Wipe(); err != nil {
			t.Fatal(err)
		}
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := c.NATS.Ready(ctx); err != nil {
		t.Fatal(err)
	}
}

// script runs a shell script as an operator does, with nats in the path and DIR set.
func (c *cluster) script(t *testing.T, dir, text string) string {
	t.Helper()
	out, err := c.run(t, "bash", dir, "-euo", "pipefail", "-c", text)
	if err != nil {
		t.Fatalf("%s\n%v; it printed:\n%s", text, err, out)
	}
	return out
}

// broker runs a command of the broker's binary.
func (c *cluster) broker(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var servers []string
	for _, s := range c.NATS.Servers {
		servers = append(servers, "nats://"+s.Address)
	}
	if args[1] != "check" {
		args = append(args, "--server", strings.Join(servers, ","), "--user", "uns-broker")
	}
	return c.run(t, c.binary, "", args...)
}

func (c *cluster) run(t *testing.T, program, dir string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "PATH="+c.nats+":"+os.Getenv("PATH"), "XDG_CONFIG_HOME="+c.home, "HOME="+c.home, "DIR="+dir,
		"NATS_PASSWORD=uns-broker", "SERVER="+strings.ReplaceAll(c.NATS.Servers[0].URL("x"), "x:x@", ""))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// context is step 4 of the page.
func (c *cluster) context(t *testing.T) {
	t.Helper()
	c.script(t, "", `nats context add mh-broker --server "$SERVER" --user uns-broker --password uns-broker --select; nats stream ls`)
}

// jetStream is the broker's account, for what the test itself wants to know.
func (c *cluster) jetStream(t *testing.T) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(c.NATSURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// resume opens a persistent session of the id, new or not.
func (c *cluster) resume(t *testing.T, replica int, id string) (*harness.Conn, bool) {
	t.Helper()
	b := c.brokers[replica]
	connect := b.ConnectAs("device", id)
	connect.CleanStart, connect.SessionExpiry = false, 3000
	conn := b.Dial(t)
	return conn, conn.Connect(connect).SessionPresent
}

// subscriber opens a new persistent session with a subscription.
func (c *cluster) subscriber(t *testing.T, id, filter string, qos byte) *harness.Conn {
	t.Helper()
	s, present := c.resume(t, 0, id)
	if present {
		t.Fatalf("%s has a session already", id)
	}
	if code := s.Subscribe(harness.Data(filter), qos); code >= 0x80 {
		t.Fatalf("SUBACK %v", code)
	}
	return s
}

// publish publishes values one after the other, each acknowledged.
func (c *cluster) publish(t *testing.T, topic string, qos byte, payloads ...string) {
	t.Helper()
	p := c.brokers[1].Client(t, "device", "publisher-"+topic)
	for _, payload := range payloads {
		if code := p.Publish(harness.Inbox("device", topic), qos, payload); code >= 0x80 {
			t.Fatalf("publish %s on %s: %v", payload, topic, code)
		}
	}
	p.Close()
}

// expect receives exactly these payloads and nothing after them. Handshakes overlap.
func expect(t *testing.T, who string, s *harness.Conn, want ...string) {
	t.Helper()
	for received, open := 0, 0; received < len(want) || open > 0; {
		packet, err := s.Next(harness.Patience)
		if err != nil {
			t.Fatalf("%s has received %d of %v: %v", who, received, want, err)
		}
		switch packet.Type {
		case mqtt.PUBLISH:
			var p mqtt.Publish
			must(t, p.Decode(mqtt.V5, packet.Header, packet.Body))
			if received >= len(want) || string(p.Payload) != want[received] {
				t.Fatalf("%s received %s as its value %d, want %v", who, p.Payload, received+1, want)
			}
			received++
			switch p.QoS {
			case 1:
				s.Send(mqtt.AppendAck(nil, mqtt.V5, mqtt.PUBACK, p.PacketID, 0))
			case 2:
				open++
				s.Send(mqtt.AppendAck(nil, mqtt.V5, mqtt.PUBREC, p.PacketID, 0))
			}
		case mqtt.PUBREL:
			var a mqtt.Ack
			must(t, a.Decode(mqtt.V5, packet.Header, packet.Body))
			open--
			s.Send(mqtt.AppendAck(nil, mqtt.V5, mqtt.PUBCOMP, a.PacketID, 0))
		default:
			t.Fatalf("%s received %v", who, packet.Type)
		}
	}
	s.ExpectNothing()
}

// awaitNotReady waits until a replica says that it is not ready, for the store's sake.
func (c *cluster) awaitNotReady(t *testing.T, i int) (took time.Duration, reason string) {
	t.Helper()
	began := time.Now()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		status, body := c.brokers[i].Do(t, "", http.MethodGet, "/health/ready", nil)
		if status == http.StatusServiceUnavailable && strings.Contains(string(body), "broker-cluster-store:") {
			return time.Since(began), string(body)
		}
		if time.Since(began) > 40*time.Second {
			t.Fatalf("%s is ready after %v: %s", c.Replicas[i].ID, time.Since(began), body)
		}
	}
	return 0, ""
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
