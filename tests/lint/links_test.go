package lint_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	pageLink    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	pageHeading = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *$`)
	pageFence   = regexp.MustCompile("(?ms)^ *```.*?^ *```")
)

// Every relative link of every page leads to a file that is there, and to a heading it has.
func TestLinksOfPagesLeadSomewhere(t *testing.T) {
	out, err := exec.Command("git", "-C", "../..", "ls-files", "--cached", "--others", "--exclude-standard", "*.md").Output()
	if err != nil {
		t.Fatal(err)
	}
	links := 0
	for _, name := range strings.Fields(string(out)) {
		text, err := os.ReadFile(filepath.Join("../..", name))
		if os.IsNotExist(err) {
			continue // deleted and not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range pageLink.FindAllStringSubmatch(pageFence.ReplaceAllString(string(text), ""), -1) {
			target, heading, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			links++
			file := filepath.Join("../..", name)
			if target != "" {
				file = filepath.Join("../..", filepath.Dir(name), target)
			}
			info, err := os.Stat(file)
			if err != nil {
				t.Errorf("%s links to %s, which is not there", name, m[1])
				continue
			}
			if heading == "" || info.IsDir() || filepath.Ext(file) != ".md" {
				continue
			}
			page, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			found := false
			for _, h := range pageHeading.FindAllStringSubmatch(pageFence.ReplaceAllString(string(page), ""), -1) {
				found = found || anchor(h[1]) == heading
			}
			if !found {
				t.Errorf("%s links to %s, and there is no such heading", name, m[1])
			}
		}
	}
	if links < 50 {
		t.Errorf("only %d links found", links)
	}
}

// anchor is how a heading is linked to: lower case, spaces as hyphens, other marks left out.
func anchor(heading string) string {
	heading = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(heading, "$1")
	kept := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(heading), "")
	return strings.ReplaceAll(kept, " ", "-")
}
