package lint_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// root is the repository, seen from this package.
const root = "../.."

// source is one parsed Go file of the repository.
type source struct {
	path string // from the repository's root
	file *ast.File
	set  *token.FileSet
}

func (s source) test() bool { return strings.HasSuffix(s.path, "_test.go") }

// at says where a node is.
func (s source) at(n ast.Node) string {
	return s.path + ":" + strconv.Itoa(s.set.Position(n.Pos()).Line)
}

// sources parses every Go file of the repository, generated and third-party
// folders left out.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	for _, path := range walk(t) {
		if !strings.HasSuffix(path, ".go") {
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, filepath.Join(root, path), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, source{path, file, set})
	}
	if len(all) < 50 {
		t.Fatalf("found %d Go files: this is not the repository", len(all))
	}
	return all
}

// walk lists the repository's files, those that are built or fetched left out.
func walk(t *testing.T) []string {
	t.Helper()
	skip := []string{".git", "bin", "dist", "data", ".cache", "node_modules", "__pycache__"}
	var paths []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			// data is a broker's only at the top; further down it is a name like others.
			if slices.Contains(skip, entry.Name()) && (entry.Name() != "data" || rel == "data") {
				return filepath.SkipDir
			}
			return nil
		}
		if entry.Type().IsRegular() {
			paths = append(paths, filepath.ToSlash(rel))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// calls visits every call of a file.
func (s source) calls(visit func(*ast.CallExpr)) {
	ast.Inspect(s.file, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			visit(call)
		}
		return true
	})
}

// selector returns "time", "Sleep" of a call of time.Sleep, "" for anything that is
// not a name in a name.
func selector(call *ast.CallExpr) (of, name string) {
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	switch x := s.X.(type) {
	case *ast.Ident:
		return x.Name, s.Sel.Name
	case *ast.SelectorExpr:
		return x.Sel.Name, s.Sel.Name
	}
	return "", s.Sel.Name
}

// text returns the constant string an expression is, or begins with.
func text(e ast.Expr) (string, bool) {
	switch x := e.(type) {
	case *ast.BasicLit:
		if x.Kind == token.STRING {
			s, err := strconv.Unquote(x.Value)
			return s, err == nil
		}
	case *ast.BinaryExpr:
		return text(x.X)
	}
	return "", false
}

func TestTestsDoNotSleep(t *testing.T) {
	for _, s := range sources(t) {
		if !s.test() && !strings.HasPrefix(s.path, "tests/") {
			continue
		}
		// In a bubble of testing/synctest a sleep is virtual: it moves the clock and
		// costs no time. A file whose functions run in another's bubble says so.
		virtual := slices.ContainsFunc(s.file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"testing/synctest"` }) ||
			slices.ContainsFunc(s.file.Comments, func(c *ast.CommentGroup) bool { return strings.Contains(c.Text(), "bubble of testing/synctest") })
		s.calls(func(call *ast.CallExpr) {
			if of, name := selector(call); of == "time" && name == "Sleep" && !virtual {
				t.Errorf("%s: time.Sleep in a test is too short on a busy machine and too long on an idle one; wait for a condition", s.at(call))
			}
		})
	}
}

func TestLogLinesBeginWithTheirPrefix(t *testing.T) {
	prefixes := []string{"embedded broker: ", "broker cluster: ", "mesh: "}
	levels := map[string]int{"Debug": 0, "Info": 0, "Warn": 0, "Error": 0,
		"DebugContext": 1, "InfoContext": 1, "WarnContext": 1, "ErrorContext": 1, "LogAttrs": 2}
	loggers := []string{"log", "slog", "logger", "Logger", "Log"}
	for _, s := range sources(t) {
		// Package replica's handler puts the first prefix before what comes without
		// one; the packages that only it runs leave it to that.
		ofReplica := strings.HasPrefix(s.path, "broker/replica/") || strings.HasPrefix(s.path, "broker/api/")
		if s.test() || ofReplica || !strings.HasPrefix(s.path, "broker/") {
			continue
		}
		s.calls(func(call *ast.CallExpr) {
			of, name := selector(call)
			at, isLog := levels[name]
			if !isLog || !slices.Contains(loggers, of) || len(call.Args) <= at {
				return
			}
			message, ok := text(call.Args[at])
			if ok && !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(message, p) }) {
				t.Errorf("%s: log message %q begins with none of %q, by which runbooks find it", s.at(call), message, prefixes)
			}
		})
	}
}

func TestErrorsAreWrapped(t *testing.T) {
	for _, s := range sources(t) {
		if s.test() {
			continue
		}
		s.calls(func(call *ast.CallExpr) {
			if of, name := selector(call); of != "fmt" || name != "Errorf" || len(call.Args) < 2 {
				return
			}
			format, ok := text(call.Args[0])
			last, isName := call.Args[len(call.Args)-1].(*ast.Ident)
			if ok && isName && last.Name == "err" && strings.HasSuffix(format, "v") && !strings.Contains(format, "%w") {
				t.Errorf("%s: the format %q hides err from errors.Is; wrap it with %%w", s.at(call), format)
			}
		})
	}
}

func TestEveryPackageHasItsManual(t *testing.T) {
	type pkg struct{ manual, any bool }
	packages := map[string]*pkg{}
	for _, s := range sources(t) {
		if strings.Contains(s.path, "testdata/") {
			continue
		}
		dir := filepath.Dir(s.path)
		if packages[dir] == nil {
			packages[dir] = &pkg{}
		}
		p := packages[dir]
		p.any = true
		if base := filepath.Base(s.path); (base == "doc.go" || base == "doc_test.go" || base == "main.go") && s.file.Doc != nil {
			p.manual = true
		}
	}
	for dir, p := range packages {
		if !p.manual {
			t.Errorf("%s has no doc.go with a package comment: what it is for, what it promises, how it is used", dir)
		}
	}
}
