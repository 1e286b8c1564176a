package model

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"maestrohub.io/uns/broker/value"
)

var rewrite = flag.Bool("rewrite", false, "write the errors in testdata/bad as they are now")

// TestEveryRuleHasItsError parses testdata/bad: one file for each rule, and
// beside it the exact error.
func TestEveryRuleHasItsError(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in testdata/bad: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			m, err := Parse(data)
			var invalid *InvalidError
			if m != nil || !errors.As(err, &invalid) {
				t.Fatalf("parsed to %v, error %v, want an InvalidError", m, err)
			}
			expected := strings.TrimSuffix(file, ".yaml") + ".error"
			if *rewrite {
				if err := os.WriteFile(expected, []byte(err.Error()+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, readErr := os.ReadFile(expected)
			if readErr != nil {
				t.Fatal(readErr)
			}
			if got := err.Error() + "\n"; got != string(want) {
				t.Errorf("error:\n%swant:\n%s", got, want)
			}
		})
	}
}

func TestTooLargeOrTooWrongAFileIsRefusedShortly(t *testing.T) {
	_, err := Parse([]byte(strings.Repeat("#", MaxFileBytes+1)))
	const size = "model file is not valid: has 8388609 bytes, at most 8388608 are allowed"
	if err == nil || err.Error() != size {
		t.Errorf("error %v, want %s", err, size)
	}
	_, err = Parse([]byte("schemas:\n" + strings.Repeat("  1: {}\n", 5000)))
	var invalid *InvalidError
	if !errors.As(err, &invalid) || invalid.Total != 5000 || len(invalid.Problems) != maxProblems || !strings.HasSuffix(err.Error(), "\n  and 4900 more") {
		t.Errorf("5000 problems: %.100v", err)
	}
}

func TestTheExampleShowsEveryKey(t *testing.T) {
	m, err := Parse(Example())
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := m.Workspace("other"); ok {
		t.Error("the example is open to workspaces it does not list")
	}
	for _, key := range []string{"openWorkspaces", "workspaces", "slug", "id", "name", "bindings", "topic", "schema", "retain", "minQuality", "maxPayloadBytes",
		"alerts", "warn", "critical", "above", "below", "schemas", "type", "unit", "min", "max", "jsonSchema"} {
		if !strings.Contains(string(Example()), key+":") {
			t.Errorf("the example does not show %s", key)
		}
	}
	for _, name := range types {
		if name != Any && !strings.Contains(string(Example()), "type: "+string(name)) {
			t.Errorf("the example does not show the type %s", name)
		}
	}
	temperature := plant(t, "line/7/temperature")
	if temperature.Filter != "line/+/temperature" || temperature.Schema != "temperature" || temperature.Unit != "°C" ||
		!temperature.Alerts || temperature.Retain || temperature.MinQuality != value.Uncertain {
		t.Errorf("line/7/temperature is %+v", temperature)
	}
	recipe := plant(t, "line/7/recipe")
	if !recipe.Retain || recipe.MaxPayloadBytes != 4096 || recipe.Type != Object {
		t.Errorf("line/7/recipe is %+v", recipe)
	}
	if _, v := recipe.Read([]byte(`{"name":"cake","steps":[{"heat":80,"seconds":60}]}`)); v != nil {
		t.Error(v)
	}
	const want = "schema: value does not fit schema recipe: at /steps/0: missing property 'seconds'; at /steps/0/heat: maximum: got 800, want 120"
	if _, v := recipe.Read([]byte(`{"name":"cake","steps":[{"heat":800}]}`)); v == nil || v.Error() != want {
		t.Errorf("violation %v, want %s", v, want)
	}
	if plant(t, "camera/1/front").Type != Opaque || plant(t, "other").Type != Any {
		t.Error("camera/1/front is not opaque or other has a type")
	}
}

