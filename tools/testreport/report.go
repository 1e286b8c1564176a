package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sort"
	"strings"
)

// event is one line of `go test -json` (see go doc test2json), with the fields
// of build events (go doc go help buildjson).
type event struct {
	Action      string
	Package     string
	ImportPath  string
	Test        string
	Output      string
	Elapsed     float64 // seconds
	FailedBuild string
}

// test is what is known of one test or subtest.
type test struct {
	output      []string
	hasSubtests bool
	// began: the test itself was heard of. A subtest named "a/b" has a parent by name
	// only, which never runs.
	began  bool
	result string // "", "pass", "fail", "skip"
}

// pkg is what is known of one package's test binary.
type pkg struct {
	tests  map[string]*test
	output []string // printed outside any test
}

// report gathers events and prints as packages end.
type report struct {
	out      io.Writer
	packages map[string]*pkg
	builds   map[string][]string // compiler output by import path
	failures []failure           // in the order met
	unsteady []failure           // that did not fail when they ran again
	slow     []timing
	passed   int
	skipped  int
	total    string // file that adds up several runs; "": this is the only one
}

// failure is one test, or a package outside its tests, that did not pass.
type failure struct {
	pkg  string
	test string // empty: the package outside its tests
	text string // what is printed, output and all
}

type timing struct {
	pkg     string
	seconds float64
}

func newReport(out io.Writer) *report {
	return &report{out: out, packages: map[string]*pkg{}, builds: map[string][]string{}}
}

func (r *report) failed() int { return len(r.failures) }

func (r *report) countFailure(f failure) { r.failures = append(r.failures, f) }

// read consumes events until the stream ends. Lines that are not events are
// passed on, so that nothing go test says is lost.
func (r *report) read(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			var e event
			if json.Unmarshal(line, &e) == nil && e.Action != "" {
				r.add(e)
			} else {
				fmt.Fprintf(r.out, "%s", line)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *report) add(e event) {
	switch e.Action {
	case "build-output":
		r.builds[e.ImportPath] = append(r.builds[e.ImportPath], e.Output)
		return
	case "build-fail":
		return // its package fails next, naming the build
	}
	p := r.packages[e.Package]
	if p == nil {
		p = &pkg{tests: map[string]*test{}}
		r.packages[e.Package] = p
	}
	if e.Test == "" {
		switch e.Action {
		case "output":
			p.output = append(p.output, e.Output)
		case "pass", "fail", "skip":
			r.endPackage(e, p)
		}
		return
	}
	t := p.test(e.Test)
	t.began = true
	switch e.Action {
	case "output":
		t.output = append(t.output, e.Output)
		if row, is := tableRow(e.Output); is {
			fmt.Fprintln(r.out, row)
		}
	case "pass", "fail", "skip":
		t.result = e.Action
		if e.Action != "fail" {
			t.output = nil
		}
	}
}

// tableRow finds a row of a table that a test has logged ("x_test.go:12: | … | … |"):
// what was measured is worth a line also when all is well.
func tableRow(output string) (row string, is bool) {
	_, row, is = strings.Cut(output, ".go:")
	if !is {
		return "", false
	}
	_, row, is = strings.Cut(row, ": ")
	row = strings.TrimSpace(row)
	return row, is && strings.HasPrefix(row, "| ") && strings.HasSuffix(row, " |")
}

// test returns the named test, and notes of its parents that they have subtests.
func (p *pkg) test(name string) *test {
	t := p.tests[name]
	if t != nil {
		return t
	}
	t = &test{}
	p.tests[name] = t
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		p.test(name[:i]).hasSubtests = true
	}
	return t
}

