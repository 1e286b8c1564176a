package lint_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// maxLines is where a file is more than one idea for certain.
const maxLines = 800

func TestFilesAreOneIdea(t *testing.T) {
	for _, path := range walk(t) {
		if !strings.HasSuffix(path, ".go") {
			continue
		}
		if lines := bytes.Count(read(t, path), []byte("\n")); lines > maxLines {
			t.Errorf("%s has %d lines, the most is %d: it is more than one idea", path, lines, maxLines)
		}
	}
}

// written are the endings of files people write, as against fixtures and locks.
var written = []string{".go", ".md", ".yaml", ".yml", ".sh", ".mjs", ".py", ".c", ".html", ".json", "", ".mod", ".txt"}

func TestTheRepositorySpeaksOfTheProductAlone(t *testing.T) {
	rules := map[string]*regexp.Regexp{
		"a path of somebody's machine": regexp.MustCompile(`(^|[^A-Za-z0-9._/-])/(` + `root|work|home/[a-z]+|Users/[A-Za-z]+)/`),
		"a note to oneself":            regexp.MustCompile(`\b(` + `TO` + `DO|FIX` + `ME|X` + `XX)\b`),
	}
	for _, path := range walk(t) {
		if !slices.Contains(written, filepath.Ext(path)) || strings.Contains(path, "testdata/fuzz/") {
			continue
		}
		content := read(t, path)
		if bytes.IndexByte(content, 0) >= 0 {
			continue // not text
		}
		for n, line := range bytes.Split(content, []byte("\n")) {
			for what, rule := range rules {
				if rule.Match(line) {
					t.Errorf("%s:%d holds %s: %s", path, n+1, what, line)
				}
			}
		}
	}
}

// TestLockFilesNameNoServer: packages come from whatever registry a machine uses;
// the integrity hash says that they are the right ones.
func TestLockFilesNameNoServer(t *testing.T) {
	for _, path := range walk(t) {
		if filepath.Base(path) != "package-lock.json" {
			continue
		}
		content := read(t, path)
		if bytes.Contains(content, []byte(`"resolved"`)) {
			t.Errorf("%s names download addresses: npm writes none with omit-lockfile-registry-resolved", path)
		}
		if !bytes.Contains(content, []byte(`"integrity"`)) {
			t.Errorf("%s has no integrity hashes", path)
		}
	}
}

func TestScriptsStopAtTheFirstError(t *testing.T) {
	for _, path := range walk(t) {
		content := read(t, path)
		if bytes.HasPrefix(content, []byte("#!")) && bytes.Contains(bytes.SplitN(content, []byte("\n"), 2)[0], []byte("bash")) &&
			!bytes.Contains(content, []byte("\nset -euo pipefail\n")) {
			t.Errorf("%s does not `set -euo pipefail`", path)
		}
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return content
}
