package runbooks_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"maestrohub.io/uns/tests/runbooks/pages"
)

// Every block of every page is run by a test that takes it from the page, or says why
// none can.
func TestEveryBlockIsRunOrSaysWhyNot(t *testing.T) {
	all, err := pages.All(root)
	if err != nil {
		t.Fatal(err)
	}
	found := tests(t)
	ran, skipped := 0, 0
	for _, p := range all {
		headings := allHeadings(p)
		for i, b := range p.Blocks {
			switch {
			case b.Skip != "":
				skipped++
				if len(strings.Fields(b.Skip)) < 3 {
					t.Errorf("%s: %q is no reason", b.At(), b.Skip)
				}
				continue
			case b.Test == "":
				t.Errorf("%s: a block tagged %q is run by no test and says no reason: runbooks/README.md has how", b.At(), b.Info)
				continue
			}
			ran++
			if b.Info == "text healthy" && (i == 0 || !strings.HasPrefix(p.Blocks[i-1].Info, "sh ") || p.Blocks[i-1].Test != b.Test) {
				t.Errorf("%s: what %s prints, and that test does not run the block before", b.At(), b.Test)
			}
			test, ok := found[b.Test]
			if !ok {
				t.Errorf("%s: there is no test %s", b.At(), b.Test)
				continue
			}
			if pages.Tests[b.Info] == b.Test || test.asks(b.Test) {
				continue
			}
			if !test.reads(b.Page) {
				t.Errorf("%s: %s does not read %s", b.At(), b.Test, b.Page)
			}
			// A test that takes sections takes this one; one that takes none takes all.
			sections := slices.DeleteFunc(slices.Clone(headings), func(h string) bool { return !test.says[h] })
			if len(sections) > 0 && !slices.ContainsFunc(b.Sections, func(h string) bool { return slices.Contains(sections, h) }) {
				t.Errorf("%s: %s takes the sections %q of the page, not this one of %q", b.At(), b.Test, sections, b.Sections)
			}
		}
	}
	if ran < 200 {
		t.Errorf("found %d blocks that are run", ran)
	}
	t.Logf("%d blocks are run or checked, %d say why not", ran, skipped)
}

// allHeadings are a page's headings, whatever their level, outside of its blocks.
func allHeadings(p pages.Page) (all []string) {
	outside := regexp.MustCompile("(?ms)^ *```.*?^ *```$").ReplaceAllString(p.Text, "")
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(outside, -1) {
		all = append(all, m[1])
	}
	return all
}

// Commands are in fences, where the inventory sees them.
func TestNoPageHasCommandsOutsideOfAFence(t *testing.T) {
	all, err := pages.All(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		outside := regexp.MustCompile("(?ms)^ *```.*?^ *```$").ReplaceAllString(p.Text, "")
		for _, m := range regexp.MustCompile(`(?m)^\n {4,}(\S.*)$`).FindAllStringSubmatch(outside, -1) {
			t.Errorf("%s: %q is a block by its indentation: fence it", p.Path, m[1])
		}
	}
}

// Whoever is told to `make` something can.
func TestTargetsThatPagesNameExist(t *testing.T) {
	makefile, err := os.ReadFile(root + "/Makefile")
	if err != nil {
		t.Fatal(err)
	}
	all, err := pages.All(root)
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, p := range all {
		for _, m := range regexp.MustCompile("(?m)(?:`|^ *)make ([a-z][a-z0-9-]*)").FindAllStringSubmatch(p.Text, -1) {
			named++
			if !strings.Contains(string(makefile), "\n"+m[1]+":") {
				t.Errorf("%s: make %s: there is no such target", p.Path, m[1])
			}
		}
	}
	if named < 10 {
		t.Errorf("pages name %d targets", named)
	}
}

// source is a test, with all functions, constants and variables of its package that it
// comes to.
type source struct {
	folder string
	says   map[string]bool // its texts, without the marks of a heading
	of     bool            // calls pages.Of or pages.Blocks
}

// reads reports whether a page's path is among the texts of the test.
func (s source) reads(page string) bool {
	for text := range s.says {
		if strings.HasSuffix(text, ".md") && (text == page || filepath.Join(s.folder, text) == page) {
			return true
		}
	}
	return false
}

// asks reports whether it takes the blocks that name it.
func (s source) asks(test string) bool { return s.of && s.says[test] }

// tests are the repository's tests, by name.
func tests(t *testing.T) map[string]source {
	t.Helper()
	files := map[string][]*ast.File{} // by folder
	for _, top := range []string{"alerts", "broker", "tests", "tools"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == "testdata"):
				return filepath.SkipDir
			case !strings.HasSuffix(path, "_test.go"):
				return nil
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			folder, _ := filepath.Rel(root, filepath.Dir(path))
			files[folder] = append(files[folder], file)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	all := map[string]source{}
	for folder, parsed := range files {
		declared := declarations(parsed)
		for name := range declared {
			if strings.HasPrefix(name, "Test") {
				s := source{folder: folder, says: map[string]bool{}}
				s.follow(declared, name, map[string]bool{})
				all[name] = s
			}
		}
	}
	return all
}

// declarations are what a package declares, by name: functions, methods by theirs alone,
// constants and variables.
func declarations(files []*ast.File) map[string][]ast.Node {
	all := map[string][]ast.Node{}
	for _, file := range files {
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				all[d.Name.Name] = append(all[d.Name.Name], d)
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if v, ok := spec.(*ast.ValueSpec); ok {
						for _, name := range v.Names {
							all[name.Name] = append(all[name.Name], v)
						}
					}
				}
			}
		}
	}
	return all
}

// follow collects what a declaration says, and what those say that it uses.
func (s *source) follow(declared map[string][]ast.Node, name string, seen map[string]bool) {
	if seen[name] {
		return
	}
	seen[name] = true
	for _, node := range declared[name] {
		ast.Inspect(node, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
					s.says[strings.TrimLeft(text, "# ")] = true
				}
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "pages" && (n.Sel.Name == "Of" || n.Sel.Name == "Blocks") {
					s.of = true
				}
			case *ast.Ident:
				s.follow(declared, n.Name, seen)
			}
			return true
		})
	}
}
