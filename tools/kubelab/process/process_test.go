package process

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func open(t *testing.T) *Table {
	t.Helper()
	table, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		records, err := table.List()
		if err != nil {
			t.Error(err)
		}
		for _, r := range records {
			if err := table.Stop(context.Background(), r.Name, syscall.SIGKILL, time.Second); err != nil {
				t.Error(err)
			}
		}
	})
	return table
}

func alive(t *testing.T, table *Table, name string) bool {
	t.Helper()
	is, err := table.Alive(name)
	if err != nil {
		t.Fatal(err)
	}
	return is
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if condition() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited 10 s for %s", what)
		}
	}
}

func TestAProgramIsFoundAndStoppedByAnotherTable(t *testing.T) {
	table := open(t)
	if err := table.Start("sleeper", "sleep", "600"); err != nil {
		t.Fatal(err)
	}
	if err := table.Start("sleeper", "sleep", "600"); err == nil {
		t.Error("a second program was started under the name of one that runs")
	}
	later, err := Open(filepath.Dir(table.records))
	if err != nil {
		t.Fatal(err)
	}
	if !alive(t, later, "sleeper") {
		t.Fatal("the program is not found")
	}
	if err := later.Stop(t.Context(), "sleeper", syscall.SIGTERM, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	if alive(t, table, "sleeper") {
		t.Error("it runs after Stop")
	}
	if err := later.Stop(t.Context(), "sleeper", syscall.SIGTERM, time.Second); err != nil {
		t.Errorf("to stop what is stopped: %v", err)
	}
}

func TestAProgramThatDoesNotListenIsKilled(t *testing.T) {
	table := open(t)
	if err := table.Start("deaf", "sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the program to be ready", func() bool { return table.Tail("deaf", 1) == "ready" })
	began := time.Now()
	if err := table.Stop(t.Context(), "deaf", syscall.SIGTERM, 100*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 100*time.Millisecond {
		t.Errorf("killed after %v, before its grace", took)
	}
}

func TestAnotherProcessUnderTheRecordedIDIsLeftAlone(t *testing.T) {
	table := open(t)
	if err := table.Start("mine", "sleep", "600"); err != nil {
		t.Fatal(err)
	}
	records, err := table.List()
	if err != nil || len(records) != 1 {
		t.Fatalf("%v, %v", records, err)
	}
	for what, change := range map[string]func(*Record){
		"started at another moment": func(r *Record) { r.Since++ },
		"of another boot":           func(r *Record) { r.Boot = "another" },
	} {
		other := records[0]
		other.Name = "other"
		change(&other)
		if err := table.save(other); err != nil {
			t.Fatal(err)
		}
		if alive(t, table, "other") {
			t.Errorf("a process %s counts as the recorded one", what)
		}
		if err := table.Stop(t.Context(), "other", syscall.SIGKILL, time.Second); err != nil {
			t.Error(err)
		}
		if !alive(t, table, "mine") {
			t.Fatalf("stopping a record of a process %s killed the one that has its id", what)
		}
	}
}

func TestAProgramThatEndsAtOnceIsSaidToHaveEnded(t *testing.T) {
	table := open(t)
	if err := table.Start("brief", "sh", "-c", "echo why; exit 3"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its end", func() bool { return !alive(t, table, "brief") })
	if got := table.Tail("brief", 5); got != "why" {
		t.Errorf("its log ends with %q", got)
	}
	if err := table.Start("nonsense", filepath.Join(t.TempDir(), "nothing")); err == nil || !strings.Contains(err.Error(), "start nonsense") {
		t.Errorf("to start what is not there: %v", err)
	}
	if _, err := os.Stat(table.record("nonsense")); err == nil {
		t.Error("what did not start has a record")
	}
}
