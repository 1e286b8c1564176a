package api

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The page's links and words are held against what they speak of.
func TestThePageNamesOnlyRunbooksAndHeadingsThereAre(t *testing.T) {
	linked := regexp.MustCompile("[\"`]([A-Za-z-]+\\.md)(#[a-z-]+)?[\"`]")
	headings := regexp.MustCompile(`(?m)^#+ (.*)$`)
	found := 0
	for _, name := range []string{"page/words.js", "page/figures.js"} {
		text, err := os.ReadFile(name)
		fatal(t, err)
		for _, m := range linked.FindAllStringSubmatch(strings.ReplaceAll(string(text), "${down}", "MaestroHubUNSBrokerMeshLinksDown.md"), -1) {
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

// What keeps two replicas from linking is said in plain words: every reason that the mesh
// makes, and those of the network, meets a pattern of the page, and every pattern a reason.
func TestThePageHasWordsForEveryReasonForWhichThereIsNoLink(t *testing.T) {
	const theirs = "refused by the other replica: replica uns-1 does not serve now"
	reasons := append(meshReasons(t), theirs, "dial: connect: connection refused", "dial: i/o timeout", "TLS: read: i/o timeout", "read: EOF", "TLS: EOF",
		"read: read: connection reset by peer", "write: write: broken pipe", "read: use of closed network connection", "dial: connect: no route to host",
		"dial: lookup uns-1.uns-headless: no such host", "context deadline exceeded", "TLS: remote error: tls: bad certificate")
	text, err := os.ReadFile("page/words.js")
	fatal(t, err)
	_, table, found := strings.Cut(string(text), "const noLink = [")
	table, _, ended := strings.Cut(table, "\n];")
	var patterns []*regexp.Regexp
	var words []string
	for _, m := range regexp.MustCompile(`(?m)^  \[/(.*)/, "(.*?)", "`).FindAllStringSubmatch(table, -1) {
		patterns, words = append(patterns, regexp.MustCompile(strings.ReplaceAll(m[1], `\/`, "/"))), append(words, m[2])
	}
	if !found || !ended || len(patterns) < 10 || len(reasons) < 30 {
		t.Fatalf("%d patterns and %d reasons: what this test reads has changed its form", len(patterns), len(reasons))
	}
	met := map[*regexp.Regexp]bool{}
	for _, reason := range reasons {
		at := slices.IndexFunc(patterns, func(p *regexp.Regexp) bool { return p.MatchString(reason) })
		if at < 0 {
			t.Errorf("the page has no words for %q", reason)
			continue
		}
		met[patterns[at]] = true
		// Who refuses matters most where it does not serve.
		if want := map[string]string{"replica 7 does not serve now": "this one does not serve", theirs: "it does not serve now"}[reason]; want != "" && words[at] != want {
			t.Errorf("%q is said as %q, want %q", reason, words[at], want)
		}
	}
	for _, p := range patterns {
		if !met[p] {
			t.Errorf("no reason meets %s", p)
		}
	}
}

// meshReasons are the reasons in the sources of the mesh: of its refusals, what its links
// end with, and what is wrong with a certificate or a frame's number.
func meshReasons(t *testing.T) (all []string) {
	t.Helper()
	verb := regexp.MustCompile(`%[.0-9]*[a-z]`)
	add := func(e ast.Expr) {
		if call, ok := e.(*ast.CallExpr); ok && len(call.Args) > 0 {
			if f, ok := call.Fun.(*ast.SelectorExpr); ok && slices.Contains([]string{"Sprintf", "Errorf", "New"}, f.Sel.Name) {
				e = call.Args[0]
			}
		}
		if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			text, err := strconv.Unquote(lit.Value)
			fatal(t, err)
			text = strings.ReplaceAll(text, "%w", "bad frame")
			all = append(all, verb.ReplaceAllString(text, "7"))
		}
	}
	files, err := filepath.Glob("../mesh/*.go")
	fatal(t, err)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		fatal(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CompositeLit:
				if id, ok := n.Type.(*ast.Ident); ok && id.Name == "refusal" {
					for _, e := range n.Elts {
						if kv, ok := e.(*ast.KeyValueExpr); ok && kv.Key.(*ast.Ident).Name == "reason" {
							add(kv.Value)
						}
					}
				}
			case *ast.ValueSpec: // var errStops = errors.New("…")
				if len(n.Values) == 1 && strings.HasPrefix(n.Names[0].Name, "err") {
					add(n.Values[0])
				}
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Errorf" && slices.Contains([]string{"pin.go", "inbox.go", "outbox.go", "frame.go"}, filepath.Base(name)) {
					add(n)
				}
			}
			return true
		})
	}
	return all
}

// anchor is how a heading is linked to.
func anchor(heading string) string {
	keep := regexp.MustCompile(`[^a-z0-9 -]`).ReplaceAllString(strings.ToLower(heading), "")
	return strings.ReplaceAll(keep, " ", "-")
}
