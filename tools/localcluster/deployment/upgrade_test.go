package deployment

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"maestrohub.io/uns/tools/launch"
)

// Whatever is given as the new program of a replica: it serves afterwards, as the new one
// or as it was, and who asked is told which and why.
func TestAReplicaServesAfterAnUpgradeToABadProgram(t *testing.T) {
	program, err := launch.BuildBroker()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	b, err := launch.PrepareBroker(launch.BrokerOptions{Binary: program, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	r := &Replica{Broker: b, ID: "uns-0"}
	t.Cleanup(r.Kill)
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	// One that is the broker but for what it does when it is run.
	script := func(name, run string) string {
		return file(name, fmt.Sprintf("#!/bin/sh\n[ \"$1\" != version ] || exec %s version\n%s\n", program, run), 0o755)
	}
	readyBound = 5 * time.Second
	t.Cleanup(func() { readyBound = time.Minute })
	for _, c := range []struct {
		program, want string
		stopped       bool // for it
	}{
		{filepath.Join(dir, "none"), "there is no program " + dir + "/none; `go build -o bin/broker ./broker` makes one; uns-0 is left as it is", false},
		{dir, "is no program: it is drwx", false},
		{file("config.txt", "text", 0o644), "config.txt is no program: it is -rw-r--r--", false},
		{file("text", "text", 0o755), "is no broker, by what it answers to `version`: ", false},
		{"/bin/true", "is no broker, by what it answers to `version`: \"\"; uns-0 is left as it is", false},
		{"/bin/false", "is no broker, by what it answers to `version`: exit status 1", false},
		{script("ends", "echo a message of it; exit 3"), "uns-0 does not serve as " + dir + "/ends and runs as its former program again, " + program + ": broker ended before it was ready; it printed:\na message of it", true},
		{script("hangs", "exec sleep 600"), "uns-0 does not serve as " + dir + "/hangs and runs as its former program again, " + program + ": broker is not ready", true},
	} {
		before := r.Process().PID()
		err := r.Upgrade(t.Context(), c.program)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("upgrade to %s: %v, want %q", c.program, err, c.want)
		}
		if err := r.Ready(t.Context()); err != nil || r.Binary() != program || (r.Process().PID() != before) != c.stopped {
			t.Fatalf("after an upgrade to %s: %v, the program is %s, process %d, before %d", c.program, err, r.Binary(), r.Process().PID(), before)
		}
	}

	// Built in the place of what runs: that is kept.
	readyBound = time.Minute
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	built := filepath.Join(dir, "broker")
	build := func(text string) {
		t.Helper()
		if err := os.WriteFile(built+".new", []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(built+".new", built); err != nil {
			t.Fatal(err)
		}
	}
	build(string(text))
	if err := r.Upgrade(t.Context(), built); err != nil || r.Binary() != built {
		t.Fatalf("upgrade to another broker: %v, the program is %s", err, r.Binary())
	}
	for range 2 { // what was kept is a former program, too
		build(fmt.Sprintf("#!/bin/sh\n[ \"$1\" != version ] || exec %s version\n", program))
		if err := r.Upgrade(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "runs as its former program again") {
			t.Errorf("upgrade to what does not serve, in the same place: %v", err)
		}
		if err := r.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.SetBinary(built)
	}
	build(string(text))
	if err := r.Upgrade(t.Context(), built); err != nil {
		t.Fatal(err)
	}
	// One that does not run has nothing that runs to go back to.
	r.Kill()
	build("#!/bin/sh\necho broker no more\n")
	if err := r.Upgrade(t.Context(), built); err == nil || !strings.Contains(err.Error(), "there is no other program to go back to") {
		t.Errorf("upgrade of a dead one to what does not serve, in the same place: %v", err)
	}
}
