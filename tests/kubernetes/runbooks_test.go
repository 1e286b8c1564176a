package kubernetes_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/harness"
	"maestrohub.io/uns/tests/runbooks/pages"
)

// pagesOf are the blocks that a test runs.
func pagesOf(t *testing.T, test string) []pages.Page {
	t.Helper()
	all, err := pages.Of(root, test)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatalf("no page has blocks that %s runs", test)
	}
	return all
}

// owed makes a persistent session that is away and owed values, so that there is a
// session log, and returns what reads them.
func (s *site) owed(t *testing.T, id string, count int) (collect func()) {
	t.Helper()
	b := s.service(t)
	id = fmt.Sprintf("%s-%d", id, time.Now().Unix())
	topic := "owed/" + id
	c, _ := away(t, b, id)
	if code := c.Subscribe(harness.Data(topic), 1); code != mqtt.GrantedQoS1 {
		t.Fatalf("SUBACK %v", code)
	}
	leave(c)
	publisher := b.Client(t, "device", id+"-publisher")
	for n := range count {
		if code := publisher.Publish(harness.Inbox("device", topic), 1, fmt.Sprint(n)); code != mqtt.Success {
			t.Fatalf("PUBACK %v", code)
		}
	}
	publisher.Close()
	return func() {
		t.Helper()
		c, present := away(t, s.service(t), id)
		if !present {
			t.Fatal("the persistent session is gone")
		}
		for n := range count {
			if p := c.Receive(); string(p.Payload) != fmt.Sprint(n) {
				t.Fatalf("the session got %q, want %d: what it was owed, in order", p.Payload, n)
			}
		}
	}
}

// form is what a line of a page's example stands for: figures are any figures, names
// those of this release.
func (o *operator) form(line string) *regexp.Regexp {
	figure := regexp.MustCompile(`^[0-9.]+(e[+-]?[0-9]+)?$`)
	var fields []string
	for field := range strings.FieldsSeq(line) {
		if figure.MatchString(field) {
			fields = append(fields, `[0-9.]+(?:e[+-]?[0-9]+)?`)
			continue
		}
		field = regexp.QuoteMeta(field)
		field = regexp.MustCompile(`^maestrohub-(uns|nats)\b`).ReplaceAllString(field, regexp.QuoteMeta(o.r.name)+"-$1")
		field = regexp.MustCompile(`^maestrohub/uns-broker:\S+$`).ReplaceAllLiteralString(field, `\S*maestrohub/uns-broker:\S+`)
		field = regexp.MustCompile(`workspace="\w+"`).ReplaceAllLiteralString(field, `workspace="[^"]+"`)
		fields = append(fields, strings.ReplaceAll(field, "…", ".*"))
	}
	return regexp.MustCompile(`(?m)^\s*` + strings.Join(fields, `\s+`) + `\s*$`)
}

// looks runs what the pages look at, and holds what is printed against what they call
// healthy.
func (o *operator) looks(t *testing.T, all []pages.Page) (ran, compared int) {
	for _, p := range all {
		for i, b := range p.Blocks {
			if b.Info != "sh look" {
				continue
			}
			ran++
			t.Run(b.At(), func(t *testing.T) {
				said := o.runs(t, b.Text)
				// The helper says nothing rather than fail.
				for n := range 2 {
					if pod := fmt.Sprintf("%s-%d ", o.r.uns(), n); strings.Contains(b.Text, "metrics '") && !strings.Contains(said, "\n"+pod) && !strings.HasPrefix(said, pod) {
						t.Errorf("it shows no metric of %s; it printed\n%s", pod, said)
					}
				}
				if i+1 == len(p.Blocks) || p.Blocks[i+1].Info != "text healthy" {
					return
				}
				compared++
				for line := range strings.Lines(p.Blocks[i+1].Text) {
					if form := o.form(line); strings.TrimSpace(line) != "" && !form.MatchString(said) {
						t.Errorf("%s promises a line like\n%s(%s); it printed\n%s", p.Blocks[i+1].At(), line, form, said)
					}
				}
			})
		}
	}
	return ran, compared
}

// changes runs what the pages change. The same command on several pages is run once.
func (o *operator) changes(t *testing.T, s *site, all []pages.Page) (ran, helm int) {
	done := map[string]bool{}
	for _, p := range all {
		for _, b := range p.Blocks {
			if b.Info != "sh change" || done[b.Text] {
				continue
			}
			done[b.Text] = true
			ran++
			t.Run(b.At(), func(t *testing.T) {
				o.runs(t, b.Text)
				if strings.Contains(b.Text, "helm ") {
					helm++ // replicas are replaced meanwhile; whole is asked for at the end
					return
				}
				s.whole(t)
			})
		}
	}
	return ran, helm
}

