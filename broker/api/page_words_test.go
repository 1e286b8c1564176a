package api

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The page's links and words are held against what they speak of.
func TestThePageNamesOnlyRunbooksAndHeadingsThereAre(t *testing.T) {
	linked := regexp.MustCompile(`"([A-Za-z-]+\.md)(#[a-z-]+)?"`)
	headings := regexp.MustCompile(`(?m)^#+ (.*)$`)
	found := 0
	for _, name := range []string{"page/words.js", "page/figures.js"} {
		text, err := os.ReadFile(name)
		fatal(t, err)
		for _, m := range linked.FindAllStringSubmatch(string(text), -1) {
			found++
			page, err := os.ReadFile(filepath.Join("../../runbooks", m[1]))
			if err != nil {
				t.Errorf("%s leads to the runbook %s, which there is not", name, m[1])
				continue
			}
			there := m[2] == ""
			for _, h := range headings.FindAllStringSubmatch(string(page), -1) {
				there = there || "#"+anchor(h[1]) == m[2]
			}
			if !there {
				t.Errorf("%s leads to %s%s, and the page has no such heading", name, m[1], m[2])
			}
		}
	}
	if found < 8 {
		t.Errorf("%d links to runbooks found in the page: the pattern of this test has come apart from it", found)
	}
}

// anchor is how a heading is linked to.
func anchor(heading string) string {
	keep := regexp.MustCompile(`[^a-z0-9 -]`).ReplaceAllString(strings.ToLower(heading), "")
	return strings.ReplaceAll(keep, " ", "-")
}
