package runbooks_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const root = "../.."

// block is a fenced block of a page.
type block struct {
	page string
	line int
	tag  string // "sh look"
	text string
}

// page is a runbook as a test sees it.
type page struct {
	name     string // file name without .md
	front    map[string]any
	headings []string // "## …"
	anchors  []string // of every heading
	blocks   []block
	links    []string
	text     string
}

var (
	fence   = regexp.MustCompile("^```(.*)$")
	heading = regexp.MustCompile(`^(#+) (.+)$`)
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
)

func read(t *testing.T, path string) page {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	p := page{name: strings.TrimSuffix(filepath.Base(path), ".md"), text: string(content)}
	text := p.text
	skipped := 0
	if rest, ok := strings.CutPrefix(text, "---\n"); ok {
		front, body, found := strings.Cut(rest, "\n---\n")
		if !found {
			t.Fatalf("%s: the front matter does not end", path)
		}
		if err := yaml.Unmarshal([]byte(front), &p.front); err != nil {
			t.Fatalf("%s: front matter: %v", path, err)
		}
		skipped, text = strings.Count(front, "\n")+3, body
	}
	var in *block
	for n, line := range strings.Split(text, "\n") {
		m := fence.FindStringSubmatch(line)
		switch {
		case in != nil && m != nil:
			p.blocks, in = append(p.blocks, *in), nil
		case in != nil:
			in.text += line + "\n"
		case m != nil:
			in = &block{page: p.name, line: n + 1 + skipped, tag: m[1]}
		default:
			if h := heading.FindStringSubmatch(line); h != nil {
				if h[1] == "##" {
					p.headings = append(p.headings, h[2])
				}
				p.anchors = append(p.anchors, anchor(h[2]))
			}
			for _, l := range link.FindAllStringSubmatch(line, -1) {
				p.links = append(p.links, l[1])
			}
		}
	}
	if in != nil {
		t.Errorf("%s: the block at line %d does not end", path, in.line)
	}
	return p
}

// anchor is a heading's, as GitHub makes it.
func anchor(heading string) string {
	s := strings.ToLower(heading)
	s = regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(s, "")
	return strings.ReplaceAll(s, " ", "-")
}

// rule is an alert as its file has it.
type rule struct {
	Alert, Expr, For string
	Labels           map[string]string
	group            string
}

func rules(t *testing.T) map[string]rule {
	t.Helper()
	files, err := filepath.Glob(root + "/alerts/rules/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no rules: %v", err)
	}
	all := make(map[string]rule)
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var groups struct {
			Groups []struct {
				Name  string
				Rules []rule
			}
		}
		if err := yaml.Unmarshal(content, &groups); err != nil {
			t.Fatal(err)
		}
		for _, g := range groups.Groups {
			for _, r := range g.Rules {
				r.group = g.Name
				all[r.Alert] = r
			}
		}
	}
	return all
}

// sections of every page of an alert, in order.
var sections = []string{"In one breath", "What devices and people see", "Is it real?", "Decide", "Stop the harm",
	"Find the cause", "Verify", "Do not", "Escalate", "Afterwards"}

func pages(t *testing.T, pattern string) []page {
	t.Helper()
	files, err := filepath.Glob(root + "/runbooks/" + pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no pages %s: %v", pattern, err)
	}
	var all []page
	for _, f := range files {
		all = append(all, read(t, f))
	}
	return all
}