// TestRunbookCommands runs the commands of every runbook on the release while it is
// well: each succeeds, prints what its page calls healthy, and leaves it well.
func TestRunbookCommands(t *testing.T) {
	s := start(t)
	r := s.release
	o := newOperator(t, r)
	collect := s.owed(t, "runbooks", 5)
	for i := range 2 { // a replica shows the size of the logs it reads
		b := s.replica(t, i)
		c, _ := away(t, b, fmt.Sprintf("runbooks-on-%d", i))
		if code := c.Subscribe(harness.Data("runbooks/#"), 1); code != mqtt.GrantedQoS1 {
			t.Fatalf("SUBACK %v", code)
		}
		leave(c)
		until(t, time.Minute, s.podName(i)+" to show the size of its session log", func() (bool, string) {
			_, body := b.Do(t, "", http.MethodGet, "/metrics", nil)
			return strings.Contains(string(body), "\nmaestrohub_uns_broker_session_log_bytes{"), "not there"
		})
	}
	all := pagesOf(t, "TestRunbookCommands")
	began := time.Now()
	ran, compared := o.looks(t, all)
	if ran < 60 || compared < 20 {
		t.Errorf("ran %d looks and compared %d with what is healthy", ran, compared)
	}
	row(t, fmt.Sprintf("runbooks: %d looks, %d compared with what is healthy", ran, compared), "every command succeeds", time.Since(began))

	t.Cleanup(func() { // the release's own values again, also after a failure
		ctx, cancel := context.WithTimeout(context.Background(), patient)
		defer cancel()
		if err := r.apply(ctx, nil); err != nil {
			t.Error(err)
		}
	})
	began = time.Now()
	ran, helm := o.changes(t, s, all)
	if ran < 7 || helm < 5 {
		t.Errorf("ran %d changes, %d of them upgrades", ran, helm)
	}
	cluster.mustRun(t, "kubectl", "-n", r.namespace, "rollout", "status", "statefulset/"+r.uns(), "--timeout=5m")
	s.whole(t)
	collect()
	row(t, fmt.Sprintf("runbooks: %d changes", ran), "every command succeeds", time.Since(began))
}

// TestThePageOnBackups takes the page's steps: a backup, NATS that loses everything, the
// restore, and the nats command line from a workstation.
func TestThePageOnBackups(t *testing.T) {
	s := start(t)
	r := s.release
	o := newOperator(t, r)
	all := pagesOf(t, "TestThePageOnBackups")
	blocks := map[string][]string{} // by heading
	for _, b := range all[0].Blocks {
		heading := b.Sections[len(b.Sections)-1]
		blocks[heading] = append(blocks[heading], b.Text)
	}
	take := func(heading string, want int) []string {
		t.Helper()
		if len(all) != 1 || len(blocks[heading]) != want {
			t.Fatalf("%s has %d blocks below %q, this test takes %d", all[0].Path, len(blocks[heading]), heading, want)
		}
		return blocks[heading]
	}
	schedule, now, restore := take("On a schedule", 1), take("Now", 1), take("Restore", 5)
	line, workstation := take("With the nats command line", 2), take("The broker's command from a workstation", 1)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if _, err := cluster.command(ctx, "kubectl", "-n", r.namespace, "delete", "jobs", "backup-now", "restore", "restore-2", "--ignore-not-found"); err != nil {
			t.Error(err)
		}
	})

	collect := s.owed(t, "page-on-backups", 5)
	began := time.Now()
	o.runs(t, schedule[0])
	o.runs(t, now[0])
	row(t, "page on backups: one now", "every command succeeds", time.Since(began))

	o.runs(t, restore[0])
	s.scale(t, r.deps(), r.nats(), "nats", 0)
	cluster.mustRun(t, "kubectl", "-n", r.deps(), "delete", "persistentvolumeclaims", "--selector", "app.kubernetes.io/name=nats", "--wait", "--timeout=1m")
	s.scale(t, r.deps(), r.nats(), "nats", 3)
	began = time.Now()
	o.runs(t, restore[1])
	o.runs(t, restore[2]) // over what the first has brought back
	o.runs(t, restore[3])
	o.runs(t, restore[4])
	s.whole(t)
	row(t, "page on backups: the restore, twice", "every command succeeds", time.Since(began))

	// In one shell, as the page has it, with a hosts file of its own.
	began = time.Now()
	o.tools = buildNATS(t)
	o.build(t, "broker")
	if _, err := exec.LookPath("sudo"); err != nil && os.Geteuid() == 0 {
		o.program(t, "sudo", `exec "$@"`)
	}
	script := filepath.Join(t.TempDir(), "script.sh")
	if err := os.WriteFile(script, []byte(strings.Join([]string{
		"set -euo pipefail", o.setup, "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT",
		"cp /etc/hosts hosts && mount --bind hosts /etc/hosts", line[0], line[1], workstation[0]}, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	said := o.runs(t, "export HOME=$PWD XDG_CONFIG_HOME=$PWD && exec unshare --mount --propagation private bash "+script)
	if !strings.Contains(said, "KV_mqtt-session-state") {
		t.Errorf("`nats stream ls` lists no state of the broker's:\n%s", said)
	}
	row(t, "page on backups: nats and broker from a workstation", "every command succeeds", time.Since(began))
	collect()
}

// build compiles a main package of the repository into the operator's tools.
func (o *operator) build(t *testing.T, name string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(o.tools, name), "./"+name)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, out)
	}
}

