package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// CI counts the tests on Kubernetes as skipped on a machine that can run no nodes, and
// as failed where the lab does not come up for another reason. Everything that it
// starts is a stand-in here.
func TestCITellsAMachineThatCannotFromALabThatBroke(t *testing.T) {
	script, err := filepath.Abs("../../.ci/run")
	if err != nil {
		t.Fatal(err)
	}
	for kubelab, want := range map[string]struct {
		code int
		e2e  bool
		last string
	}{
		"true":                     {0, true, "30 passed, 0 failed, 0 skipped"},
		"[ $1 != up ] || exit 3":   {0, false, "20 passed, 0 failed, 1 skipped"},
		"[ $1 != up ] || exit 1":   {1, false, "20 passed, 1 failed, 0 skipped"},
		"[ $1 != down ] || exit 1": {1, true, "30 passed, 1 failed, 0 skipped"},
	} {
		dir := t.TempDir()
		for path, text := range map[string]string{
			"tools/setup/install": "", "path/go": "",
			"path/make":                       `echo "make $1"; echo "0 0 $(($(cut -d' ' -f1 "$TESTREPORT_TOTAL" 2>/dev/null || echo 0) + 10))" | awk '{ print $3 " passed, 0 failed, 0 skipped" }' >"$TESTREPORT_TOTAL.new"; mv "$TESTREPORT_TOTAL.new" "$TESTREPORT_TOTAL"; cat "$TESTREPORT_TOTAL"`,
			".cache/kubelab/programs/kubelab": "echo 'kubelab: why not' >&2; " + kubelab,
		} {
			path = filepath.Join(dir, path)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		content, err := os.ReadFile(script)
		if err == nil {
			err = os.Mkdir(filepath.Join(dir, ".ci"), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, ".ci/run"), content, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, ".ci/run"))
		cmd.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "path")+":"+os.Getenv("PATH"))
		out, _ := cmd.CombinedOutput()
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		if cmd.ProcessState.ExitCode() != want.code || lines[len(lines)-1] != want.last ||
			strings.Contains(string(out), "make e2e\n") != want.e2e || strings.Contains(string(out), "why not") != (want.code != 0 || !want.e2e) {
			t.Errorf("where kubelab does %q: want exit code %d, %q, e2e %v; it ended with %d and printed\n%s", kubelab, want.code, want.last, want.e2e, cmd.ProcessState.ExitCode(), out)
		}
	}
}
