package conformance

import (
	"encoding/csv"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "bring testdata/statements.csv in line with what the tests mark")

// shows marks the statements a test shows: "<version> <id>". The table's test
// reads the marks from the source.
func shows(t *testing.T, statements ...string) {
	t.Helper()
	t.Log("shows " + strings.Join(statements, ", "))
}

// How many statements with a server part the standards have, and how many duties
// are listed beside them.
const (
	statements5   = 227
	statements311 = 132
	duties5       = 17
)

// here is this package as the table names it.
const here = "tests/conformance"

// row is one line of the table.
type row struct{ version, id, who, tests, note string }

func (r row) key() string { return r.version + " " + r.id }

func (r row) testList() []string {
	if r.tests == "" {
		return nil
	}
	return strings.Split(r.tests, "; ")
}

func readTable(t *testing.T, name string, columns []string) [][]string {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	records, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if !slices.Equal(records[0], columns) {
		t.Fatalf("%s has the columns %v, want %v", name, records[0], columns)
	}
	return records[1:]
}

func TestEveryStatementHasATest(t *testing.T) {
	ids := readTable(t, "ids.csv", []string{"version", "id", "who", "requirement"})
	counts := map[string]int{}
	for _, id := range ids {
		switch {
		case strings.HasPrefix(id[1], "D"):
			counts["duties"]++
		case id[2] != "C":
			counts[id[0]]++
		}
	}
	if counts["5"] != statements5 || counts["3.1.1"] != statements311 || counts["duties"] != duties5 {
		t.Fatalf("ids.csv has %v, want %d of MQTT 5, %d of 3.1.1 and %d duties", counts, statements5, statements311, duties5)
	}

	var rows []row
	for _, r := range readTable(t, "statements.csv", []string{"version", "id", "who", "test", "note"}) {
		rows = append(rows, row{r[0], r[1], r[2], r[3], r[4]})
	}
	marks := readMarks(t)
	if *rewrite {
		rows = rewritten(t, ids, rows, marks)
	}
	if len(rows) != len(ids) {
		t.Errorf("statements.csv has %d rows, ids.csv %d", len(rows), len(ids))
	}
	table := map[string]row{}
	for _, r := range rows {
		table[r.key()] = r
	}
	sources := &sources{packages: map[string]*source{}}
	for _, id := range ids {
		r, ok := table[id[0]+" "+id[1]]
		if !ok {
			t.Errorf("%s %s is missing from statements.csv: %s", id[0], id[1], id[3])
			continue
		}
		if r.who != id[2] {
			t.Errorf("%s is said to be of %s, want %s", r.key(), r.who, id[2])
		}
		checkRow(t, r, id[3], sources)
		if marked := marks[r.key()]; !slices.Equal(marked, ours(r)) {
			t.Errorf("%s: the table names %v, marked is %v (go test -rewrite brings the table in line)", r.key(), ours(r), marked)
		}
		delete(marks, r.key())
	}
	for key, tests := range marks {
		t.Errorf("%v mark %q, which no standard states", tests, key)
	}
}

// ours are the tests of this package a row names.
func ours(r row) []string {
	var list []string
	for _, test := range r.testList() {
		if name, ok := strings.CutPrefix(test, here+"."); ok {
			list = append(list, name)
		}
	}
	return list
}

func checkRow(t *testing.T, r row, requirement string, all *sources) {
	t.Helper()
	tests := r.testList()
	if r.who == "C" {
		if len(tests) > 0 || !strings.HasPrefix(r.note, "client only") {
			t.Errorf("%s is the client's part: no test, and a note that says \"client only\"", r.key())
		}
		return
	}
	if len(tests) == 0 && !strings.HasPrefix(r.note, "not offered: ") {
		t.Errorf("%s has no test: %s", r.key(), requirement)
	}
	for _, test := range tests {
		if err := all.check(test, r.id); err != nil {
			t.Errorf("%s: %v", r.key(), err)
		}
	}
}

