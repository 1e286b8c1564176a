package pages

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Page is one Markdown file.
type Page struct {
	Path     string // from the repository's root, with slashes
	Front    string // front matter, without its marks
	Text     string // all of it
	Headings []string
	Anchors  []string // of every heading, whatever its level; Headings are those of level 2
	Links    []string // where links outside of blocks lead
	Blocks   []Block
}

// Name is the file's name without its ending.
func (p Page) Name() string { return strings.TrimSuffix(filepath.Base(p.Path), ".md") }

// Block is one fenced block.
type Block struct {
	Page string // the page's path
	Line int    // of the opening fence
	Info string // what stands behind the fence: "sh look"
	Text string // without the indentation of a list's item
	// Sections are the headings above it, from the page's title on.
	Sections []string
	// Test is the name of the test that runs or checks it; "" if none does.
	Test string
	// Skip is why no test does; "" if one does.
	Skip string
}

// At says where the block stands.
func (b Block) At() string { return fmt.Sprintf("%s:%d", b.Page, b.Line) }

// Tests are those that a tag alone stands for. What a page does not say otherwise of a
// command, TestRunbookCommands runs on Kubernetes.
var Tests = map[string]string{
	"sh setup":       "TestRunbookCommands",
	"sh look":        "TestRunbookCommands",
	"sh change":      "TestRunbookCommands",
	"text healthy":   "TestRunbookCommands",
	"text unhealthy": "TestLogLinesThatAreQuotedExist",
	"log":            "TestLogLinesThatAreQuotedExist",
	"promql":         "TestEveryAlertHasAPageThatSaysWhatTheRuleSays",
}

var (
	fence   = regexp.MustCompile("^( *)```(.*)$")
	heading = regexp.MustCompile(`^(#+) (.+)$`)
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	runBy   = regexp.MustCompile(`^<!-- run by (\w+) -->$`)
)

// Read reads a page, named from the repository's root.
func Read(root, path string) (Page, error) {
	content, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		return Page{}, fmt.Errorf("read page: %w", err)
	}
	return parse(path, string(content))
}

// parse goes through the lines once.
func parse(path, text string) (Page, error) {
	p := Page{Path: path, Text: text}
	line := 0
	if rest, ok := strings.CutPrefix(text, "---\n"); ok {
		front, body, found := strings.Cut(rest, "\n---\n")
		if !found {
			return p, fmt.Errorf("%s: the front matter does not end", path)
		}
		p.Front, text = front, body
		line = strings.Count(front, "\n") + 3
	}
	var (
		open     *Block
		indent   string
		sections []string // by level
		marks    []string // the test that a comment names, by the level it stands on
	)
	at := func(levels []string, level int) []string {
		for len(levels) < level {
			levels = append(levels, "")
		}
		return levels[:level]
	}
	for content := range strings.SplitSeq(text, "\n") {
		line++
		m := fence.FindStringSubmatch(content)
		switch {
		case open != nil && m != nil && m[2] == "":
			p.Blocks = append(p.Blocks, *open)
			open = nil
		case open != nil:
			open.Text += strings.TrimPrefix(content, indent) + "\n"
		case m != nil:
			indent = m[1]
			open = &Block{Page: path, Line: line, Info: m[2], Sections: slices.DeleteFunc(slices.Clone(sections), func(s string) bool { return s == "" })}
			open.judge(marks)
		default:
			if h := heading.FindStringSubmatch(content); h != nil {
				level := len(h[1])
				sections = append(at(sections, level-1), h[2])
				marks = at(marks, min(len(marks), level-1))
				if level == 2 {
					p.Headings = append(p.Headings, h[2])
				}
				p.Anchors = append(p.Anchors, Anchor(h[2]))
			}
			if c := runBy.FindStringSubmatch(content); c != nil {
				marks = append(at(marks, max(len(sections)-1, 0)), c[1])
			}
			for _, l := range link.FindAllStringSubmatch(content, -1) {
				p.Links = append(p.Links, l[1])
			}
		}
	}
	if open != nil {
		return p, fmt.Errorf("%s: the block does not end", open.At())
	}
	return p, nil
}

// judge finds out who runs the block: the reason in its tag, a test that is always the
// tag's, the innermost comment above it, or the tag's test.
func (b *Block) judge(marks []string) {
	words := strings.Fields(b.Info)
	if len(words) > 0 {
		if reason, is := strings.CutPrefix(words[len(words)-1], "skip="); is {
			b.Skip = strings.ReplaceAll(reason, "-", " ")
			return
		}
	}
	b.Test = Tests[b.Info]
	if b.Test != "" && !strings.HasPrefix(b.Info, "sh ") {
		return
	}
	for _, test := range marks {
		if test != "" {
			b.Test = test
		}
	}
}

// Anchor is a heading's, as GitHub makes it.
func Anchor(heading string) string {
	s := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(heading), "")
	return strings.ReplaceAll(s, " ", "-")
}

// All are the repository's pages, those of others' packages left out.
func All(root string) (all []Page, err error) {
	skip := []string{".git", "bin", "dist", ".cache", "node_modules", "testdata"}
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains(skip, entry.Name()):
			return filepath.SkipDir
		case entry.IsDir() || filepath.Ext(path) != ".md":
			return nil
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		p, err := Read(root, filepath.ToSlash(rel))
		all = append(all, p)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read pages: %w", err)
	}
	return all, nil
}

// Of are the blocks that a test runs, page by page and in order. A page without any is
// left out.
func Of(root, test string) ([]Page, error) {
	all, err := All(root)
	if err != nil {
		return nil, err
	}
	var found []Page
	for _, p := range all {
		p.Blocks = slices.DeleteFunc(p.Blocks, func(b Block) bool { return b.Test != test })
		if len(p.Blocks) > 0 {
			found = append(found, p)
		}
	}
	return found, nil
}

// Blocks are the blocks of all pages that a test runs, which knows of so many.
func Blocks(t testing.TB, root, test string, want int) (all []Block) {
	t.Helper()
	found, err := Of(root, test)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range found {
		all = append(all, p.Blocks...)
	}
	if len(all) != want {
		t.Fatalf("pages have %d blocks that %s runs, want %d", len(all), test, want)
	}
	return all
}
