package process

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Table is the programs of one owner.
type Table struct {
	records, logs string
}

// Record is what is known of a program once it was started.
type Record struct {
	Name  string   `json:"name"`
	PID   int      `json:"pid"`
	Since uint64   `json:"since"` // clock ticks after the boot, as /proc/<pid>/stat has it
	Boot  string   `json:"boot"`  // the boot's id
	Args  []string `json:"args"`
}

// Open returns the table kept in a folder, which it makes.
func Open(dir string) (*Table, error) {
	t := &Table{records: filepath.Join(dir, "processes"), logs: filepath.Join(dir, "logs")}
	for _, d := range []string{t.records, t.logs} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, fmt.Errorf("open the process table: %w", err)
		}
	}
	return t, nil
}

// Start runs a program under a name that no running program of the table has.
func (t *Table) Start(name string, args ...string) error {
	if alive, err := t.Alive(name); err != nil || alive {
		if err == nil {
			err = errors.New("it runs already")
		}
		return fmt.Errorf("start %s: %w", name, err)
	}
	log, err := os.OpenFile(t.Log(name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	defer log.Close()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	pid := cmd.Process.Pid
	// Read before Wait can reap it: a zombie still has a stat.
	stat, err := read(pid)
	go func() { _ = cmd.Wait() }() // how it ended is in its log
	boot, bootErr := bootID()
	if err = errors.Join(err, bootErr); err == nil {
		err = t.save(Record{Name: name, PID: pid, Since: stat.since, Boot: boot, Args: args})
	}
	if err != nil {
		_ = cmd.Process.Kill() // nobody would ever find it
		return fmt.Errorf("start %s: %w", name, err)
	}
	return nil
}

// save writes a record whole or not at all.
func (t *Table) save(r Record) error {
	content, err := json.Marshal(r)
	if err != nil {
		return err
	}
	path := t.record(r.Name)
	if err := os.WriteFile(path+".new", content, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func (t *Table) record(name string) string { return filepath.Join(t.records, name+".json") }

// Log is the path of what a program has printed.
func (t *Table) Log(name string) string { return filepath.Join(t.logs, name+".log") }

// Tail is the last lines a program has printed.
func (t *Table) Tail(name string, lines int) string {
	content, err := os.ReadFile(t.Log(name))
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(content), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// List returns the records in the order of their names.
func (t *Table) List() ([]Record, error) {
	paths, err := filepath.Glob(filepath.Join(t.records, "*.json"))
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	sort.Strings(paths)
	var records []Record
	for _, p := range paths {
		r, err := load(p)
		if err != nil {
			return nil, fmt.Errorf("list processes: %w", err)
		}
		records = append(records, r)
	}
	return records, nil
}

func load(path string) (Record, error) {
	var r Record
	content, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(content, &r); err != nil {
		return r, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// Alive reports whether the program recorded under a name runs; none recorded is
// none that runs.
func (t *Table) Alive(name string) (bool, error) {
	r, err := load(t.record(name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return r.Alive(), nil
}

// Alive reports whether the recorded process still runs; a zombie does not.
func (r Record) Alive() bool {
	stat, err := read(r.PID)
	if err != nil || stat.since != r.Since || stat.state == "Z" || stat.state == "X" {
		return false
	}
	boot, err := bootID()
	return err == nil && boot == r.Boot
}

// Stop ends a program: with the signal, then with SIGKILL after the grace. Its
// record goes once the process is gone. One that does not run is no error.
func (t *Table) Stop(ctx context.Context, name string, signal syscall.Signal, grace time.Duration) error {
	r, err := load(t.record(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("stop %s: %w", name, err)
	}
	for _, s := range []struct {
		signal syscall.Signal
		grace  time.Duration
	}{{signal, grace}, {syscall.SIGKILL, 10 * time.Second}} {
		if !r.Alive() {
			break
		}
		if err := syscall.Kill(r.PID, s.signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("stop %s (pid %d): %w", name, r.PID, err)
		}
		r.await(ctx, s.grace)
	}
	if r.Alive() {
		return fmt.Errorf("stop %s: pid %d is still there after SIGKILL", name, r.PID)
	}
	return os.Remove(t.record(name))
}

// await waits until the process is gone, at most so long.
func (r Record) await(ctx context.Context, grace time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for r.Alive() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// stat is what /proc says of a process.
type stat struct {
	state string
	since uint64
}

func read(pid int) (stat, error) {
	content, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, err
	}
	// pid (name, which may hold anything) state ... with the start as the 22nd field.
	fields := bytes.Fields(content[bytes.LastIndexByte(content, ')')+1:])
	if len(fields) < 20 {
		return stat{}, fmt.Errorf("/proc/%d/stat holds %q", pid, content)
	}
	since, err := strconv.ParseUint(string(fields[19]), 10, 64)
	return stat{string(fields[0]), since}, err
}

func bootID() (string, error) {
	content, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(content)), err
}
