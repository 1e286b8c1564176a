package model

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// text is a valid file whose workspace w has the name.
func text(name string) []byte {
	return fmt.Appendf(nil, "workspaces: [{slug: w, name: %s}]\n", name)
}

// inForce returns the name of workspace w.
func inForce(f *File) string {
	w, ok := f.Current().Workspace("w")
	if !ok {
		return ""
	}
	return w.Name
}

// await waits for a condition that a notification of the kernel brings about.
func await(t *testing.T, what string, met func() bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for tick := time.Tick(5 * time.Millisecond); !met(); {
		select {
		case <-tick:
		case <-deadline:
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}

// output gathers log lines of the watching goroutine.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func opened(t *testing.T, path string) (*File, *output) {
	t.Helper()
	out := &output{}
	f, err := Open(path, slog.New(slog.NewTextHandler(out, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f, out
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestAChangedFileIsTakenAndAWrongOneRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.yaml")
	write(t, path, text("one"))
	f, out := opened(t, path)
	if inForce(f) != "one" || f.Err() != nil {
		t.Fatalf("in force: %q, %v", inForce(f), f.Err())
	}

	write(t, path, text("two")) // in place
	await(t, "a file written in place is taken", func() bool { return inForce(f) == "two" })

	write(t, path+".new", text("three")) // by renaming, as it should be
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	await(t, "a file renamed over it is taken", func() bool { return inForce(f) == "three" })

	write(t, path, []byte("workspaces: [{slug: w, name: four, color: red}]\n"))
	await(t, "a wrong file is refused", func() bool { return f.Err() != nil })
	want := path + ": model file is not valid: line 1: workspaces[0].color: is not a key of the model file; here it may be slug, id, name, bindings"
	if f.Err().Error() != want {
		t.Errorf("error %v, want %s", f.Err(), want)
	}
	if inForce(f) != "three" {
		t.Errorf("a wrong file put %q in force", inForce(f))
	}

	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	await(t, "an emptied file is refused", func() bool { return strings.Contains(fmt.Sprint(f.Err()), "is empty") })

	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	await(t, "a file that is gone is reported", func() bool { return strings.Contains(fmt.Sprint(f.Err()), "no such file") })
	if inForce(f) != "three" {
		t.Errorf("without the file %q is in force", inForce(f))
	}

	write(t, path, text("three")) // what is in force: nothing to take, but no error either
	await(t, "the file of before is right again", func() bool { return f.Err() == nil })
	for _, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		if !strings.Contains(line, `msg="embedded broker: `) {
			t.Errorf("log line without its prefix: %s", line)
		}
	}
	if n := strings.Count(out.String(), "color"); n != 1 {
		t.Errorf("the wrong file is in the log %d times:\n%s", n, out)
	}
}

// TestAConfigMapIsFollowed changes a file as Kubernetes does in a volume: the
// file is a link through a link to a folder, and the latter is replaced.
func TestAConfigMapIsFollowed(t *testing.T) {
	dir := t.TempDir()
	publish := func(version string, data []byte) {
		t.Helper()
		if err := os.Mkdir(filepath.Join(dir, version), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, version, "model.yaml"), data)
		link := filepath.Join(dir, "..data_tmp")
		if err := os.Symlink(version, link); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(link, filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	publish("..v1", text("one"))
	path := filepath.Join(dir, "model.yaml")
	if err := os.Symlink(filepath.Join("..data", "model.yaml"), path); err != nil {
		t.Fatal(err)
	}
	f, _ := opened(t, path)
	for i, name := range []string{"two", "three"} {
		publish(fmt.Sprint("..v", i+2), text(name))
		if err := os.RemoveAll(filepath.Join(dir, fmt.Sprint("..v", i+1))); err != nil {
			t.Fatal(err)
		}
		await(t, "version "+name+" is taken", func() bool { return inForce(f) == name })
	}
	publish("..v4", []byte("nonsense"))
	await(t, "a wrong version is refused", func() bool { return f.Err() != nil })
	if inForce(f) != "three" {
		t.Errorf("in force: %q", inForce(f))
	}
}

func TestALinkedFileElsewhereIsFollowed(t *testing.T) {
	target := filepath.Join(t.TempDir(), "target.yaml")
	write(t, target, text("one"))
	path := filepath.Join(t.TempDir(), "model.yaml")
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
	f, _ := opened(t, path)
	write(t, target, text("two"))
	await(t, "a change of the target is taken", func() bool { return inForce(f) == "two" })
}

func TestAStartNeedsARightFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.yaml")
	if _, err := Open(path, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "read model file: open "+path) {
		t.Errorf("a missing file: %v", err)
	}
	write(t, path, []byte("workspaces: 1"))
	const want = "model file is not valid: line 1: workspaces: is 1, must be a list"
	if _, err := Open(path, slog.New(slog.DiscardHandler)); err == nil || err.Error() != path+": "+want {
		t.Errorf("a wrong file: %v, want %s", err, want)
	}
}

func TestWithoutAPathTheModelIsEmpty(t *testing.T) {
	f, _ := opened(t, "")
	if w, ok := f.Current().Workspace("any"); !ok || w.ID != "any" || f.Err() != nil {
		t.Errorf("workspace %+v, %v; error %v", w, ok, f.Err())
	}
	f.Close()
	f.Close()
}

func TestWithoutNotificationsTheFileIsReadAtIntervals(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.yaml")
	write(t, path, text("one"))
	synctest.Test(t, func(t *testing.T) {
		f := &File{path: path, log: slog.New(slog.DiscardHandler), stop: make(chan struct{}), done: make(chan struct{})}
		f.reload()
		go f.run(nil, nil)
		defer f.Close()
		time.Sleep(recheck / 2) // virtual
		write(t, path, text("two"))
		synctest.Wait()
		if inForce(f) != "one" {
			t.Fatalf("in force before the interval is over: %q", inForce(f))
		}
		time.Sleep(recheck)
		synctest.Wait()
		if inForce(f) != "two" {
			t.Errorf("in force after the interval: %q", inForce(f))
		}
	})
}
