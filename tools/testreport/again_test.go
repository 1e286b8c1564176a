package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestATestThatPassesTheSecondTimeIsListedAsUnsteady(t *testing.T) {
	failing := func(name, output string) []string {
		return []string{
			`{"Action":"run","Package":"p","Test":"` + name + `"}`,
			`{"Action":"output","Package":"p","Test":"` + name + `","Output":"` + output + `\n"}`,
			`{"Action":"fail","Package":"p","Test":"` + name + `"}`,
		}
	}
	passes := []string{`{"Action":"pass","Package":"p","Test":"TestA"}`, `{"Action":"pass","Package":"p"}`}
	var many [][]string
	for i := range mostAgain + 1 {
		many = append(many, failing(fmt.Sprintf("Test%d", i), "late"))
	}
	for name, c := range map[string]struct {
		first  [][]string
		second []string
		runs   int
		want   string
	}{
		"passes":              {[][]string{failing("TestA", "late")}, passes, 1, "1 passed, 0 failed, 0 skipped"},
		"two of one test":     {[][]string{failing("TestA/x", "late"), failing("TestA/y", "late")}, passes, 1, "2 passed, 0 failed, 0 skipped"},
		"fails again":         {[][]string{failing("TestA", "late")}, slices.Concat(failing("TestA", "late"), []string{`{"Action":"fail","Package":"p"}`}), 1, "0 passed, 1 failed, 0 skipped"},
		"does not run":        {[][]string{failing("TestA", "late")}, []string{`{"Action":"pass","Package":"p"}`}, 1, "0 passed, 1 failed, 0 skipped"},
		"a data race":         {[][]string{failing("TestA", "WARNING: DATA RACE")}, passes, 0, "0 passed, 1 failed, 0 skipped"},
		"a panic":             {[][]string{failing("TestA", "panic: nil map")}, passes, 0, "0 passed, 1 failed, 0 skipped"},
		"a package, not test": {nil, passes, 0, "0 passed, 1 failed, 0 skipped"},
		"more than a few":     {many, passes, 0, fmt.Sprintf("0 passed, %d failed, 0 skipped", mostAgain+1)},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			r := newReport(&out)
			lines := append(slices.Concat(c.first...), `{"Action":"fail","Package":"p"}`)
			if err := r.read(strings.NewReader(strings.Join(lines, "\n"))); err != nil {
				t.Fatal(err)
			}
			runs := 0
			r.again(func(string, string) *report {
				runs++
				second := newReport(&strings.Builder{})
				if err := second.read(strings.NewReader(strings.Join(c.second, "\n"))); err != nil {
					t.Fatal(err)
				}
				return second
			})
			r.summarize()
			if got := lastLine(out.String()); got != c.want || runs != c.runs {
				t.Errorf("%d runs, %q; want %d, %q", runs, got, c.runs, c.want)
			}
			if listed := strings.Contains(out.String(), "failed at first"); listed != strings.Contains(c.want, " 0 failed") {
				t.Errorf("listed as unsteady: %v\n%s", listed, out.String())
			}
		})
	}
}

// The whole way: a test that fails only the first time it runs.
func TestAgainRunsTheFailedTestAlone(t *testing.T) {
	t.Setenv("TESTREPORT_TOTAL", "") // these are not runs to add up
	dir := t.TempDir()
	files := map[string]string{
		"go.mod": "module maestrohub.io/example\n\ngo 1.26\n",
		"a_test.go": `package a
import ("os"; "testing")
func TestA(t *testing.T) {
	if err := os.Mkdir("ran", 0o755); err == nil { t.Fatal("the first time") }
}
func TestB(t *testing.T) {
	if err := os.Mkdir("b", 0o755); err != nil { t.Fatal("a second time") }
}
`}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	if code := run([]string{"-again", "-timeout", "2m", "./..."}); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if err := os.RemoveAll("ran"); err != nil {
		t.Fatal(err)
	}
	if code := run([]string{"-timeout", "2m", "./..."}); code != 1 {
		t.Errorf("exit code %d without -again", code)
	}
}

func TestAloneKeepsTheFlags(t *testing.T) {
	got := alone([]string{"-race", "-timeout", "14m", "./...", "maestrohub.io/uns/broker", "-args", "-registry", "./x"}, "maestrohub.io/uns/broker", "TestA")
	want := []string{"-race", "-timeout", "14m", "-count=1", "-run", "^TestA$", "maestrohub.io/uns/broker", "-args", "-registry", "./x"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