// sources are the test files of packages, parsed once.
type sources struct{ packages map[string]*source }

type source struct {
	functions map[string]bool
	text      string
}

// check says what is wrong with a test as the table names it: package, function
// and, for what a subtest shows, a part of its name that stands in the package's
// test files.
func (s *sources) check(test, id string) error {
	dot := strings.Index(test, ".Test")
	if dot < 0 {
		return fmt.Errorf("%q is not <package>.Test<name>", test)
	}
	folder, name := test[:dot], test[dot+1:]
	name, sub, _ := strings.Cut(name, "/")
	if s.packages[folder] == nil {
		read, err := readSource(folder)
		if err != nil {
			return err
		}
		s.packages[folder] = read
	}
	p := s.packages[folder]
	switch {
	case !p.functions[name]:
		return fmt.Errorf("there is no %s in %s", name, folder)
	case sub != "" && !strings.Contains(p.text, sub):
		return fmt.Errorf("no test of %s has %q", folder, sub)
	}
	return nil
}

func testFiles(folder string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join("..", "..", folder, "*_test.go"))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s has no test files", folder)
	}
	return files, err
}

func readSource(folder string) (*source, error) {
	files, err := testFiles(folder)
	if err != nil {
		return nil, err
	}
	s := &source{functions: map[string]bool{}}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, 0)
		if err != nil {
			return nil, err
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				s.functions[f.Name.Name] = true
			}
		}
		s.text += string(text)
	}
	return s, nil
}

// readMarks reads the shows calls of this package: statement to the tests that
// mark it, sorted.
func readMarks(t *testing.T) map[string][]string {
	t.Helper()
	files, err := testFiles(here)
	if err != nil {
		t.Fatal(err)
	}
	marks := map[string][]string{}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(f.Name.Name, "Test") {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				for _, statement := range marked(t, path, n) {
					if slices.Contains(marks[statement], f.Name.Name) {
						t.Errorf("%s marks %s twice", f.Name.Name, statement)
						continue
					}
					marks[statement] = append(marks[statement], f.Name.Name)
				}
				return true
			})
		}
	}
	for _, tests := range marks {
		slices.Sort(tests)
	}
	return marks
}

// marked are the statements of a call of shows.
func marked(t *testing.T, path string, n ast.Node) []string {
	t.Helper()
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return nil
	}
	if f, ok := call.Fun.(*ast.Ident); !ok || f.Name != "shows" {
		return nil
	}
	var list []string
	for _, argument := range call.Args[1:] {
		literal, ok := argument.(*ast.BasicLit)
		if !ok {
			t.Fatalf("%s: shows takes literals only", path)
		}
		text, err := strconv.Unquote(literal.Value)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, text)
	}
	return list
}

// rewritten writes the table anew: this package's tests as they are marked, notes
// and the tests of other packages as they were.
func rewritten(t *testing.T, ids [][]string, old []row, marks map[string][]string) []row {
	t.Helper()
	before := map[string]row{}
	for _, r := range old {
		before[r.key()] = r
	}
	records := [][]string{{"version", "id", "who", "test", "note"}}
	var rows []row
	for _, id := range ids {
		r := row{version: id[0], id: id[1], who: id[2]}
		was := before[r.key()]
		var tests []string
		for _, name := range marks[r.key()] {
			tests = append(tests, here+"."+name)
		}
		for _, test := range was.testList() {
			if !strings.HasPrefix(test, here+".") {
				tests = append(tests, test)
			}
		}
		r.tests, r.note = strings.Join(tests, "; "), was.note
		if r.who == "C" && r.note == "" {
			r.note = "client only"
		}
		rows = append(rows, r)
		records = append(records, []string{r.version, r.id, r.who, r.tests, r.note})
	}
	f, err := os.Create(filepath.Join("testdata", "statements.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := csv.NewWriter(f).WriteAll(records); err != nil {
		t.Fatal(err)
	}
	return rows
}
