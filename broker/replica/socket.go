package replica

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"
)

// AdminSocket is the operator's socket of a broker with that data directory: it
// serves the management of API clients and the status without a credential. Being
// able to open it is the credential, so the directory it lies in is its owner's
// alone. A fresh node's first API client is made through it.
func AdminSocket(dataDir string) string {
	return filepath.Join(dataDir, "admin", "api.sock")
}

// maxSocketPath is what a Unix socket's address has room for on Linux, its final
// NUL taken off.
const maxSocketPath = 107

// CheckAdminSocket says why no operator's socket can be opened in a data directory
// with that name. A broker runs without one, but a fresh one has then no other way
// to its first API client than modules.uns.clientsFile.
func CheckAdminSocket(dataDir string) error {
	path := AdminSocket(dataDir)
	if len(path) <= maxSocketPath {
		return nil
	}
	return fmt.Errorf("modules.uns.dataDir (%s) must have at most %d bytes for the operator's socket in it, which `broker client` manages API clients through, has %d: without it the first API client can only come from modules.uns.clientsFile",
		dataDir, maxSocketPath-len(path)+len(filepath.Clean(dataDir)), len(filepath.Clean(dataDir)))
}

// listenAdmin opens the operator's socket. One left behind by a process that was
// killed is replaced, one that answers is not: it is another broker on the same
// data directory.
func listenAdmin(dataDir string) (net.Listener, error) {
	if err := CheckAdminSocket(dataDir); err != nil {
		return nil, err
	}
	path := AdminSocket(dataDir)
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("operator's socket: %w", err)
	}
	// Also where the directory was there before, with other permissions: the socket
	// itself is created with the umask's, a moment before it can be narrowed.
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, fmt.Errorf("operator's socket: %w", err)
	}
	if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
		_ = c.Close()
		return nil, fmt.Errorf("operator's socket %s: another broker answers there; two cannot share one data directory", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("operator's socket: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("operator's socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("operator's socket: %w", err)
	}
	return l, nil
}
