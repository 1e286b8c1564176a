package machine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// trial is the name of what Able makes and removes again.
const trial = "kubelab-try"

// Able tries everything that nodes are made of, in small, and returns all of it that
// this machine does not let this process do. What it makes is gone when it returns.
// dir is where the lab will lie.
func Able(ctx context.Context, dir string) (missing []error, err error) {
	network := Network{Bridge: trial, Nodes: []NetworkNode{{Namespace: trial + "1"}}}
	tidy := func() error {
		err := network.Remove(context.WithoutCancel(ctx))
		if _, none := hierarchies(); none == nil {
			err = errors.Join(err, Cgroup(trial).Remove())
		}
		if err != nil {
			return fmt.Errorf("tidy up after a trial: %w", err)
		}
		return nil
	}
	if err := tidy(); err != nil { // what an interrupted trial has left
		return nil, err
	}
	try := func(what string, do func() error) bool {
		err := do()
		if err != nil {
			missing = append(missing, fmt.Errorf("%s: %w", what, err))
		}
		return err == nil
	}
	ip := func(args ...string) func() error { return func() error { return run(ctx, "ip", args...) } }
	node := network.Nodes[0].Namespace
	inside := func(args ...string) func() error { return ip(append([]string{"netns", "exec", node}, args...)...) }
	try("bridges", ip("link", "add", network.Bridge, "type", "bridge"))
	if try("network namespaces", ip("netns", "add", node)) {
		try("cables between them", ip("link", "add", node, "type", "veth", "peer", "name", "eth0", "netns", node))
		try("forwarding in them", inside("sysctl", "-qw", "net.ipv4.ip_forward=1"))
		try("iptables in them, for Services", inside("iptables", "-t", "nat", "-A", "POSTROUTING", "-m", "comment", "--comment", trial, "-j", "MASQUERADE"))
		try("ipset in them, for NetworkPolicies", inside("ipset", "create", trial, "hash:ip"))
	}
	try("cgroups", Cgroup(trial).Make)
	try("mounts of folders over each other (overlay)", func() error { return overlay(dir) })
	try("the kernel's log, which the kubelet reads", func() error {
		log, err := os.Open("/dev/kmsg")
		if err != nil {
			return err
		}
		return log.Close()
	})
	if err := ctx.Err(); err != nil {
		return nil, errors.Join(err, tidy()) // what was cut short says nothing
	}
	return missing, tidy()
}

// overlay mounts one folder over another beside the lab's, as containers have their
// files.
func overlay(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	at, err := os.MkdirTemp(filepath.Dir(dir), trial+"-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(at)
	for _, name := range []string{"lower", "upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(at, name), 0o755); err != nil {
			return err
		}
	}
	merged := filepath.Join(at, "merged")
	options := strings.NewReplacer("AT", at).Replace("lowerdir=AT/lower,upperdir=AT/upper,workdir=AT/work")
	if err := syscall.Mount("overlay", merged, "overlay", 0, options); err != nil {
		return err
	}
	return syscall.Unmount(merged, 0)
}
