package runbooks_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"maestrohub.io/uns/broker/metrics"
)

// ours are the pages that follow the convention of runbooks/README.md throughout.
func ours(t *testing.T) []page {
	t.Helper()
	return append(pages(t, "MaestroHub*.md"), pages(t, "README.md")[0], pages(t, "not-ready.md")[0])
}

var tags = map[string]bool{"sh setup": true, "sh look": true, "sh change": true, "text healthy": true, "text unhealthy": true, "log": true, "promql": true}

func TestEveryBlockIsTaggedAndParses(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	setups := 0
	for _, p := range ours(t) {
		for _, b := range p.blocks {
			if !tags[b.tag] {
				t.Errorf("%s:%d: tag %q", b.page, b.line, b.tag)
			}
			if !strings.HasPrefix(b.tag, "sh ") {
				continue
			}
			if b.tag == "sh setup" {
				setups++
			}
			parse := exec.CommandContext(t.Context(), bash, "-n")
			parse.Stdin = strings.NewReader(b.text)
			if out, err := parse.CombinedOutput(); err != nil {
				t.Errorf("%s:%d does not parse: %s", b.page, b.line, out)
			}
			for _, n := range []string{"maestrohub-uns", "maestrohub-nats"} {
				if b.tag != "sh setup" && strings.Contains(b.text, n) {
					t.Errorf("%s:%d names %s, which is called so only where RELEASE is maestrohub", b.page, b.line, n)
				}
			}
			if b.tag == "sh look" && regexp.MustCompile(`\b(delete|apply|scale|patch|upgrade|rollback|edit)\b`).MatchString(b.text) {
				t.Errorf("%s:%d is tagged as a look and changes something", b.page, b.line)
			}
		}
	}
	if setups != 1 {
		t.Errorf("%d setup blocks, want 1", setups)
	}
}

// The helpers of the setup block, and what the machine has: a block uses no other.
func TestBlocksUseWhatIsThere(t *testing.T) {
	known := map[string]bool{}
	for _, c := range strings.Fields("kubectl helm for do done echo grep sed base64 openssl") {
		known[c] = true
	}
	var defined []string
	for _, b := range read(t, root+"/runbooks/README.md").blocks {
		if b.tag == "sh setup" {
			for _, m := range regexp.MustCompile(`(?m)^(\w+)\(\)`).FindAllStringSubmatch(b.text, -1) {
				defined = append(defined, m[1])
				known[m[1]] = true
			}
		}
	}
	if len(defined) < 6 {
		t.Fatalf("the setup block defines %q", defined)
	}
	first := regexp.MustCompile(`(?m)(?:^|\||;|\$\(|do )\s*(?:[A-Z]+=\S+ )?([a-z_0-9]+)\b`)
	for _, p := range ours(t) {
		for _, b := range p.blocks {
			if b.tag != "sh look" && b.tag != "sh change" {
				continue
			}
			// What stands in quotes is an argument.
			bare := regexp.MustCompile(`'[^']*'`).ReplaceAllString(b.text, "''")
			for _, m := range first.FindAllStringSubmatch(bare, -1) {
				if !known[m[1]] && m[1] != "true" {
					t.Errorf("%s:%d uses %q", b.page, b.line, m[1])
				}
			}
		}
	}
}

func TestMetricsThatAreNamedExist(t *testing.T) {
	reference := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(metrics.Reference(), -1) {
		reference[m[1]] = true
	}
	name := regexp.MustCompile(`maestrohub_uns_[a-z_]+[a-z]`)
	pattern := regexp.MustCompile(`metrics '([^']+)'`)
	for _, p := range ours(t) {
		text := pattern.ReplaceAllString(p.text, "")
		for _, n := range name.FindAllString(text, -1) {
			if !reference[n] {
				t.Errorf("%s: no metric %s", p.name, n)
			}
		}
		for _, m := range pattern.FindAllStringSubmatch(p.text, -1) {
			for _, alternative := range spread(m[1]) {
				re, err := regexp.Compile("^" + alternative)
				if err != nil {
					t.Errorf("%s: %v", p.name, err)
					continue
				}
				found := false
				for _, series := range series() {
					found = found || re.MatchString(series)
				}
				if !found {
					t.Errorf("%s: metrics '%s': nothing begins with %s", p.name, m[1], alternative)
				}
			}
		}
	}
}

// series are all names, with each label's values as a scrape shows them.
func series() (all []string) {
	row := regexp.MustCompile("(?m)^\\| `(\\w+)` \\| \\w+ \\| (.*?) \\|")
	label := regexp.MustCompile("`(\\w+)`(?:: ([^;]*))?")
	for _, m := range row.FindAllStringSubmatch(metrics.Reference(), -1) {
		all = append(all, m[1])
		for _, l := range label.FindAllStringSubmatch(m[2], -1) {
			for _, v := range strings.Split(l[2], ", ") {
				all = append(all, m[1]+"{"+l[1]+`="`+v+`"}`)
			}
		}
	}
	return all
}

