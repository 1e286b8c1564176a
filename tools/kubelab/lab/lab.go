package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"maestrohub.io/uns/tools/kubelab/machine"
	"maestrohub.io/uns/tools/kubelab/process"
)

// DefaultDir holds a lab while it is up. Sockets lie in it, whose paths are short by
// law (108 bytes).
const DefaultDir = "/var/lib/kubelab"

// Options say what lab.
type Options struct {
	Root  string // of the repository
	Dir   string // "": DefaultDir
	Cache string // "": .cache/kubelab of the repository
	Nodes int    // of a lab that is not up yet; 0: 1
	Say   func(format string, args ...any)
}

// Lab is one lab, up or not.
type Lab struct {
	Options
}

// state is written before anything of the machine is taken, and is there until the
// last of it was given back.
type state struct {
	Nodes   int             `json:"nodes"`
	Ready   bool            `json:"ready"` // Up has come to its end
	Sysctls machine.Sysctls `json:"sysctls"`
}

// New returns the lab of a folder.
func New(o Options) (*Lab, error) {
	if o.Dir == "" {
		o.Dir = DefaultDir
	}
	if o.Cache == "" {
		o.Cache = filepath.Join(o.Root, ".cache", "kubelab")
	}
	if o.Say == nil {
		o.Say = func(string, ...any) {}
	}
	if o.Nodes == 0 {
		o.Nodes = 1
	}
	if o.Nodes < 1 || o.Nodes > MaxNodes {
		return nil, fmt.Errorf("nodes (%d) must be 1 to %d", o.Nodes, MaxNodes)
	}
	if !filepath.IsAbs(o.Dir) || filepath.Clean(o.Dir) == "/" {
		return nil, fmt.Errorf("the lab's folder (%s) must be an absolute path", o.Dir)
	}
	if longest := "/n1/containerd.sock.ttrpc"; len(o.Dir)+len(longest) > 107 {
		return nil, fmt.Errorf("the lab's folder (%s) must have a path of at most %d bytes, for the sockets in it", o.Dir, 107-len(longest))
	}
	return &Lab{o}, nil
}

// load reads the state; none is no lab.
func (l *Lab) load() (*state, error) {
	content, err := os.ReadFile(l.file("lab.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the lab's state: %w", err)
	}
	s := &state{}
	if err := json.Unmarshal(content, s); err != nil {
		return nil, fmt.Errorf("read the lab's state: %s: %w", l.file("lab.json"), err)
	}
	return s, nil
}

func (l *Lab) save(s state) error {
	content, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("write the lab's state: %w", err)
	}
	path := l.file("lab.json")
	if err := os.WriteFile(path+".new", content, 0o644); err != nil {
		return fmt.Errorf("write the lab's state: %w", err)
	}
	return os.Rename(path+".new", path)
}

// table is the lab's processes.
func (l *Lab) table() (*process.Table, error) { return process.Open(l.Dir) }

func (l *Lab) lock() string { return l.Dir + ".lock" }

// exclusively does something that no other command may do at the same time.
func (l *Lab) exclusively(do func() error) error {
	if err := os.MkdirAll(filepath.Dir(l.Dir), 0o755); err != nil {
		return err
	}
	path := l.lock()
	guard, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("lock the lab: %w", err)
	}
	defer guard.Close()
	if err := syscall.Flock(int(guard.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("another kubelab command works on the lab in %s (lock %s: %w)", l.Dir, path, err)
	}
	return do()
}

// Status is what of a lab runs.
type Status struct {
	Nodes   int      // 0: there is no lab
	Ready   bool     // Up has come to its end
	Running []string // processes
	Ended   []string // processes that should run
}

// Whole reports a lab that is up with everything running.
func (s Status) Whole() bool { return s.Ready && len(s.Ended) == 0 }

// Status looks at the processes.
func (l *Lab) Status() (Status, error) {
	known, err := l.load()
	if err != nil || known == nil {
		return Status{}, err
	}
	s := Status{Nodes: known.Nodes, Ready: known.Ready}
	table, err := l.table()
	if err != nil {
		return s, err
	}
	records, err := table.List()
	if err != nil {
		return s, err
	}
	for _, r := range records {
		if r.Alive() {
			s.Running = append(s.Running, r.Name)
		} else {
			s.Ended = append(s.Ended, r.Name)
		}
	}
	return s, nil
}

// KubectlPath is the kubectl of the lab's own version.
func (l *Lab) KubectlPath() string { return filepath.Join(l.Bin(), "kubectl") }

// kubectl runs a command as the administrator and returns what it printed.
func (l *Lab) kubectl(ctx context.Context, stdin []byte, args ...string) (string, error) {
	return command(ctx, stdin, l.KubectlPath(), append([]string{"--kubeconfig", l.Kubeconfig()}, args...)...)
}
