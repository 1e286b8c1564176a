package kubernetes_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/harness"
)

var shellBlock = regexp.MustCompile("(?s)```sh (look|change)\n(.*?)```")

// blocksOf are the shell blocks below a heading of a page, in order.
func blocksOf(t *testing.T, page, heading string) (blocks []string) {
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
	if !strings.Contains(setup, helpersPort) {
		t.Fatalf("the setup block forwards no port %s", helpersPort)
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

// helpersPort is the port of this machine that the setup block forwards. Blocks that
// run beside each other have one each, from there on.
const helpersPort = "18080"

var helpersPorts atomic.Int64

// runs runs a block and returns what it printed.
func (o *operator) runs(t *testing.T, block string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	port := fmt.Sprint(18080 + helpersPorts.Add(1)%1000)
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", strings.ReplaceAll(o.setup, helpersPort, port)+"\n"+block)
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
	blocks := blocksOf(t, page, heading)
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

// natsProgram compiles the nats command line, where the tests of clusters have it too.
var natsProgram = sync.OnceValues(func() (string, error) {
	program, err := filepath.Abs(filepath.Join(root, "bin", "nats"))
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-o", program, "github.com/nats-io/natscli/nats")
	cmd.Dir = filepath.Join(root, "tools/peers")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build nats: %w\n%s", err, out)
	}
	return program, nil
})

// buildNATS is a folder with the nats command line.
func buildNATS(t *testing.T) string {
	t.Helper()
	program, err := natsProgram()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(program, filepath.Join(dir, "nats")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// journey is an installation that somebody takes the steps of pages on, with a session
// that is away all the while and wants everything that is published meanwhile.
type journey struct {
	*operator
	broker *harness.Broker
	sent   int
}

// begin installs a release and has a session leave it.
func begin(t *testing.T, name string, values map[string]any) *journey {
	t.Helper()
	values = merge(merge(small, map[string]any{
		"uns":    map[string]any{"image": map[string]any{"pullPolicy": "Always"}},
		"backup": map[string]any{"persistence": map[string]any{"size": "1Gi"}},
		"nats":   map[string]any{"config": map[string]any{"lameDuck": map[string]any{"gracePeriod": 1}}},
	}), values)
	if tag := os.Getenv("E2E_BROKER_TAG"); tag != "" {
		values = merge(values, map[string]any{"uns": map[string]any{"image": map[string]any{"tag": tag}}})
	}
	r := install(t, &release{name: name, namespace: "e2e-" + name, files: []string{"values-local-lab.yaml"}, values: values})
	j := &journey{operator: newOperator(t, r), broker: r.reach(t)}
	s, _ := away(t, j.broker, "steps-session")
	if code := s.Subscribe(harness.Data("steps/#"), 1); code != mqtt.GrantedQoS1 {
		t.Fatalf("SUBACK %v", code)
	}
	leave(s)
	j.publish(t, 5)
	return j
}

// publish has a device publish and be acknowledged n times.
func (j *journey) publish(t *testing.T, n int) {
	t.Helper()
	p := j.broker.Client(t, "device", "steps-publisher")
	defer p.Close()
	for range n {
		j.sent++
		if code := p.Publish(harness.Inbox("device", "steps/x"), 1, fmt.Sprint(j.sent)); code != mqtt.Success {
			t.Fatalf("PUBACK %v", code)
		}
	}
}

// section takes all steps of a section, then publishes.
func (j *journey) section(t *testing.T, page, heading string) {
	t.Helper()
	j.operator.section(t, page, heading)
	j.publish(t, 2)
}

// end has the session come back, for everything it is owed.
func (j *journey) end(t *testing.T) {
	t.Helper()
	s, present := away(t, j.broker, "steps-session")
	if !present {
		t.Error("the session is gone")
	}
	for n := range j.sent {
		p := s.Receive()
		if string(p.Payload) != fmt.Sprint(n+1) {
			t.Fatalf("the session received %s, want %d", p.Payload, n+1)
		}
		s.Send(mqtt.AppendAck(nil, mqtt.V5, mqtt.PUBACK, p.PacketID, 0))
	}
	row(t, "a session that was away through all of it", "has everything it is owed", fmt.Sprintf("%d values, in order", j.sent))
}

// TestStepsOfUpgrading takes every step of UPGRADING.md on an installation that began without accounts and without TLS.
// A session that is away all the while has everything it is owed at the end.
func TestStepsOfUpgrading(t *testing.T) {
	installations.enter(t)
	j := begin(t, "upgrading", map[string]any{
		"global": map[string]any{"natsAuth": map[string]any{"enabled": false}, "natsTLS": map[string]any{"enabled": false, "mutual": false}}})
	// memberTTL, with the nats command line; here NATS is still without TLS, so that its address will do.
	j.tools = buildNATS(t)
	j.setup += "\nexport NATS_URL=nats://" + cluster.toService(t, j.r.deps(), j.r.nats(), "nats") + "\n"
	for _, heading := range []string{"memberTTL", "One release at a time", "Rollback limit", "NATS TLS", "NATS made anew"} {
		j.section(t, "UPGRADING.md", heading)
	}
	j.runs(t, strings.Join(blocksOf(t, "runbooks/nats-auth-switch.md", "Look"), "\n"))
	j.end(t)
}

// grown waits until the claims that StatefulSets of a namespace have made have the size
// of the page.
func (o *operator) grown(t *testing.T, namespace string, want int) {
	t.Helper()
	row(t, fmt.Sprintf("larger volumes: %d claims have 40 GiB, from the last step", want), "without a restart", until(t, time.Minute, "larger volumes", func() (bool, string) {
		claims, err := cluster.CoreV1().PersistentVolumeClaims(namespace).List(t.Context(), meta.ListOptions{LabelSelector: "app.kubernetes.io/name"})
		if err != nil {
			return false, err.Error()
		}
		has, now := 0, ""
		for _, c := range claims.Items {
			size := c.Status.Capacity.Storage().String()
			now += c.Name + " has " + size + "; "
			if strings.HasPrefix(c.Name, "data-") && size == "40Gi" {
				has++
			}
		}
		return has == want, now
	}))
}

// TestStepsOfCertificates renews and replaces every certificate and password by the blocks of their page, while a device
// publishes and a session is away.
func TestStepsOfCertificates(t *testing.T) {
	installations.enter(t)
	j := begin(t, "certificates", nil)
	r := j.r
	const page = "runbooks/certificates.md"
	j.section(t, page, "See what there is")
	renew := blocksOf(t, page, "Renew one, now")
	for i, x := range []struct{ namespace, secret, key string }{
		{r.namespace, r.uns() + "-mesh-tls", "tls.crt"}, {r.namespace, "maestrohub-nats-client-tls", "tls.crt"},
		{r.deps(), "maestrohub-nats-server-tls", "tls.crt"}, {r.namespace, "maestrohub-nats-auth-uns", "broker"},
	} {
		before := j.secret(t, x.namespace, x.secret, x.key)
		began := time.Now()
		j.runs(t, renew[i])
		if j.secret(t, x.namespace, x.secret, x.key) == before {
			t.Errorf("Secret %s is as before", x.secret)
		}
		row(t, "renewed: "+x.secret, "-", time.Since(began))
		j.publish(t, 2)
	}
	row(t, "mesh certificate: every replica has taken it, from then", "about 2 min", j.said(t, r.namespace, "uns", "broker", "mesh: certificate reloaded", 1))
	row(t, "NATS client certificate: every replica has taken it", "about 2 min", j.said(t, r.namespace, "uns", "broker", "NATS client certificate reloaded", 1))
	row(t, "NATS servers: every one has taken certificate and passwords", "about 2 min", j.said(t, r.deps(), "nats", "nats", "Reloaded server configuration", 2))
	for _, block := range renew[4:] { // the looks, and the restart without the reloader
		j.runs(t, block)
	}
	j.publish(t, 2)
	j.section(t, page, "Replace an authority")
	j.section(t, page, "One has ended")
	j.end(t)
}
