package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// outcome feeds lines of go test -json to a report and returns what it printed.
func outcome(t *testing.T, lines ...string) (printed string, r *report) {
	t.Helper()
	var out strings.Builder
	r = newReport(&out)
	if err := r.read(strings.NewReader(strings.Join(lines, "\n"))); err != nil {
		t.Fatal(err)
	}
	r.finish()
	return out.String(), r
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return lines[len(lines)-1]
}

func TestTheLastLineCountsEachPromiseOnce(t *testing.T) {
	cases := map[string]struct {
		lines []string
		want  string
	}{
		"plain tests": {[]string{
			`{"Action":"run","Package":"p","Test":"TestA"}`,
			`{"Action":"pass","Package":"p","Test":"TestA"}`,
			`{"Action":"skip","Package":"p","Test":"TestB"}`,
			`{"Action":"pass","Package":"p","Elapsed":1}`,
		}, "1 passed, 0 failed, 1 skipped"},
		"a parent counts by its subtests": {[]string{
			`{"Action":"run","Package":"p","Test":"TestA"}`,
			`{"Action":"pass","Package":"p","Test":"TestA/x"}`,
			`{"Action":"fail","Package":"p","Test":"TestA/y"}`,
			`{"Action":"fail","Package":"p","Test":"TestA"}`,
			`{"Action":"fail","Package":"p"}`,
		}, "1 passed, 1 failed, 0 skipped"},
		"a parent that fails on its own": {[]string{
			`{"Action":"pass","Package":"p","Test":"TestA/x"}`,
			`{"Action":"fail","Package":"p","Test":"TestA"}`,
			`{"Action":"fail","Package":"p"}`,
		}, "1 passed, 1 failed, 0 skipped"},
		"a subtest with a slash in its name has no parent of its own": {[]string{
			`{"Action":"run","Package":"p","Test":"TestA"}`,
			`{"Action":"run","Package":"p","Test":"TestA/x/1"}`,
			`{"Action":"pass","Package":"p","Test":"TestA/x/1"}`,
			`{"Action":"pass","Package":"p","Test":"TestA"}`,
			`{"Action":"pass","Package":"p"}`,
		}, "1 passed, 0 failed, 0 skipped"},
		"a test the binary died under": {[]string{
			`{"Action":"run","Package":"p","Test":"TestA"}`,
			`{"Action":"fail","Package":"p"}`,
		}, "0 passed, 1 failed, 0 skipped"},
		"a package that fails outside its tests": {[]string{
			`{"Action":"pass","Package":"p","Test":"TestA"}`,
			`{"Action":"fail","Package":"p"}`,
		}, "1 passed, 1 failed, 0 skipped"},
		"a package that never ends": {[]string{
			`{"Action":"pass","Package":"p","Test":"TestA"}`,
		}, "1 passed, 1 failed, 0 skipped"},
		"a package without tests": {[]string{
			`{"Action":"skip","Package":"p"}`,
		}, "0 passed, 0 failed, 0 skipped"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			printed, r := outcome(t, c.lines...)
			if got := lastLine(printed); got != c.want {
				t.Errorf("last line %q, want %q\n%s", got, c.want, printed)
			}
			if failed := !strings.Contains(c.want, " 0 failed"); failed != (r.failed() > 0) {
				t.Errorf("failed() = %d under %q", r.failed(), c.want)
			}
		})
	}
}

func TestTheLastLineAddsUpSeveralRuns(t *testing.T) {
	file := filepath.Join(t.TempDir(), "total")
	for i, c := range []struct {
		result, want string
	}{{"pass", "1 passed, 0 failed, 0 skipped"}, {"fail", "1 passed, 1 failed, 0 skipped"}, {"pass", "2 passed, 1 failed, 0 skipped"}} {
		var out strings.Builder
		r := newReport(&out)
		r.total = file
		if err := r.read(strings.NewReader(`{"Action":"` + c.result + `","Package":"p","Test":"TestA"}` + "\n" + `{"Action":"` + c.result + `","Package":"p"}`)); err != nil {
			t.Fatal(err)
		}
		r.finish()
		if got := lastLine(out.String()); got != c.want || (r.failed() > 0) != (c.result == "fail") {
			t.Errorf("run %d: last line %q, want %q; %d failed", i, got, c.want, r.failed())
		}
	}
	if err := os.WriteFile(file, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	r := newReport(&out)
	r.total = file
	r.finish()
	if r.failed() != 1 || !strings.Contains(out.String(), `"nonsense"`) {
		t.Errorf("a damaged sum was taken: %s", out.String())
	}
}

func TestAFailureIsPrintedWithItsOutput(t *testing.T) {
	printed, _ := outcome(t,
		`{"Action":"output","Package":"p","Test":"TestA","Output":"want 1, got 2\n"}`,
		`{"Action":"fail","Package":"p","Test":"TestA"}`,
		`{"Action":"fail","Package":"p"}`)
	if !strings.Contains(printed, "--- FAIL: p TestA\nwant 1, got 2") {
		t.Errorf("printed\n%s", printed)
	}
}

func TestABuildFailureCountsAndShowsTheCompiler(t *testing.T) {
	printed, _ := outcome(t,
		`{"ImportPath":"p [p.test]","Action":"build-output","Output":"p/x.go:3: undefined: y\n"}`,
		`{"ImportPath":"p [p.test]","Action":"build-fail"}`,
		`{"Action":"start","Package":"p"}`,
		`{"Action":"output","Package":"p","Output":"FAIL p [build failed]\n"}`,
		`{"Action":"fail","Package":"p","FailedBuild":"p [p.test]"}`)
	if !strings.Contains(printed, "undefined: y") || lastLine(printed) != "0 passed, 1 failed, 0 skipped" {
		t.Errorf("printed\n%s", printed)
	}
}

func TestAnUnknownFlagIsAFailure(t *testing.T) {
	t.Setenv("TESTREPORT_TOTAL", "") // these are not runs to add up
	if code := run([]string{"-no-such-flag"}); code != 1 {
		t.Errorf("exit code %d of a run that could not start, want 1", code)
	}
}

func TestARowOfATableIsPrintedThoughItsTestPasses(t *testing.T) {
	printed, _ := outcome(t,
		`{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:12: | pod killed | 2 s | 1.4s |\n"}`,
		`{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:13: seed 7\n"}`,
		`{"Action":"pass","Package":"p","Test":"TestA"}`,
		`{"Action":"pass","Package":"p"}`)
	if !strings.Contains(printed, "\n| pod killed | 2 s | 1.4s |\n") && !strings.HasPrefix(printed, "| pod killed | 2 s | 1.4s |\n") {
		t.Errorf("the row is missing:\n%s", printed)
	}
	if strings.Contains(printed, "seed") {
		t.Errorf("more than the row of a test that passed is printed:\n%s", printed)
	}
}
