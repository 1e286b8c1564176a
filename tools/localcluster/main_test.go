package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"maestrohub.io/uns/tests/harness"
	"maestrohub.io/uns/tests/runbooks/pages"
	"maestrohub.io/uns/tools/launch"
)

// What the commands do to a cluster is tested with one, in tests/cluster.

func TestBadInputIsNamed(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, c := range []struct {
		words []string
		want  string
	}{
		{[]string{"status"}, "no local cluster listens on none: start one with `make cluster`"},
		{[]string{"check"}, "no local cluster listens on none: start one with `make cluster`"},
		{[]string{"check", "--for", "-1s"}, "--for -1s: not less than 0"},
		{[]string{"kill"}, "usage: localcluster kill <part>; `localcluster status` names the parts"},
		{[]string{"slow", "nats"}, "usage: localcluster slow <way> <duration>"},
		{[]string{"up", "--replicas", "many"}, "`localcluster up --help` lists what there is"},
		{[]string{"explode"}, `unknown command "explode"`},
		{[]string{"up", "--replicas", "0"}, "--replicas 0: at least 1"},
		{[]string{"up", "--replicas", "-1"}, "--replicas -1: at least 1"},
		{[]string{"up", "--socket", strings.Repeat("x", 108)}, "108 bytes; the path of a Unix socket may have 107"},
		{[]string{"up", "--socket", "no/folder"}, "listen for commands: listen unix no/folder"},
	} {
		root := command(t.Context())
		root.SetArgs(append([]string{"--socket", "none"}, c.words...))
		if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("localcluster %s: %v, want %q", strings.Join(c.words, " "), err, c.want)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("it leaves %v, %v", left, err)
	}
}

// Ctrl-C is how a check is ended: it does not hide what it has found.
func TestAnInterruptHidesNoVerdict(t *testing.T) {
	for _, c := range []struct {
		err         error
		interrupted bool
		text        string
		status      int
	}{
		{nil, true, "", 0},
		{errLost, true, errLost.Error(), 1},
		{errors.Join(errLost, context.Canceled), true, errLost.Error() + "\n" + context.Canceled.Error(), 1},
		{context.Canceled, true, "interrupted", 130},
		{io.ErrUnexpectedEOF, false, io.ErrUnexpectedEOF.Error(), 1},
	} {
		if text, status := ending(c.err, c.interrupted); text != c.text || status != c.status {
			t.Errorf("%v, interrupted %v: %q and %d, want %q and %d", c.err, c.interrupted, text, status, c.text, c.status)
		}
	}
}

// Ctrl-C while it starts: nothing is left of what it had started by then.
func TestAStartThatIsInterruptedLeavesNothing(t *testing.T) {
	program, err := launch.Build("", "./tools/localcluster", "localcluster")
	if err != nil {
		t.Fatal(err)
	}
	for _, late := range []bool{false, true} { // at once, or once a part of it runs
		dir, err := os.MkdirTemp("", "lc") // t.TempDir is too long for a socket's name
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		if err := os.Chmod(dir, 0o711); err != nil { // for PostgreSQL, which is another user if we are root
			t.Fatal(err)
		}
		p := harness.Program(t, launch.Spec{Name: "localcluster up", Path: program, Args: []string{"up", "--binary", harness.Binary(t)}, Env: []string{"TMPDIR=" + dir}})
		harness.WaitFor(t, p, "starting three")
		if late {
			harness.Eventually(t, "a part of it runs", func() (bool, string) { return len(inside(t, dir)) > 0, "" })
		}
		if err := p.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
		defer cancel()
		if err := p.Wait(ctx); err == nil || !strings.Contains(err.Error(), "exit status 130") || !strings.HasSuffix(strings.TrimSpace(p.Output()), "localcluster: interrupted") {
			t.Errorf("interrupted, it ends with %v:\n%s", err, p.Output())
		}
		harness.Eventually(t, "no process of it is left", func() (bool, string) { all := inside(t, dir); return len(all) == 0, strings.Join(all, "\n") })
		left, _ := filepath.Glob(filepath.Join(dir, "*")) // the pattern is well-formed
		for _, path := range left {
			if filepath.Base(path) != "loopback-ports" { // who has which port, for all of TMPDIR
				t.Errorf("it leaves %s", path)
			}
		}
	}
}

// The helpers of the runbooks, whose blocks are written for Kubernetes, ask a local cluster
// after the block that says so.
func TestTheHelpersOfTheRunbooksAskALocalCluster(t *testing.T) {
	root, err := launch.Root()
	if err != nil {
		t.Fatal(err)
	}
	program, err := launch.Build("", "./tools/localcluster", "localcluster")
	if err != nil {
		t.Fatal(err)
	}
	helpers, err := pages.Of(root, "TestTheHelpersOfTheRunbooksAskALocalCluster")
	if err != nil {
		t.Fatal(err)
	}
	setup := ""
	all, err := pages.All(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		for _, b := range p.Blocks {
			if b.Info == "sh setup" && strings.HasSuffix(b.Page, "runbooks/README.md") {
				setup = b.Text
			}
		}
	}
	if len(helpers) != 1 || len(helpers[0].Blocks) != 1 || setup == "" {
		t.Fatalf("the helpers are %v, the setup block %q", helpers, setup)
	}
	dir, err := os.MkdirTemp("", "lc") // t.TempDir is too long for a socket's name
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil { // for PostgreSQL, which is another user if we are root
		t.Fatal(err)
	}
	environment := []string{"TMPDIR=" + dir}
	p := harness.Program(t, launch.Spec{Name: "localcluster up", Path: program, Args: []string{"up", "--binary", harness.Binary(t)}, Env: environment})
	up, cancel := context.WithTimeout(t.Context(), startBound)
	defer cancel()
	if _, err := p.WaitFor(up, regexp.MustCompile("Break it")); err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]string{
		"pods":                           "^uns-0\nuns-1\n$",
		"nats_pods":                      "^nats-0\nnats-1\nnats-2\n$",
		"uns uns-1 /health/ready":        `"status":"ready"`,
		"nats_http nats-2 /healthz":      `"status":"ok"`,
		"metrics maestrohub_uns_broker_": `uns-0 maestrohub_uns_broker_(?s:.*)uns-1 maestrohub_uns_broker_`,
		"logs 'broker cluster: joined'":  `uns-0 broker cluster: joined(?s:.*)uns-1 broker cluster: joined`,
	} {
		c := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", setup+helpers[0].Blocks[0].Text+command)
		c.Dir, c.Env = root, append(os.Environ(), environment...)
		if out, err := c.CombinedOutput(); err != nil || !regexp.MustCompile(want).Match(out) {
			t.Errorf("%s: %v, want %s:\n%s", command, err, want, out)
		}
	}
	if err := p.Stop(harness.Patience); err != nil {
		t.Errorf("it ends by SIGTERM: %v", err)
	}
}

// inside are the command lines of processes that name a folder.
func inside(t *testing.T, dir string) (all []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		line, _ := os.ReadFile(file) // it may have ended meanwhile
		if words := strings.ReplaceAll(string(line), "\x00", " "); strings.Contains(words, dir) {
			all = append(all, words)
		}
	}
	return all
}
