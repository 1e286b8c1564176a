package postgres

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"sort"
	"strconv"

	"maestrohub.io/uns/tools/launch"
)

// account is the user the server runs as: the caller, or for root, under which
// PostgreSQL does not run, the user of Debian's package.
type account struct {
	other    bool // not the caller
	uid, gid int
}

func serverAccount() (*account, error) {
	if os.Getuid() != 0 {
		return &account{uid: os.Getuid(), gid: os.Getgid()}, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("find a user for PostgreSQL, which does not run as root: %w", err)
	}
	a := &account{other: true}
	if a.uid, err = strconv.Atoi(u.Uid); err != nil {
		return nil, fmt.Errorf("user postgres: %w", err)
	}
	if a.gid, err = strconv.Atoi(u.Gid); err != nil {
		return nil, fmt.Errorf("user postgres: %w", err)
	}
	return a, nil
}

// own gives a file to the account.
func (a *account) own(path string) error {
	if !a.other {
		return nil
	}
	return os.Chown(path, a.uid, a.gid)
}

// spec says how to run a program under the account. setpriv becomes the program,
// so the process id is its own, and renews the parent-death signal, which the
// change of user clears.
func (a *account) spec(name, path string, args ...string) launch.Spec {
	if !a.other {
		return launch.Spec{Name: name, Path: path, Args: args, Dir: "/"}
	}
	return launch.Spec{Name: name, Path: "/usr/bin/setpriv", Dir: "/", Args: append([]string{
		"--reuid=" + strconv.Itoa(a.uid), "--regid=" + strconv.Itoa(a.gid), "--clear-groups", "--pdeathsig=KILL", path}, args...)}
}

// Program returns the path of a program of PostgreSQL: that of the newest version
// of Debian's packages, else the one in PATH.
func Program(name string) (string, error) {
	found, err := filepath.Glob(filepath.Join("/usr/lib/postgresql", "*", "bin", name))
	if err != nil {
		return "", fmt.Errorf("find %s: %w", name, err)
	}
	if len(found) > 0 {
		sort.Slice(found, func(i, j int) bool { return version(found[i]) < version(found[j]) })
		return found[len(found)-1], nil
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("find %s: %w; `make setup` installs postgresql-15", name, err)
	}
	return path, nil
}

func version(path string) int {
	n, err := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	if err != nil {
		return 0
	}
	return n
}
