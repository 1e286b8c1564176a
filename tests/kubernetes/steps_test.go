package kubernetes_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/harness"
)

var shellBlock = regexp.MustCompile("(?s)```sh (look|change)\n(.*?)```")

// steps are the shell blocks below a heading of a page, in order.
func steps(t *testing.T, page, heading string) (blocks []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	_, below, found := strings.Cut(string(text), "\n## "+heading+"\n")
	below, _, _ = strings.Cut(below, "\n## ")
	for _, m := range shellBlock.FindAllStringSubmatch(below, -1) {
		blocks = append(blocks, m[2])
	}
	if !found || len(blocks) == 0 {
		t.Fatalf("%s has no section %s with steps", page, heading)
	}
	return blocks
}

// operator runs blocks of pages as somebody does who has pasted the runbooks' setup block.
type operator struct {
	r     *release
	setup string
	tools string // a folder with further programs; "": none
}

func newOperator(t *testing.T, r *release) *operator {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "runbooks/README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, below, found := strings.Cut(string(text), "```sh setup\n")
	setup, _, _ := strings.Cut(below, "```")
	if !found {
		t.Fatal("runbooks/README.md has no setup block")
	}
	chart, err := filepath.Abs(filepath.Join(root, "chart"))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"NS": r.namespace, "DEPS": r.deps(), "RELEASE": r.name, "CHART": chart} {
		line := regexp.MustCompile(`(?m)^` + name + `=\S+`)
		if !line.MatchString(setup) {
			t.Fatalf("the setup block does not set %s", name)
		}
		setup = line.ReplaceAllString(setup, name+"="+value)
	}
	return &operator{r: r, setup: setup}
}

// runs runs a block and returns what it printed.
func (o *operator) runs(t *testing.T, block string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", o.setup+"\n"+block)
	path := os.Getenv("PATH")
	for _, name := range []string{"kubectl", "helm"} {
		if program, err := cluster.program(name); err == nil {
			path = filepath.Dir(program) + ":" + path
		}
	}
	cmd.Env = append(os.Environ(), "KUBECONFIG="+*kubeconfig, "PATH="+o.tools+":"+path)
	cmd.Dir = t.TempDir()
	began := time.Now()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s\n%v after %v; it printed:\n%s", block, err, time.Since(began).Round(time.Second), out)
	}
	return string(out)
}

// section runs all blocks of a section.
func (o *operator) section(t *testing.T, page, heading string) {
	t.Helper()
	began := time.Now()
	blocks := steps(t, page, heading)
	for _, b := range blocks {
		o.runs(t, b)
	}
	row(t, fmt.Sprintf("%s, %s: %d steps", page, heading, len(blocks)), "every command succeeds", time.Since(began))
}

// secret is a key of a Secret of the release.
func (o *operator) secret(t *testing.T, namespace, name, key string) string {
	t.Helper()
	s, err := cluster.CoreV1().Secrets(namespace).Get(t.Context(), name, meta.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return string(s.Data[key])
}

// said waits until every pod of a component has logged the text at least n times.
func (o *operator) said(t *testing.T, namespace, component, container, text string, n int) time.Duration {
	t.Helper()
	return until(t, 4*time.Minute, fmt.Sprintf("every pod of %s to say %q %d times", component, text, n), func() (bool, string) {
		pods, err := cluster.pods(t.Context(), namespace, component)
		if err != nil {
			return false, err.Error()
		}
		for i := range pods {
			logs, err := cluster.command(t.Context(), "kubectl", "-n", namespace, "logs", pods[i].Name, "-c", container)
			if got := strings.Count(logs, text); err != nil || got < n {
				return false, fmt.Sprintf("%s has %d times, %v", pods[i].Name, got, err)
			}
		}
		return len(pods) > 0, "no pods"
	})
}

// away opens a persistent session, or resumes it.
func away(t *testing.T, b *harness.Broker, id string) (*harness.Conn, bool) {
	t.Helper()
	connect := b.ConnectAs("device", id)
	connect.CleanStart, connect.SessionExpiry = false, 3600
	c := b.Dial(t)
	return c, c.Connect(connect).SessionPresent
}

// leave disconnects and keeps the session.
func leave(c *harness.Conn) {
	c.Send((&mqtt.Disconnect{}).Append(nil, mqtt.V5))
	c.ExpectClosed()
}

// buildNATS compiles the nats command line into a folder of its own.
func buildNATS(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "nats"), "github.com/nats-io/natscli/nats")
	cmd.Dir = filepath.Join(root, "tools/peers")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build nats: %v\n%s", err, out)
	}
	return dir
}

