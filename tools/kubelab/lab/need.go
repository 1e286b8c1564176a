package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sort"
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

// Check says everything that keeps a lab from coming up on this machine.
func Check(ctx context.Context) error {
	var errs []error
	if os.Geteuid() != 0 {
		errs = append(errs, errors.New("a lab needs root, for namespaces, mounts and cgroups: run the command with sudo"))
	}
	if missing := missingPackages(needed, func(path string) bool { _, err := os.Stat(path); return err == nil }); len(missing) > 0 {
		errs = append(errs, fmt.Errorf("Debian packages are missing: %s; `tools/setup/install lab` installs them", strings.Join(missing, ", ")))
	}
	errs = append(errs, machine.Free(ctx, hostAddress.Masked(), pods, services, pool))
	for what, port := range map[string]int{"the API server": apiPort, "etcd": etcdPort, "etcd's peers": peerPort, "the registry": imagePort} {
		// Whoever listens on every address has the one on the bridge too, which is not
		// there yet.
		l, err := net.Listen("tcp", fmt.Sprintf("0.0.0.0:%d", port))
		if err != nil {
			errs = append(errs, fmt.Errorf("port %d, which %s needs, is taken: %w", port, what, err))
			continue
		}
		l.Close()
	}
	return errors.Join(errs...)
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
