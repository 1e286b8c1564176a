package machine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// cgroups is where the hierarchies are mounted.
const cgroups = "/sys/fs/cgroup"

// Cgroup is a group of processes by its name in every hierarchy: "lab/node1".
type Cgroup string

// hierarchies are the roots in which a cgroup is made: one with cgroup v2, one for
// each controller with v1.
func hierarchies() ([]string, error) {
	if _, err := os.Stat(filepath.Join(cgroups, "cgroup.controllers")); err == nil {
		return []string{cgroups}, nil
	}
	entries, err := os.ReadDir(cgroups)
	if err != nil {
		return nil, fmt.Errorf("look for cgroups: %w", err)
	}
	var roots []string
	for _, e := range entries {
		root := filepath.Join(cgroups, e.Name())
		if _, err := os.Stat(filepath.Join(root, "cgroup.procs")); err == nil && e.IsDir() {
			roots = append(roots, root)
		}
	}
	if len(roots) == 0 {
		return nil, fmt.Errorf("no cgroup hierarchy is mounted in %s", cgroups)
	}
	return roots, nil
}

// Make makes the group in every hierarchy, the outermost of them with the weight of
// many processes. What must be set before a group takes
// processes (cpuset in v1) or before its children have controllers (v2) is copied
// from its parent.
func (c Cgroup) Make() error {
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	for _, root := range roots {
		at := root
		for _, level := range strings.Split(string(c), "/") {
			parent := at
			at = filepath.Join(at, level)
			if err := os.MkdirAll(at, 0o755); err != nil {
				return fmt.Errorf("make cgroup %s: %w", c, err)
			}
			if err := inherit(parent, at); err != nil {
				return fmt.Errorf("make cgroup %s: %w", c, err)
			}
		}
	}
	outermost, _, _ := strings.Cut(string(c), "/")
	return Cgroup(outermost).weigh(40)
}

// weigh gives the group the processor time that so many processes of the machine get
// beside it. Without that a group counts as one process, however many it has.
func (c Cgroup) weigh(processes int) error {
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	for _, root := range roots {
		for name, one := range map[string]int{"cpu.shares": 1024, "cpu.weight": 100} { // v1, v2
			path := filepath.Join(root, string(c), name)
			if _, err := os.Stat(path); err != nil {
				continue // not the hierarchy of the processor
			}
			weight := min(one*processes, map[string]int{"cpu.shares": 262144, "cpu.weight": 10000}[name])
			if err := os.WriteFile(path, []byte(strconv.Itoa(weight)), 0); err != nil {
				return fmt.Errorf("weigh cgroup %s: %w", c, err)
			}
		}
	}
	return nil
}

func inherit(parent, child string) error {
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		content, err := os.ReadFile(filepath.Join(parent, name))
		if err != nil || len(strings.TrimSpace(string(content))) == 0 {
			continue // not the cpuset hierarchy, or v2, where empty means all
		}
		if err := os.WriteFile(filepath.Join(child, name), content, 0); err != nil {
			return err
		}
	}
	controllers, err := os.ReadFile(filepath.Join(parent, "cgroup.controllers"))
	if err != nil {
		return nil // v1
	}
	var enable strings.Builder
	for _, name := range strings.Fields(string(controllers)) {
		enable.WriteString(" +" + name)
	}
	err = os.WriteFile(filepath.Join(parent, "cgroup.subtree_control"), []byte(enable.String()), 0)
	if errors.Is(err, syscall.ENOTSUP) {
		return nil // a threaded or named hierarchy takes none
	}
	return err
}

// Enter puts the calling process into the group.
func (c Cgroup) Enter() error {
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	for _, root := range roots {
		if err := os.WriteFile(filepath.Join(root, string(c), "cgroup.procs"), []byte("0"), 0); err != nil {
			return fmt.Errorf("enter cgroup %s: %w", c, err)
		}
	}
	return nil
}

// Members returns the processes in the group and the groups below it.
func (c Cgroup) Members() (pids []int, err error) {
	roots, err := hierarchies()
	if err != nil {
		return nil, err
	}
	seen := map[int]bool{}
	for _, root := range roots {
		err := filepath.WalkDir(filepath.Join(root, string(c)), func(path string, e fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // gone meanwhile
			}
			if err != nil || e.IsDir() || e.Name() != "cgroup.procs" {
				return err
			}
			content, err := os.ReadFile(path)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
				return nil
			}
			for _, f := range strings.Fields(string(content)) {
				pid, err := strconv.Atoi(f)
				if err != nil {
					return err
				}
				if pid != 0 && !seen[pid] {
					seen[pid] = true
					pids = append(pids, pid)
				}
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("list the members of cgroup %s: %w", c, err)
		}
	}
	return pids, nil
}

// Kill kills every process in the group and below it, and waits until none is left.
func (c Cgroup) Kill(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		pids, err := c.Members()
		if err != nil || len(pids) == 0 {
			return err
		}
		for _, pid := range pids {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("kill cgroup %s: pid %d: %w", c, pid, err)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("kill cgroup %s: %d processes are still there", c, len(pids))
		}
	}
}

// There reports whether any hierarchy has the group.
func (c Cgroup) There() bool {
	roots, err := hierarchies()
	if err != nil {
		return false // then there are no groups
	}
	for _, root := range roots {
		if _, err := os.Stat(filepath.Join(root, string(c))); err == nil {
			return true
		}
	}
	return false
}

// Remove removes the group, in which no process may be, and those below it.
func (c Cgroup) Remove() error {
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	var errs []error
	for _, root := range roots {
		var dirs []string
		err := filepath.WalkDir(filepath.Join(root, string(c)), func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.IsDir() {
				dirs = append(dirs, path)
			}
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		})
		errs = append(errs, err)
		for i := len(dirs) - 1; i >= 0; i-- { // children first
			if err := os.Remove(dirs[i]); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, fmt.Errorf("remove cgroup: %w", err))
			}
		}
	}
	return errors.Join(errs...)
}
