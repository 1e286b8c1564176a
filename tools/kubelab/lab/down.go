package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"maestrohub.io/uns/tools/kubelab/machine"
)

// Down takes the lab down, in whatever state it is, and deletes its folder. There
// being none is no error.
func (l *Lab) Down(ctx context.Context) error {
	return l.exclusively(func() error {
		if err := l.down(ctx); err != nil {
			return err
		}
		return os.Remove(l.lock()) // whoever waits for it has the file open, and finds nothing to do
	})
}

func (l *Lab) down(ctx context.Context) error {
	known, err := l.load()
	if err != nil {
		return err
	}
	all := *l
	// Whatever number of nodes it had: those that are not there cost nothing.
	all.Nodes = MaxNodes
	if known == nil && len(all.network().Present()) == 0 {
		if members, err := machine.Cgroup(bridge).Members(); err == nil && len(members) == 0 {
			return l.forget()
		}
	}
	began := time.Now()
	if err := l.stopControllers(ctx); err != nil {
		return err
	}
	// Whatever runs on the nodes, pods included, is in their cgroup.
	if err := machine.Cgroup(bridge).Kill(ctx); err != nil {
		return err
	}
	if err := l.stopAll(ctx); err != nil {
		return err
	}
	files, err := l.runtimeFiles()
	if err != nil {
		return err
	}
	// From here on each step is tried whatever became of the others.
	errs := []error{
		machine.Unmount(l.Dir),
		all.network().Remove(ctx),
		machine.Cgroup(bridge).Remove(),
		removeRuntimeFiles(files),
	}
	if known != nil {
		errs = append(errs, known.Sysctls.Restore())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("take the lab down: %w; the folder %s is kept, try again", err, l.Dir)
	}
	if err := l.forget(); err != nil {
		return err
	}
	if left := all.traces(); len(left) > 0 {
		return fmt.Errorf("the lab is down and has left behind: %s", strings.Join(left, ", "))
	}
	l.Say("the lab is down, %v", time.Since(began).Round(10*time.Millisecond))
	return nil
}

// traces are what of a lab is on the machine. None is to be once it is down.
func (l *Lab) traces() (left []string) {
	left = append(left, l.network().Present()...)
	if machine.Cgroup(bridge).There() {
		left = append(left, "cgroup "+bridge)
	}
	if files, err := l.runtimeFiles(); err == nil {
		left = append(left, files...)
	}
	if _, err := os.Stat(l.Dir); err == nil {
		left = append(left, l.Dir)
	}
	commands, _ := filepath.Glob("/proc/[0-9]*/cmdline") // its one error is of the pattern
	for _, c := range commands {
		line, err := os.ReadFile(c)
		if err == nil && bytes.Contains(line, []byte(l.Dir+"/")) {
			left = append(left, fmt.Sprintf("process %s", bytes.ReplaceAll(bytes.TrimRight(line, "\x00"), []byte{0}, []byte{' '})))
		}
	}
	return left
}

// forget deletes the folder, in which nothing is mounted any more.
func (l *Lab) forget() error {
	if err := os.RemoveAll(l.Dir); err != nil {
		return fmt.Errorf("delete the lab's folder: %w", err)
	}
	return nil
}

// stopControllers stops those first that would take the end of everything for
// something to put right.
func (l *Lab) stopControllers(ctx context.Context) error {
	return l.stop(ctx, func(name string) bool {
		return name == "balancer" || name == "controller-manager" || name == "scheduler" || strings.HasPrefix(name, "kubelet-")
	}, 5*time.Second)
}

// stopAll stops what is left: nothing of it is worth waiting for.
func (l *Lab) stopAll(ctx context.Context) error {
	return l.stop(ctx, func(string) bool { return true }, 0)
}

func (l *Lab) stop(ctx context.Context, which func(name string) bool, grace time.Duration) error {
	table, err := l.table()
	if err != nil {
		return err
	}
	records, err := table.List()
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	errs := make([]error, len(records))
	for i, r := range records {
		if which(r.Name) {
			all.Go(func() { errs[i] = table.Stop(ctx, r.Name, syscall.SIGTERM, grace) })
		}
	}
	all.Wait()
	return errors.Join(errs...)
}
