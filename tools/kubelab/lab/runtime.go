package lab

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Folders that containerd's shims, runc and the network plugins use on every machine,
// whatever folder containerd itself is given.
const (
	shimSockets = "/run/containerd/s"
	runcState   = "/run/containerd/runc/k8s.io"
	cniResults  = "/var/lib/cni/results"
)

// runtimeFiles are what the lab's containers have there. Containers of others, in the
// same folders, are not among them.
func (l *Lab) runtimeFiles() ([]string, error) {
	bundles, err := filepath.Glob(l.file("n*", "run", "io.containerd.runtime.v2.task", "k8s.io", "*"))
	if err != nil {
		return nil, err
	}
	var files []string
	for _, b := range bundles {
		files = append(files, filepath.Join(runcState, filepath.Base(b)), filepath.Join(cniResults, "cni-loopback-"+filepath.Base(b)+"-lo"))
		// The shim of a pod serves all its containers, and each bundle names its socket.
		address, err := os.ReadFile(filepath.Join(b, "address"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		socket := strings.TrimPrefix(strings.TrimSpace(string(address)), "unix://")
		if filepath.Dir(socket) == shimSockets {
			files = append(files, socket)
		}
	}
	results, err := filepath.Glob(filepath.Join(cniResults, bridge+"-*")) // the network is called as the bridge is
	return append(files, results...), err
}

// removeRuntimeFiles removes them, and the folders if nobody has anything else there.
func removeRuntimeFiles(files []string) error {
	var errs []error
	for _, f := range files {
		errs = append(errs, os.RemoveAll(f))
	}
	for _, dir := range []string{shimSockets, runcState, cniResults} {
		// Up to the machine's own: a folder that is not empty is somebody's.
		for ; dir != "/run" && dir != "/var/lib"; dir = filepath.Dir(dir) {
			if os.Remove(dir) != nil {
				break
			}
		}
	}
	return errors.Join(errs...)
}