func TestTheFirstBindingThatMatchesCounts(t *testing.T) {
	m, err := Parse([]byte(`
workspaces:
  - slug: w
    bindings: &shared
      - {topic: a/b, maxPayloadBytes: 1}
      - {topic: a/+, maxPayloadBytes: 2}
      - {topic: +/b, maxPayloadBytes: 3}
      - {topic: a/#, maxPayloadBytes: 4}
      - {topic: "#", maxPayloadBytes: 5}
  - slug: shared
    bindings: *shared
`))
	if err != nil {
		t.Fatal(err)
	}
	for _, slug := range []string{"w", "shared"} {
		w, _ := m.Workspace(slug)
		for name, want := range map[string]int{"a/b": 1, "a/c": 2, "a/": 2, "x/b": 3, "a": 4, "a/b/c": 4, "x": 5, "$x": 5, "$a/b": 3, "/": 5} {
			if got := w.Topic(name).MaxPayloadBytes; got != want {
				t.Errorf("%s: topic %q is by binding %d, want %d", slug, name, got, want)
			}
		}
	}
}

func TestWorkspacesExistAsTheFileSays(t *testing.T) {
	parse := func(text string) *Model {
		t.Helper()
		m, err := Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	cases := []struct {
		name          string
		m             *Model
		listed, other bool
	}{
		{"no file", Empty(), true, true},
		{"none listed", parse("{}"), true, true},
		{"none listed, closed", parse("openWorkspaces: false"), false, false},
		{"one listed", parse("workspaces: [{slug: listed, id: L1}]"), true, false},
		{"one listed, open", parse("workspaces: [{slug: listed}]\nopenWorkspaces: true"), true, true},
	}
	for _, c := range cases {
		for slug, want := range map[string]bool{"listed": c.listed, "other": c.other, "": false, "a/b": false, "_errors": false, strings.Repeat("a", 64): false} {
			w, ok := c.m.Workspace(slug)
			if ok != want || ok && w.Slug != slug {
				t.Errorf("%s: workspace %q exists: %v, want %v", c.name, slug, ok, want)
			}
		}
	}
	if w, _ := cases[3].m.Workspace("listed"); w.ID != "L1" {
		t.Errorf("id %q, want L1", w.ID)
	}
	open := Empty()
	for i := range 3 * maxOpened {
		if w, ok := open.Workspace(fmt.Sprint("w", i)); !ok || w.ID != w.Slug || w.Topic("a") != unbound {
			t.Fatalf("workspace %d of an open model: %+v, %v", i, w, ok)
		}
	}
	kept := 0
	open.opened.Range(func(any, any) bool { kept++; return true })
	if kept != maxOpened {
		t.Errorf("%d workspaces are kept, want %d", kept, maxOpened)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(Example())
	files, _ := filepath.Glob("testdata/bad/*.yaml")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Parse(data)
		var invalid *InvalidError
		if err == nil == (m == nil) || err != nil && (!errors.As(err, &invalid) || len(invalid.Problems) == 0) {
			t.Fatalf("parsed to %v, %v", m, err)
		}
		if err != nil {
			return
		}
		for _, w := range m.workspaces {
			for _, name := range []string{"a", "line/1/temperature", "$x"} {
				topic := w.Topic(name)
				for _, payload := range []string{"1", `{"value":{"a":[1]}}`, `"x"`} {
					if r, v := topic.Read([]byte(payload)); v == nil {
						topic.Alarm(r)
					}
				}
			}
		}
	})
}

func BenchmarkWorkspaceTopic(b *testing.B) {
	var text strings.Builder
	text.WriteString("workspaces:\n  - slug: w\n    bindings:\n")
	for i := range 5_000 {
		fmt.Fprintf(&text, "      - {topic: line-%d/+/temperature, retain: true}\n", i)
	}
	m, err := Parse([]byte(text.String()))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		w, _ := m.Workspace("w")
		if !w.Topic("line-4711/cell-3/temperature").Retain {
			b.Fatal("no binding found")
		}
	}
}

func BenchmarkParseExample(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(Example()); err != nil {
			b.Fatal(err)
		}
	}
}