// spread gives each of the alternatives of a pattern's groups, inner ones too.
func spread(pattern string) []string {
	open := -1
	for i, c := range pattern {
		switch {
		case c == '(':
			open = i
		case c == ')' && open >= 0:
			var all []string
			for _, choice := range strings.Split(pattern[open+1:i], "|") {
				all = append(all, spread(pattern[:open]+choice+pattern[i+1:])...)
			}
			return all
		}
	}
	return strings.Split(pattern, "|")
}

// messages are the constant texts of every log line in the broker's sources, and
// those that are put together.
func messages(t *testing.T) []string {
	t.Helper()
	return append(saidAt(t, "Info", "Warn", "Error"), together...)
}

// together are put together in broker/replica/readiness.go.
var together = []string{"embedded broker: shared state does not take writes", "embedded broker: shared state takes writes",
	"embedded broker: historian does not take writes", "embedded broker: historian takes writes"}

// saidAt are the constant texts of the log lines of some levels.
func saidAt(t *testing.T, levels ...string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(root+"/broker", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "test/") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			selector, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if lit, ok := call.Args[0].(*ast.BasicLit); ok && lit.Kind == token.STRING && slices.Contains(levels, selector.Sel.Name) {
				text, err := strconv.Unquote(lit.Value)
				if err != nil {
					return true
				}
				if !strings.HasPrefix(text, "broker cluster: ") && !strings.HasPrefix(text, "mesh: ") && !strings.HasPrefix(text, "embedded broker: ") {
					text = "embedded broker: " + text
				}
				all = append(all, text)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	if len(all) < 60 {
		t.Fatalf("found %d log lines in the broker's sources", len(all))
	}
	return all
}

// Whoever meets a line or a reason finds it, by searching for it as it is written.
func TestTheIndexHasEveryWarningErrorAndReason(t *testing.T) {
	index := read(t, root+"/runbooks/index.md")
	said := saidAt(t, "Warn", "Error")
	for _, line := range said {
		if !strings.Contains(index.text, "| `"+line+"` |") {
			t.Errorf("runbooks/index.md misses the line %q", line)
		}
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `((?:embedded broker|broker cluster|mesh): [^`]+)` \\|").FindAllStringSubmatch(index.text, -1) {
		if !slices.Contains(said, m[1]) {
			t.Errorf("runbooks/index.md has a line that no warning or error is: %q", m[1])
		}
	}
	row := regexp.MustCompile("(?m)^\\| `(\\w+)` \\| \\w+ \\| `reason`: (.*?) \\|")
	for _, m := range row.FindAllStringSubmatch(metrics.Reference(), -1) {
		_, section, found := strings.Cut(index.text, "### "+m[1]+"\n")
		if !found {
			t.Errorf("runbooks/index.md has no section %s", m[1])
			continue
		}
		section, _, _ = strings.Cut(section, "\n#")
		reasons := strings.Split(m[2], ", ")
		for _, r := range reasons {
			if !strings.Contains(section, "| `"+r+"` |") {
				t.Errorf("runbooks/index.md misses reason %s of %s", r, m[1])
			}
		}
		if rows := strings.Count(section, "\n| `"); rows != len(reasons) {
			t.Errorf("runbooks/index.md has %d reasons of %s, there are %d", rows, m[1], len(reasons))
		}
	}
}

func TestLogLinesThatAreQuotedExist(t *testing.T) {
	said := messages(t)
	pattern := regexp.MustCompile(`logs '([^']+)'`)
	for _, p := range ours(t) {
		for _, b := range p.blocks {
			switch {
			case b.tag == "log" || strings.HasPrefix(b.tag, "text "):
				for line := range strings.Lines(b.text) {
					_, rest, found := strings.Cut(line, " time=")
					if !found || rest == "" {
						if b.tag == "log" {
							t.Errorf("%s:%d: not a log line: %s", b.page, b.line, line)
						}
						continue
					}
					text, _, _ := strings.Cut(line, " time=")
					if _, inner, ok := strings.Cut(text, "] "); ok { // kubectl logs --prefix
						text = inner
					}
					found = false
					for _, s := range said {
						found = found || s == text
					}
					if !found {
						t.Errorf("%s:%d: the broker never says %q", b.page, b.line, text)
					}
				}
			case strings.HasPrefix(b.tag, "sh "):
				for _, m := range pattern.FindAllStringSubmatch(b.text, -1) {
					for _, alternative := range spread(m[1]) {
						re, err := regexp.Compile(alternative)
						if err != nil {
							t.Errorf("%s:%d: %v", b.page, b.line, err)
							continue
						}
						found := false
						for _, s := range said {
							found = found || re.MatchString(s)
						}
						if !found && alternative != "this release reads" && alternative != "below the format floor" { // in a line's error and reason
							t.Errorf("%s:%d: logs '%s': the broker says nothing like %q", b.page, b.line, m[1], alternative)
						}
					}
				}
			}
		}
	}
}
