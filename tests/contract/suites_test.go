package contract

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"maestrohub.io/uns/tools/launch"
)

// suite is a file of helm-unittest, as far as this package reads it.
type suite struct {
	Suite string
	Tests []struct {
		It      string
		Asserts []struct {
			FailedTemplate struct {
				ErrorMessage string `yaml:"errorMessage"`
			} `yaml:"failedTemplate"`
		}
	}
}

// suites are those of chart/tests: given these values, this text or this field.
func suites(t *testing.T) (all []suite) {
	t.Helper()
	for _, file := range glob(t, folder+"/tests/*_test.yaml") {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var s suite
		if err := yaml.Unmarshal(data, &s); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, s)
	}
	if len(all) == 0 {
		t.Fatal("no suites")
	}
	return all
}

func TestTheChartsSuites(t *testing.T) {
	program, err := launch.Build("tools/unittest", "github.com/helm-unittest/helm-unittest/cmd/helm-unittest", "helm-unittest")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), program, "--strict", folder).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	written := 0
	for _, s := range suites(t) {
		written += len(s.Tests)
	}
	ran := regexp.MustCompile(`(?m)^Tests: +(?:\d+ failed, )?.*?(\d+) total`).FindSubmatch(out)
	if ran == nil || string(ran[1]) != strconv.Itoa(written) {
		t.Errorf("%d cases are written, helm-unittest says\n%s", written, out)
	}
	t.Logf("%d cases", written)
}

// A guard that no case provokes may never work.
func TestEveryGuardHasACase(t *testing.T) {
	var refusals []string
	for _, s := range suites(t) {
		for _, test := range s.Tests {
			for _, a := range test.Asserts {
				if m := a.FailedTemplate.ErrorMessage; m != "" {
					refusals = append(refusals, m)
				}
			}
		}
	}
	// A guard is told by its key and by how its text goes on, as far as they stand in the template.
	guard := regexp.MustCompile(`"maestrohub\.refuse" \(dict "key" (?:\(printf )?"([^"]+)".*?"want" (?:\(printf )?"([^"%]*)|fail (?:\(printf )?"ERROR: ([^"%]*)`)
	found := 0
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.Contains(path, "/templates/") || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range guard.FindAllStringSubmatch(string(text), -1) {
			found++
			begins, _, _ := strings.Cut(m[1]+m[3], "%")
			has := begins == "" // maestrohub.refuse itself
			for _, r := range refusals {
				has = has || strings.HasPrefix(r, "ERROR: "+begins) && strings.Contains(r, m[2])
			}
			if !has {
				t.Errorf("%s: the guard of %s (%s) is tried by no case of chart/tests", path, begins, m[2])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 40 {
		t.Errorf("found %d guards: is the pattern right?", found)
	}
}