// endPackage counts a package's tests, prints its line and keeps its failures.
func (r *report) endPackage(e event, p *pkg) {
	delete(r.packages, e.Package)
	names := make([]string, 0, len(p.tests))
	for name := range p.tests {
		names = append(names, name)
	}
	sort.Strings(names)
	before := len(r.failures)
	for _, name := range names {
		t := p.tests[name]
		switch {
		case t.result == "pass" && !t.hasSubtests:
			r.passed++
		case t.result == "skip" && !t.hasSubtests:
			r.skipped++
		case t.result == "fail", t.result == "" && t.began:
			// Unfinished: the binary died under it. A parent whose subtest
			// failed has nothing of its own to say.
			if !t.hasSubtests || !p.subtestFailed(names, name) {
				r.countFailure(failure{e.Package, name, fmt.Sprintf("%s %s\n%s", e.Package, name, strings.Join(t.output, ""))})
			}
		}
	}
	if e.Action == "fail" && len(r.failures) == before {
		text := strings.Join(p.output, "")
		if e.FailedBuild != "" {
			text = strings.Join(r.builds[e.FailedBuild], "")
		}
		r.countFailure(failure{pkg: e.Package, text: fmt.Sprintf("%s\n%s", e.Package, text)})
	} else if len(r.failures) > before {
		// Panics and data races of goroutines may be attributed to no test.
		if text := strings.Join(p.output, ""); strings.Contains(text, "panic:") || strings.Contains(text, "DATA RACE") {
			r.failures[len(r.failures)-1].text += text
		}
	}
	r.slow = append(r.slow, timing{e.Package, e.Elapsed})
	verdict := map[string]string{"pass": "ok  ", "fail": "FAIL", "skip": "none"}[e.Action]
	fmt.Fprintf(r.out, "%s  %s  %.1fs\n", verdict, e.Package, e.Elapsed)
	for _, f := range r.failures[before:] {
		fmt.Fprintf(r.out, "--- FAIL: %s\n", strings.TrimRight(f.text, "\n"))
	}
}

// subtestFailed reports whether a test below parent failed or never ended.
func (p *pkg) subtestFailed(names []string, parent string) bool {
	for _, name := range names {
		if strings.HasPrefix(name, parent+"/") && (p.tests[name].result == "fail" || p.tests[name].result == "" && p.tests[name].began) {
			return true
		}
	}
	return false
}

// finish ends the count and prints the summary.
func (r *report) finish() {
	r.endAll()
	r.summarize()
}

// endAll counts packages that never ended as failures.
func (r *report) endAll() {
	unfinished := make([]string, 0, len(r.packages))
	for name := range r.packages {
		unfinished = append(unfinished, name)
	}
	sort.Strings(unfinished)
	for _, name := range unfinished {
		r.endPackage(event{Action: "fail", Package: name}, r.packages[name])
	}
}

// summarize prints the slowest packages, what failed, and the count.
func (r *report) summarize() {
	sort.Slice(r.slow, func(i, j int) bool { return r.slow[i].seconds > r.slow[j].seconds })
	if len(r.slow) > 5 {
		fmt.Fprint(r.out, "\nslowest:")
		for _, t := range r.slow[:5] {
			fmt.Fprintf(r.out, " %s %.0fs", t.pkg[strings.LastIndexByte(t.pkg, '/')+1:], t.seconds)
		}
		fmt.Fprintln(r.out)
	}
	for _, list := range []struct {
		title    string
		failures []failure
	}{{"failed at first, passed when run again alone:", r.unsteady}, {"failed:", r.failures}} {
		if len(list.failures) > 0 {
			fmt.Fprintf(r.out, "\n%s\n", list.title)
		}
		for _, f := range list.failures {
			fmt.Fprintf(r.out, "  %s\n", strings.SplitN(f.text, "\n", 2)[0])
		}
	}
	sum := count{r.passed, len(r.failures), r.skipped}
	if r.total != "" {
		var err error
		if sum, err = sum.addTo(r.total); err != nil {
			r.countFailure(failure{text: err.Error()})
			fmt.Fprintf(r.out, "\n%v\n", err)
			sum.failed++
		}
	}
	fmt.Fprintf(r.out, "\n%v\n", sum)
}

// count is what the last line says.
type count struct{ passed, failed, skipped int }

const countFormat = "%d passed, %d failed, %d skipped"

func (c count) String() string { return fmt.Sprintf(countFormat, c.passed, c.failed, c.skipped) }

// addTo adds what the runs before have left in a file, and leaves the sum there.
func (c count) addTo(file string) (count, error) {
	content, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return c, fmt.Errorf("sum of the runs before: %w", err)
	}
	if len(content) > 0 {
		var before count
		if _, err := fmt.Sscanf(string(content), countFormat, &before.passed, &before.failed, &before.skipped); err != nil {
			return c, fmt.Errorf("sum of the runs before, %s: %q must be like %q", file, content, count{})
		}
		c = count{c.passed + before.passed, c.failed + before.failed, c.skipped + before.skipped}
	}
	if err := os.WriteFile(file, []byte(c.String()), 0o600); err != nil {
		return c, fmt.Errorf("sum of the runs so far: %w", err)
	}
	return c, nil
}
