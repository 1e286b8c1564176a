package contract

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"

	"maestrohub.io/uns/tools/launch"
)

// clone is the chart as a clean clone has it, below a copy of .gitignore.
func clone(t *testing.T) (root, chart string) {
	t.Helper()
	root = t.TempDir()
	chart = filepath.Join(root, "chart")
	if err := os.CopyFS(chart, os.DirFS(folder)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, ".gitignore"), []byte(read(t, ".gitignore")), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, left := range glob(t, chart+"/charts/*.tgz") {
		if err := os.Remove(left); err != nil {
			t.Fatal(err)
		}
	}
	return root, chart
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// run runs a program in a folder and returns what it prints.
func run(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(program), strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// helm is the real one.
func helm(t *testing.T) string {
	t.Helper()
	program, err := launch.Build("tools/kubelab/helm", "helm.sh/helm/v3/cmd/helm", "helm")
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// helm dependency build works in a clean clone, changes nothing that git keeps, and does not change what is installed:
// the archive it makes of charts/nats is ignored by git and by Helm, which would read one of the two at random.
func TestBuildingTheDependenciesLeavesNoTrace(t *testing.T) {
	root, chart := clone(t)
	run(t, root, "git", "init", "--quiet")
	run(t, root, "git", "add", ".")
	run(t, root, helm(t), "dependency", "build", "chart")
	if made := glob(t, chart+"/charts/*.tgz"); len(made) != 1 {
		t.Fatalf("made %v, want the archive of charts/nats", made)
	}
	run(t, root, "git", "diff", "--exit-code")
	if dirty := run(t, root, "git", "ls-files", "--others", "--exclude-standard"); dirty != "" {
		t.Errorf("git sees %s", dirty)
	}
	c, err := loader.LoadDir(chart)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(c.Dependencies()); n != 1 {
		t.Errorf("%d charts are called nats", n)
	}
}

// A packaged chart carries what an installation needs, and no suites.
func TestThePackageHasNoTests(t *testing.T) {
	root, chart := clone(t)
	run(t, root, helm(t), "package", chart)
	packed, err := loader.LoadFile(glob(t, root+"/maestrohub-*.tgz")[0])
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range packed.Raw {
		names = append(names, f.Name)
		if strings.HasPrefix(f.Name, "tests/") || strings.Contains(f.Name, "charts/nats/tests/") {
			t.Errorf("the package carries %s", f.Name)
		}
	}
	for _, want := range []string{"templates/tests/try.yaml", "templates/NOTES.txt", "values.schema.json", "values-production.yaml", "files/alerts/uns-ingest.yaml", "README.md"} {
		if !slices.Contains(names, want) {
			t.Errorf("the package lacks %s", want)
		}
	}
	if len(glob(t, folder+"/tests/*_test.yaml")) == 0 {
		t.Error("the chart has no suites")
	}
}
