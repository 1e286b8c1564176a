package upgrading_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/harness"
	"maestrohub.io/uns/tools/localcluster/deployment"
	"maestrohub.io/uns/tools/localcluster/natsserver"
)

const root = "../.."

var clients = harness.Clients("device")

// cluster is a deployment of a test's own.
type cluster struct {
	*deployment.Deployment
	brokers []*harness.Broker
}

func start(t *testing.T, o deployment.Options) *cluster {
	t.Helper()
	o.Binary, o.Clients = harness.Binary(t), clients
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	d, err := deployment.Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{Deployment: d}
	for _, r := range d.Replicas {
		c.brokers = append(c.brokers, harness.Attach(r.Broker, clients))
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, r := range d.Replicas {
				t.Logf("%s printed:\n%s", r.ID, r.Output())
			}
		}
		must(t, d.Close())
	})
	c.ready(t)
	return c
}

// ready waits until every replica serves.
func (c *cluster) ready(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	must(t, c.StartReplicas(ctx))
	for _, b := range c.brokers {
		must(t, b.Ready(ctx))
	}
}

// resume opens a persistent session, new or not.
func (c *cluster) resume(t *testing.T, replica int, id string) (s *harness.Conn, present bool) {
	t.Helper()
	b := c.brokers[replica]
	connect := b.ConnectAs("device", id)
	connect.CleanStart, connect.SessionExpiry = false, 3000
	s = b.Dial(t)
	return s, s.Connect(connect).SessionPresent
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func publish(t *testing.T, p *harness.Conn, topic string, payloads ...string) {
	t.Helper()
	for _, payload := range payloads {
		if code := p.Publish(harness.Inbox("device", topic), 1, payload); code >= 0x80 {
			t.Fatalf("publish %s: %v", payload, code)
		}
	}
}

// expect receives QoS 1 values and acknowledges them.
func expect(t *testing.T, s *harness.Conn, want ...string) {
	t.Helper()
	for _, w := range want {
		p := s.Receive()
		if string(p.Payload) != w {
			t.Fatalf("received %s, want %s", p.Payload, w)
		}
		if p.QoS == 1 {
			s.Send(mqtt.AppendAck(nil, mqtt.V5, mqtt.PUBACK, p.PacketID, 0))
		}
	}
}

// section are the shell blocks below a heading of a page, in order.
func section(t *testing.T, page, heading string) (blocks []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, page))
	must(t, err)
	_, below, found := strings.Cut(string(text), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("%s has no section %s", page, heading)
	}
	below, _, _ = strings.Cut(below, "\n## ")
	for _, m := range regexp.MustCompile("(?s)```sh (?:look|change)\n(.*?)```").FindAllStringSubmatch(below, -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

// nats runs a block with the nats command line, in a context that leads to the deployment.
func (c *cluster) nats(t *testing.T, block string) string {
	t.Helper()
	cli, err := natsserver.BuildCLI()
	must(t, err)
	home := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", `nats context add "$RELEASE" --server "$SERVER" --user uns-broker --password uns-broker --select >/dev/null; `+block)
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(cli)+":"+os.Getenv("PATH"), "XDG_CONFIG_HOME="+home, "HOME="+home, "RELEASE=maestrohub", "SERVER=nats://"+c.NATS.Servers[0].Address)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s\n%v; it printed:\n%s", block, err, out)
	}
	return string(out)
}
