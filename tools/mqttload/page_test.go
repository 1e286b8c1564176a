package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestThePageGetsTableAndPictureBetweenItsMarks(t *testing.T) {
	r := fixture(t)
	page := "before\n<!-- bench:begin -->\nold\n<!-- bench:end -->\nafter\n<!-- bench-cluster:begin -->\nkept\n<!-- bench-cluster:end -->\n"
	got, err := r.into(page)
	if err != nil {
		t.Fatal(err)
	}
	want := "before\n<!-- bench:begin -->\n![this broker beside its peers, the table below as a picture](../tools/mqttload/figures/bench.svg)\n\n" +
		table(t, r) + "<!-- bench:end -->\nafter\n<!-- bench-cluster:begin -->\nkept\n<!-- bench-cluster:end -->\n"
	if got != want {
		t.Errorf("the page is\n%s\nwant\n%s", got, want)
	}
	if again, err := r.into(got); err != nil || again != got {
		t.Errorf("a second time it is another (%v):\n%s", err, again)
	}
	if _, err := r.into("a page without marks"); err == nil || !strings.Contains(err.Error(), "bench:begin") {
		t.Errorf("error %v, want one that names the mark", err)
	}
}

func TestTheTableOfAResultFileIsMadeByTheCommand(t *testing.T) {
	content, err := os.ReadFile("testdata/run.json")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "run.json")
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := execute(t, pageCommand(), []string{path}); err != nil {
		t.Fatal(err)
	}
	picture, err := os.ReadFile(strings.TrimSuffix(path, ".json") + ".svg")
	if err != nil {
		t.Fatal(err)
	}
	if string(picture) != drawn(t, fixture(t)) {
		t.Error("the picture beside the result file is not that of the run")
	}
}

// What readers see is what the kept result files say.
func TestTheFiguresOfTheReadmeAreThoseOfTheResultFiles(t *testing.T) {
	content, err := os.ReadFile("../../" + readme)
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{aloneCommand, clusterCommand} {
		kept := filepath.Join("../..", figuresDir, command)
		r, err := load(kept + ".json")
		if err != nil {
			t.Fatal(err)
		}
		if r.Command != command {
			t.Errorf("%s.json is a run of %s", kept, r.Command)
		}
		page, err := r.into(string(content))
		if err != nil {
			t.Fatal(err)
		}
		picture, err := os.ReadFile(kept + ".svg")
		if err != nil {
			t.Fatal(err)
		}
		if page != string(content) || string(picture) != drawn(t, r) {
			t.Errorf("%s or %s.svg is not what %s.json says: go run ./tools/mqttload page %s/%s.json --rewrite", readme, kept, kept, figuresDir, command)
		}
		elements(t, string(picture))
	}
}