func TestEveryAlertHasAPageThatSaysWhatTheRuleSays(t *testing.T) {
	alerts := rules(t)
	index := read(t, root+"/runbooks/README.md")
	seen := map[string]bool{}
	for _, p := range pages(t, "MaestroHub*.md") {
		r, ok := alerts[p.name]
		if !ok {
			t.Errorf("runbooks/%s.md is the page of no alert", p.name)
			continue
		}
		seen[p.name] = true
		for key, want := range map[string]string{"alert": r.Alert, "severity": r.Labels["severity"], "for": r.For, "group": r.group} {
			if got := p.front[key]; got != want {
				t.Errorf("%s: %s: %v in the front matter, the rule has %s", p.name, key, got, want)
			}
		}
		for _, key := range []string{"first-response", "owner", "dashboard", "related", "values"} {
			if _, ok := p.front[key]; !ok {
				t.Errorf("%s: no %s in the front matter", p.name, key)
			}
		}
		if related, ok := p.front["related"].([]any); ok {
			for _, name := range related {
				if _, ok := alerts[name.(string)]; !ok {
					t.Errorf("%s: related alert %v is none", p.name, name)
				}
			}
		}
		if _, err := os.Stat(filepath.Join(root, p.front["dashboard"].(string))); err != nil {
			t.Errorf("%s: %v", p.name, err)
		}
		if !slices.Equal(p.headings, sections) {
			t.Errorf("%s has the sections %q, want %q", p.name, p.headings, sections)
		}
		expr := ""
		tags := map[string]int{}
		for _, b := range p.blocks {
			tags[b.tag]++
			if b.tag == "promql" {
				expr = b.text
			}
		}
		if strings.TrimSpace(expr) != strings.TrimSpace(r.Expr) {
			t.Errorf("%s: the expression is\n%s\nthe rule's\n%s", p.name, expr, r.Expr)
		}
		if words := "It is a " + r.Labels["severity"] + " that fires after `" + r.For + "` of"; !strings.Contains(p.text, words) {
			t.Errorf("%s does not say %q", p.name, words)
		}
		for _, tag := range []string{"sh look", "text healthy", "text unhealthy"} {
			if tags[tag] == 0 {
				t.Errorf("%s has no block %q", p.name, tag)
			}
		}
		row := "| [" + p.name + "](" + p.name + ".md) | " + r.Labels["severity"] + " | " + r.group + " |"
		if !strings.Contains(index.text, row) {
			t.Errorf("runbooks/README.md misses the row %s", row)
		}
	}
	for name := range alerts {
		if !seen[name] {
			t.Errorf("%s has no page", name)
		}
	}
}

func TestLinksLeadSomewhere(t *testing.T) {
	for _, p := range pages(t, "*.md") {
		for _, l := range p.links {
			if strings.Contains(l, "://") {
				continue
			}
			file, fragment, _ := strings.Cut(l, "#")
			target := p
			if file != "" {
				path := root + "/runbooks/" + file
				if _, err := os.Stat(path); err != nil {
					t.Errorf("%s: %v", p.name, err)
					continue
				}
				if strings.HasSuffix(file, ".md") {
					target = read(t, path)
				}
			}
			if fragment != "" && !slices.Contains(target.anchors, fragment) {
				t.Errorf("%s: %s has no heading #%s, only %q", p.name, target.name, fragment, target.anchors)
			}
		}
	}
}

// Our pages' values are those of the chart.
func TestValuesThatAreNamedExist(t *testing.T) {
	content, err := os.ReadFile(root + "/chart/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(content, &values); err != nil {
		t.Fatal(err)
	}
	if content, err = os.ReadFile(root + "/chart/charts/nats/values.yaml"); err != nil {
		t.Fatal(err)
	}
	var nats map[string]any
	if err := yaml.Unmarshal(content, &nats); err != nil {
		t.Fatal(err)
	}
	exists := func(path string) bool {
		at := any(values)
		keys := strings.Split(path, ".")
		if keys[0] == "nats" {
			at, keys = any(nats), keys[1:]
		}
		for _, k := range keys {
			m, ok := at.(map[string]any)
			if !ok {
				return false
			}
			if at, ok = m[k]; !ok {
				return len(m) == 0 // a map of the user's
			}
		}
		return true
	}
	named := regexp.MustCompile("`((?:uns|storage|nats|global|networkPolicy|backup)\\.[A-Za-z.]+[A-Za-z])(?:: [^`]*)?`|--set ([A-Za-z.]+)=")
	for _, p := range pages(t, "*.md") {
		var paths []string
		for _, m := range named.FindAllStringSubmatch(p.text, -1) {
			paths = append(paths, m[1]+m[2])
		}
		if listed, ok := p.front["values"].([]any); ok {
			for _, v := range listed {
				paths = append(paths, v.(string))
			}
		}
		for _, path := range paths {
			if !exists(path) {
				t.Errorf("%s: the chart has no value %s", p.name, path)
			}
		}
	}
}
