package launch

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// Root returns the folder of the module the calling program was started in.
func Root() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: go env GOMOD: %w", err)
	}
	mod := strings.TrimSpace(string(out))
	if mod == "" || mod == os.DevNull {
		return "", fmt.Errorf("find the module: no go.mod at or above the working directory")
	}
	return filepath.Dir(mod), nil
}

// Build compiles a main package, given as an import path or a ./path below
// module (a folder with a go.mod), into bin/<name> of the repository and
// returns the binary's path. A binary that is up to date is left alone; callers
// in several processes take turns.
func Build(module, pkg, name string, flags ...string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	binary := filepath.Join(root, "bin", name)
	if err := os.MkdirAll(filepath.Dir(binary), 0o755); err != nil {
		return "", fmt.Errorf("build %s: %w", pkg, err)
	}
	guard, err := os.OpenFile(binary+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", fmt.Errorf("build %s: %w", pkg, err)
	}
	defer guard.Close()
	if err := syscall.Flock(int(guard.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("build %s: lock %s: %w", pkg, guard.Name(), err)
	}
	cmd := exec.Command("go", append(append([]string{"build", "-o", binary}, flags...), pkg)...)
	cmd.Dir = filepath.Join(root, module)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return binary, nil
}
