package runbooks_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"maestrohub.io/uns/tests/runbooks/pages"
)

const root = "../.."

// page is a runbook as a test sees it.
type page struct {
	pages.Page
	front map[string]any
}

// read reads a page, named from the repository's root.
func read(t *testing.T, path string) page {
	t.Helper()
	p, err := pages.Read(root, path)
	if err != nil {
		t.Fatal(err)
	}
	whole := page{Page: p}
	if err := yaml.Unmarshal([]byte(p.Front), &whole.front); err != nil {
		t.Fatalf("%s: front matter: %v", path, err)
	}
	return whole
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

// runbooks are the pages whose names match.
func runbooks(t *testing.T, pattern string) []page {
	t.Helper()
	files, err := filepath.Glob(root + "/runbooks/" + pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no pages %s: %v", pattern, err)
	}
	var all []page
	for _, f := range files {
		all = append(all, read(t, "runbooks/"+filepath.Base(f)))
	}
	return all
}

func TestEveryAlertHasAPageThatSaysWhatTheRuleSays(t *testing.T) {
	alerts := rules(t)
	index := read(t, "runbooks/README.md")
	seen := map[string]bool{}
	for _, p := range runbooks(t, "MaestroHub*.md") {
		r, ok := alerts[p.Name()]
		if !ok {
			t.Errorf("runbooks/%s.md is the page of no alert", p.Name())
			continue
		}
		seen[p.Name()] = true
		for key, want := range map[string]string{"alert": r.Alert, "severity": r.Labels["severity"], "for": r.For, "group": r.group} {
			if got := p.front[key]; got != want {
				t.Errorf("%s: %s: %v in the front matter, the rule has %s", p.Name(), key, got, want)
			}
		}
		for _, key := range []string{"first-response", "owner", "dashboard", "related", "values"} {
			if _, ok := p.front[key]; !ok {
				t.Errorf("%s: no %s in the front matter", p.Name(), key)
			}
		}
		if related, ok := p.front["related"].([]any); ok {
			for _, name := range related {
				if _, ok := alerts[name.(string)]; !ok {
					t.Errorf("%s: related alert %v is none", p.Name(), name)
				}
			}
		}
		if _, err := os.Stat(filepath.Join(root, p.front["dashboard"].(string))); err != nil {
			t.Errorf("%s: %v", p.Name(), err)
		}
		if !slices.Equal(p.Headings, sections) {
			t.Errorf("%s has the sections %q, want %q", p.Name(), p.Headings, sections)
		}
		expr := ""
		tags := map[string]int{}
		for _, b := range p.Blocks {
			tags[b.Info]++
			if b.Info == "promql" {
				expr = b.Text
			}
		}
		if strings.TrimSpace(expr) != strings.TrimSpace(r.Expr) {
			t.Errorf("%s: the expression is\n%s\nthe rule's\n%s", p.Name(), expr, r.Expr)
		}
		if words := "It is a " + r.Labels["severity"] + " that fires after `" + r.For + "` of"; !strings.Contains(p.Text, words) {
			t.Errorf("%s does not say %q", p.Name(), words)
		}
		for _, tag := range []string{"sh look", "text healthy", "text unhealthy"} {
			if tags[tag] == 0 {
				t.Errorf("%s has no block %q", p.Name(), tag)
			}
		}
		row := "| [" + p.Name() + "](" + p.Name() + ".md) | " + r.Labels["severity"] + " | " + r.group + " |"
		if !strings.Contains(index.Text, row) {
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
	for _, p := range runbooks(t, "*.md") {
		for _, l := range p.Links {
			if strings.Contains(l, "://") {
				continue
			}
			file, fragment, _ := strings.Cut(l, "#")
			target := p
			if file != "" {
				path := filepath.Join("runbooks", file)
				if _, err := os.Stat(filepath.Join(root, path)); err != nil {
					t.Errorf("%s: %v", p.Name(), err)
					continue
				}
				if strings.HasSuffix(file, ".md") {
					target = read(t, path)
				}
			}
			if fragment != "" && !slices.Contains(target.Anchors, fragment) {
				t.Errorf("%s: %s has no heading #%s, only %q", p.Name(), target.Name(), fragment, target.Anchors)
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
	for _, p := range runbooks(t, "*.md") {
		var paths []string
		for _, m := range named.FindAllStringSubmatch(p.Text, -1) {
			paths = append(paths, m[1]+m[2])
		}
		if listed, ok := p.front["values"].([]any); ok {
			for _, v := range listed {
				paths = append(paths, v.(string))
			}
		}
		for _, path := range paths {
			if !exists(path) {
				t.Errorf("%s: the chart has no value %s", p.Name(), path)
			}
		}
	}
}
