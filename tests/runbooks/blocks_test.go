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
	"maestrohub.io/uns/tests/runbooks/pages"
)

// ours are the pages for who runs an installation: all runbooks but the one for device
// developers, whose blocks are programs in their languages, and UPGRADING.md.
func ours(t *testing.T) []page {
	t.Helper()
	all := slices.DeleteFunc(runbooks(t, "*.md"), func(p page) bool { return p.Name() == "connect" })
	return append(all, read(t, "UPGRADING.md"))
}

func TestEveryBlockIsTaggedAndParses(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`maestrohub-(uns|nats)\b`)
	secrets := regexp.MustCompile(`maestrohub-nats-(auth|client|server)`) // whose names are values
	setups := 0
	for _, p := range ours(t) {
		for _, b := range p.Blocks {
			if !strings.HasPrefix(b.Info, "sh ") {
				continue
			}
			if b.Info == "sh setup" {
				setups++
			}
			parse := exec.CommandContext(t.Context(), bash, "-n")
			parse.Stdin = strings.NewReader(b.Text)
			if out, err := parse.CombinedOutput(); err != nil {
				t.Errorf("%s does not parse: %s", b.At(), out)
			}
			if n := named.FindString(secrets.ReplaceAllString(b.Text, "")); b.Info != "sh setup" && n != "" {
				t.Errorf("%s names %s, which is called so only where RELEASE is maestrohub", b.At(), n)
			}
			if b.Info == "sh look" && regexp.MustCompile(`\b(delete|apply|scale|patch|upgrade|rollback|edit)\b`).MatchString(b.Text) {
				t.Errorf("%s is tagged as a look and changes something", b.At())
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
	for _, c := range strings.Fields("kubectl helm nats broker go for do done echo grep sed base64 openssl mkdir ls cat date sudo sleep") {
		known[c] = true
	}
	var defined []string
	for _, b := range read(t, "runbooks/README.md").Blocks {
		if b.Info == "sh setup" {
			for _, m := range regexp.MustCompile(`(?m)^(\w+)\(\)`).FindAllStringSubmatch(b.Text, -1) {
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
		for _, b := range p.Blocks {
			if b.Info != "sh look" && b.Info != "sh change" {
				continue
			}
			// What stands in quotes is an argument.
			bare := regexp.MustCompile(`'[^']*'`).ReplaceAllString(b.Text, "''")
			for _, m := range first.FindAllStringSubmatch(bare, -1) {
				if !known[m[1]] && m[1] != "true" {
					t.Errorf("%s uses %q", b.At(), m[1])
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
		text := pattern.ReplaceAllString(p.Text, "")
		for _, n := range name.FindAllString(text, -1) {
			if !reference[n] {
				t.Errorf("%s: no metric %s", p.Name(), n)
			}
		}
		for _, m := range pattern.FindAllStringSubmatch(p.Text, -1) {
			for _, alternative := range spread(m[1]) {
				re, err := regexp.Compile("^" + alternative)
				if err != nil {
					t.Errorf("%s: %v", p.Name(), err)
					continue
				}
				found := false
				for _, series := range series() {
					found = found || re.MatchString(series)
				}
				if !found {
					t.Errorf("%s: metrics '%s': nothing begins with %s", p.Name(), m[1], alternative)
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

// together are put together in broker/replica/readiness.go and broker/certificate/follow.go.
var together = []string{"mesh: certificate reloaded", "broker cluster: NATS client certificate reloaded",
	"embedded broker: shared state does not take writes", "embedded broker: shared state takes writes",
	"embedded broker: historian does not take writes", "embedded broker: historian takes writes"}

// saidAt are the constant texts of the log lines of some levels.
func saidAt(t *testing.T, levels ...string) []string {
	t.Helper()
	var all []string
	inspect(t, func(n ast.Node) {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return
		}
		selector, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || !slices.Contains(levels, selector.Sel.Name) {
			return
		}
		if text, ok := constant(call.Args[0]); ok {
			if !strings.HasPrefix(text, "broker cluster: ") && !strings.HasPrefix(text, "mesh: ") && !strings.HasPrefix(text, "embedded broker: ") {
				text = "embedded broker: " + text
			}
			all = append(all, text)
		}
	})
	slices.Sort(all)
	all = slices.Compact(all)
	if len(all) < 60 {
		t.Fatalf("found %d log lines in the broker's sources", len(all))
	}
	return all
}

// errorTexts are the formats of the errors that the broker makes.
func errorTexts(t *testing.T) (all []string) {
	t.Helper()
	inspect(t, func(n ast.Node) {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return
		}
		if selector, ok := call.Fun.(*ast.SelectorExpr); ok && selector.Sel.Name == "Errorf" {
			if text, ok := constant(call.Args[0]); ok {
				all = append(all, text)
			}
		}
	})
	return all
}

func constant(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}

// inspect shows every node of the broker's sources.
func inspect(t *testing.T, visit func(ast.Node)) {
	t.Helper()
	err := filepath.WalkDir(root+"/broker", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "test/") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			visit(n)
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Whoever meets a line or a reason finds it, by searching for it as it is written.
func TestTheIndexHasEveryWarningErrorAndReason(t *testing.T) {
	index := read(t, "runbooks/index.md")
	said := saidAt(t, "Warn", "Error")
	for _, line := range said {
		if !strings.Contains(index.Text, "| `"+line+"` |") {
			t.Errorf("runbooks/index.md misses the line %q", line)
		}
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `((?:embedded broker|broker cluster|mesh): [^`]+)` \\|").FindAllStringSubmatch(index.Text, -1) {
		if !slices.Contains(said, m[1]) {
			t.Errorf("runbooks/index.md has a line that no warning or error is: %q", m[1])
		}
	}
	row := regexp.MustCompile("(?m)^\\| `(\\w+)` \\| \\w+ \\| `reason`: (.*?) \\|")
	for _, m := range row.FindAllStringSubmatch(metrics.Reference(), -1) {
		_, section, found := strings.Cut(index.Text, "### "+m[1]+"\n")
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
	var errors []*regexp.Regexp
	verb := regexp.MustCompile(`%[a-z]`)
	for _, format := range errorTexts(t) {
		if len(verb.ReplaceAllString(format, "")) < 20 { // else `%s: %w` is like everything
			continue
		}
		errors = append(errors, regexp.MustCompile("^"+verb.ReplaceAllString(regexp.QuoteMeta(format), ".+")+"$"))
	}
	pattern := regexp.MustCompile(`logs '([^']+)'`)
	all, err := pages.All(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		for _, b := range p.Blocks {
			switch {
			case b.Info == "log" || strings.HasPrefix(b.Info, "text "):
				for line := range strings.Lines(b.Text) {
					_, rest, found := strings.Cut(line, " time=")
					if !found || rest == "" {
						if line = strings.TrimSpace(line); b.Info == "log" && !slices.ContainsFunc(errors, func(e *regexp.Regexp) bool { return e.MatchString(line) }) {
							t.Errorf("%s: neither a log line nor an error of the broker's: %s", b.At(), line)
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
						t.Errorf("%s: the broker never says %q", b.At(), text)
					}
				}
			case strings.HasPrefix(b.Info, "sh "):
				for _, m := range pattern.FindAllStringSubmatch(b.Text, -1) {
					for _, alternative := range spread(m[1]) {
						re, err := regexp.Compile(alternative)
						if err != nil {
							t.Errorf("%s: %v", b.At(), err)
							continue
						}
						found := false
						for _, s := range said {
							found = found || re.MatchString(s)
						}
						if !found && alternative != "this release reads" && alternative != "below the format floor" { // in a line's error and reason
							t.Errorf("%s: logs '%s': the broker says nothing like %q", b.At(), m[1], alternative)
						}
					}
				}
			}
		}
	}
}