// program is a script among the operator's tools.
func (o *operator) program(t *testing.T, name, script string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(o.tools, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
}

// TestInstallIt gives the commands that the READMEs begin with, which are the same, in
// the repository's folder.
func TestInstallIt(t *testing.T) {
	installations.enter(t)
	all := pagesOf(t, "TestInstallIt")
	text := all[0].Blocks[0].Text
	for _, p := range all {
		for _, b := range p.Blocks {
			if b.Text != text {
				t.Fatalf("%s says\n%s\nand %s\n%s", all[0].Blocks[0].At(), text, b.At(), b.Text)
			}
		}
	}
	if *registry != "" { // as the chart's page tells those who have one
		from := "helm install maestrohub ./chart "
		if !strings.Contains(text, from) {
			t.Fatalf("the pages do not begin with %q:\n%s", from, text)
		}
		text = strings.Replace(text, from, from+"--set global.imageRegistry="+*registry+" ", 1)
	}
	r := &release{name: "maestrohub", namespace: "maestrohub"}
	r.mustBeNew(t)
	t.Cleanup(func() { r.remove(t) })
	began := time.Now()
	o := newOperator(t, r)
	repository, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	if said := o.runs(t, "cd '"+repository+"'\n"+text); !regexp.MustCompile(`Phase:\s+Succeeded`).MatchString(said) {
		t.Errorf("`helm test` did not succeed:\n%s", said)
	}
	row(t, "README: helm install and helm test", "every command succeeds", time.Since(began))
}

// TestTheDrillOnKubernetes breaks the release by the drill, as its page says.
func TestTheDrillOnKubernetes(t *testing.T) {
	s := start(t)
	o := newOperator(t, s.release)
	all := pagesOf(t, "TestTheDrillOnKubernetes")
	if len(all) != 1 || len(all[0].Blocks) != 1 {
		t.Fatalf("%d pages, %d blocks, want one", len(all), len(all[0].Blocks))
	}
	b := s.service(t)
	id := fmt.Sprintf("admin-%d", time.Now().Unix())
	status, body := b.Do(t, "device", http.MethodPost, "/api/v1/api-clients", map[string]any{"id": id, "workspace": harness.Workspace,
		"scopes": []string{"api_clients:manage", "uns_settings:update", "uns:read"}})
	var made struct {
		Secret string `json:"secret"`
	}
	if err := json.Unmarshal(body, &made); err != nil || made.Secret == "" {
		t.Fatalf("making an API client answered %d: %s", status, body)
	}
	// Before the test's context ends, which it does before what t.Cleanup is given.
	defer func() { s.service(t).Do(t, "device", http.MethodDelete, "/api/v1/api-clients/"+id, nil) }()
	// A folder like the repository's, for the program and the report to lie in.
	repository, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	said := o.runs(t, "ln -s '"+repository+"'/{go.mod,go.sum,broker,tools,tests} .\nprintf %s '"+made.Secret+"' >admin.secret\n"+
		strings.Replace(all[0].Blocks[0].Text, "--client admin ", "--client "+id+" ", 1))
	t.Log(said)
	row(t, "the outage drill: kill, stop, nats-kill, upgrade", "every promise kept", time.Since(began))
}
