package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"

	"maestrohub.io/uns/tools/kubelab/machine"
)

// needed are files of Debian packages, by package.
var needed = map[string][]string{
	"containerd":                  {"/usr/bin/containerd", "/usr/bin/ctr", "/usr/bin/containerd-shim-runc-v2"},
	"runc":                        {"/usr/sbin/runc"},
	"containernetworking-plugins": {"/usr/lib/cni/bridge", "/usr/lib/cni/host-local", "/usr/lib/cni/portmap"},
	"iptables":                    {"/usr/sbin/iptables-save", "/usr/sbin/iptables-restore"},
	"ipset":                       {"/usr/sbin/ipset"},
	"iproute2":                    {"/sbin/ip"},
	"procps":                      {"/sbin/sysctl"},
	"busybox-static":              {"/bin/busybox"},
	"postgresql-15":               {"/usr/lib/postgresql/15/bin/postgres"},
	"prometheus":                  {"/usr/bin/prometheus", "/usr/bin/promtool"},
}

// Cannot says that no lab comes up on this machine, whatever else is put right: it does
// not let this process do what nodes are made of.
type Cannot struct{ missing []error }

func (c *Cannot) Error() string {
	all := make([]string, len(c.missing))
	for i, err := range c.missing {
		all[i] = err.Error()
	}
	return "this machine cannot run nodes; it does not give: " + strings.Join(all, "; ")
}

// able returns a Cannot on a machine that can run no nodes.
func (l *Lab) able(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return &Cannot{[]error{errors.New("root, for namespaces, mounts and cgroups: run the command with sudo")}}
	}
	if missing := missingPackages(needed, func(path string) bool { _, err := os.Stat(path); return err == nil }); len(missing) > 0 {
		return fmt.Errorf("Debian packages are missing: %s; `tools/setup/install lab` installs them", strings.Join(missing, ", "))
	}
	missing, err := machine.Able(ctx, l.Dir)
	if err == nil && len(missing) > 0 {
		err = &Cannot{missing}
	}
	return err
}

// unused says everything the lab needs that somebody else uses on this machine.
func unused(ctx context.Context) error {
	errs := []error{machine.Free(ctx, hostAddress.Masked(), pods, services, pool)}
	taken, err := everywhere()
	errs = append(errs, err)
	for what, port := range map[string]int{"the API server": apiPort, "etcd": etcdPort, "etcd's peers": peerPort, "the registry": imagePort} {
		if taken[port] {
			errs = append(errs, fmt.Errorf("port %d, which %s needs, is taken: a program listens on it on every address of this machine", port, what))
		}
	}
	return errors.Join(errs...)
}

// everywhere are the TCP ports on which somebody listens on every address, and so on
// that of the bridge too, which is not there yet.
func everywhere() (map[int]bool, error) {
	ports := map[int]bool{}
	for _, name := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		content, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) {
			continue // a kernel without IPv6
		}
		if err != nil {
			return nil, fmt.Errorf("look at the ports in use: %w", err)
		}
		for _, port := range wildcards(string(content)) {
			ports[port] = true
		}
	}
	return ports, nil
}

// wildcards finds the listeners on every address in the text of /proc/net/tcp.
func wildcards(table string) (ports []int) {
	const listening = "0A"
	for _, line := range strings.Split(table, "\n") {
		f := strings.Fields(line)
		if len(f) < 4 || f[3] != listening {
			continue
		}
		address, port, _ := strings.Cut(f[1], ":")
		if n, err := strconv.ParseInt(port, 16, 32); err == nil && strings.Trim(address, "0") == "" {
			ports = append(ports, int(n))
		}
	}
	return ports
}

// missingPackages are those of which a file is not there.
func missingPackages(needed map[string][]string, there func(path string) bool) (missing []string) {
	for name, files := range needed {
		for _, f := range files {
			if !there(f) {
				missing = append(missing, name)
				break
			}
		}
	}
	sort.Strings(missing)
	return missing
}
