package planted_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var only = flag.String("bug", "", "look for this bug alone, and print the history that shows it")

// root is the repository, seen from this package.
const root = "../../.."

// hook is the file that is added to each package with a bug.
const hook = `package %s

import "os"

var plantedBug = os.Getenv("PLANTED")

func planted(name string) bool { return plantedBug == name }

func first[A, B any](a A, _ B) A { return a }
`

// furtherSeeds is how many more seeds are tried for a bug that none of its own finds.
const furtherSeeds = 8

// build builds the simulation with all bugs in it, none switched on, as the release after
// this one: that has a format to roll to.
func build(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	replace := map[string]string{}
	sources := map[string]string{}
	for _, b := range bugs {
		for _, e := range b.edits {
			path, err := filepath.Abs(filepath.Join(root, "broker", e.file))
			if err != nil {
				t.Fatal(err)
			}
			if sources[path] == "" {
				content, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				sources[path] = string(content)
			}
			if n := strings.Count(sources[path], e.old); n != 1 {
				t.Fatalf("bug %s cannot be planted: what it replaces stands %d times in broker/%s, want once. Put it into the new text:\n%s", b.name, n, e.file, e.old)
			}
			sources[path] = strings.Replace(sources[path], e.old, e.new, 1)
		}
	}
	write := func(path, content string) {
		file := filepath.Join(dir, fmt.Sprintf("%d.go", len(replace)))
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[path] = file
	}
	hooked := map[string]bool{}
	for path, content := range sources {
		write(path, content)
		if folder := filepath.Dir(path); !hooked[folder] {
			hooked[folder] = true
			write(filepath.Join(folder, "planted_bug.go"), fmt.Sprintf(hook, filepath.Base(folder)))
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	file, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "simulation.test")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.Command("go", "test", "-c", "-tags", "nextrelease", "-overlay", file, "-o", binary, "./tests/simulation")
	command.Dir = root
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("build the simulation with bugs: %v\n%s", err, out)
	}
	return binary
}

func TestTheSimulationFindsPlantedBugs(t *testing.T) {
	binary := build(t)
	if *only == "" {
		t.Run("none", func(t *testing.T) {
			out, err := exec.Command(binary, "-test.v", "-test.timeout", "5m", "-test.run", "^TestARollingUpgradeWritesWhatAllRead$").CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		})
	}
	for _, b := range bugs {
		if *only != "" && b.name != *only {
			continue
		}
		t.Run(b.name, func(t *testing.T) {
			var last string
			// found runs the simulation with the bug, and reports whether it says so.
			found := func(args ...string) bool {
				command := exec.Command(binary, append([]string{"-test.v", "-test.timeout", "5m"}, args...)...)
				command.Env = append(os.Environ(), "PLANTED="+b.name)
				out, err := command.CombinedOutput()
				last = string(out)
				if *only != "" {
					t.Log(last)
				}
				return err != nil && strings.Contains(last, "VIOLATION") && strings.Contains(last, b.violation)
			}
			if b.test != "" {
				if !found("-test.run", b.test) {
					t.Errorf("not found by %s: %s", b.test, b.without)
				}
				return
			}
			// Those that have found it before, then others: which do changes with the code.
			seeds := b.seeds[:len(b.seeds):len(b.seeds)]
			for seed := uint64(101); seed <= 100+furtherSeeds; seed++ {
				seeds = append(seeds, seed)
			}
			for _, seed := range seeds {
				if found(append([]string{"-test.run", "^TestSeed$", "-seed", fmt.Sprint(seed)}, b.args...)...) {
					t.Logf("found with seed %d", seed)
					return
				}
			}
			t.Errorf("not found with the seeds %d: %s", seeds, b.without)
		})
	}
}