// TestStepsOfUpgradingAndCertificates takes every step of UPGRADING.md and of the page on certificates on an
// installation that began without accounts and without TLS. A session that is away all the while has everything it is
// owed at the end.
func TestStepsOfUpgradingAndCertificates(t *testing.T) {
	installations.enter(t)
	values := merge(small, map[string]any{
		"global": map[string]any{"natsAuth": map[string]any{"enabled": false}, "natsTLS": map[string]any{"enabled": false, "mutual": false}},
		"uns":    map[string]any{"image": map[string]any{"pullPolicy": "Always"}},
		"backup": map[string]any{"persistence": map[string]any{"size": "1Gi"}},
	})
	if tag := os.Getenv("E2E_BROKER_TAG"); tag != "" {
		values = merge(values, map[string]any{"uns": map[string]any{"image": map[string]any{"tag": tag}}})
	}
	r := install(t, &release{name: "steps", namespace: "e2e-steps", files: []string{"values-local-lab.yaml"}, values: values})
	o := newOperator(t, r)
	b := r.reach(t)
	s, _ := away(t, b, "steps-session")
	if code := s.Subscribe(harness.Data("steps/#"), 1); code != mqtt.GrantedQoS1 {
		t.Fatalf("SUBACK %v", code)
	}
	leave(s)
	sent := 0
	publish := func(n int) {
		t.Helper()
		p := b.Client(t, "device", "steps-publisher")
		defer p.Close()
		for range n {
			sent++
			if code := p.Publish(harness.Inbox("device", "steps/x"), 1, fmt.Sprint(sent)); code != mqtt.Success {
				t.Fatalf("PUBACK %v", code)
			}
		}
	}
	publish(5)

	// memberTTL, with the nats command line; here NATS is still without TLS, so that its address will do.
	o.tools = buildNATS(t)
	o.setup += "\nexport NATS_URL=nats://" + cluster.toService(t, r.deps(), r.nats(), "nats") + "\n"
	o.section(t, "UPGRADING.md", "memberTTL")
	publish(5)
	o.section(t, "UPGRADING.md", "One release at a time")
	o.section(t, "UPGRADING.md", "Rollback limit")
	o.section(t, "UPGRADING.md", "NATS TLS")
	publish(5)
	o.section(t, "UPGRADING.md", "NATS made anew")
	publish(5)
	o.runs(t, strings.Join(steps(t, "runbooks/nats-auth-switch.md", "Look"), "\n"))

	// Certificates and passwords, each renewed by its block, while a device publishes.
	o.section(t, "runbooks/certificates.md", "See what there is")
	renew := steps(t, "runbooks/certificates.md", "Renew one, now")
	for i, x := range []struct{ namespace, secret, key string }{
		{r.namespace, r.uns() + "-mesh-tls", "tls.crt"}, {r.namespace, "maestrohub-nats-client-tls", "tls.crt"},
		{r.deps(), "maestrohub-nats-server-tls", "tls.crt"}, {r.namespace, "maestrohub-nats-auth-uns", "broker"},
	} {
		before := o.secret(t, x.namespace, x.secret, x.key)
		began := time.Now()
		o.runs(t, renew[i])
		if o.secret(t, x.namespace, x.secret, x.key) == before {
			t.Errorf("Secret %s is as before", x.secret)
		}
		row(t, "renewed: "+x.secret, "-", time.Since(began))
		publish(2)
	}
	row(t, "mesh certificate: every replica has taken it, from then", "about 2 min", o.said(t, r.namespace, "uns", "broker", "mesh: certificate reloaded", 1))
	row(t, "NATS client certificate: every replica has taken it", "about 2 min", o.said(t, r.namespace, "uns", "broker", "NATS client certificate reloaded", 1))
	row(t, "NATS servers: every one has taken certificate and passwords", "about 2 min", o.said(t, r.deps(), "nats", "nats", "Reloaded server configuration", 2))
	for _, block := range renew[4:] { // the looks, and the restart without the reloader
		o.runs(t, block)
	}
	publish(2)
	o.section(t, "runbooks/certificates.md", "Replace an authority")
	publish(2)
	o.section(t, "runbooks/certificates.md", "One has ended")

	s, present := away(t, b, "steps-session")
	if !present {
		t.Error("the session is gone")
	}
	for n := range sent {
		p := s.Receive()
		if string(p.Payload) != fmt.Sprint(n+1) {
			t.Fatalf("the session received %s, want %d", p.Payload, n+1)
		}
		s.Send(mqtt.AppendAck(nil, mqtt.V5, mqtt.PUBACK, p.PacketID, 0))
	}
	row(t, "a session that was away through all of it", "has everything it is owed", fmt.Sprintf("%d values, in order", sent))
}
