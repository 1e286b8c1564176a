package machine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Sysctls are kernel settings by name, with the values they had.
type Sysctls map[string]string

// KubeletSysctls are those a kubelet changes for the whole machine.
var KubeletSysctls = []string{"vm.overcommit_memory", "vm.panic_on_oom", "kernel.panic", "kernel.panic_on_oops", "kernel.keys.root_maxkeys", "kernel.keys.root_maxbytes"}

// ReadSysctls reads settings; one that this kernel does not have is left out.
func ReadSysctls(names []string) (Sysctls, error) {
	values := Sysctls{}
	for _, name := range names {
		content, err := os.ReadFile(sysctlPath(name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		values[name] = strings.TrimSpace(string(content))
	}
	return values, nil
}

// Restore writes back what has changed.
func (s Sysctls) Restore() error {
	var errs []error
	for name, value := range s {
		now, err := ReadSysctls([]string{name})
		if err == nil && now[name] != value {
			err = os.WriteFile(sysctlPath(name), []byte(value), 0)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("restore %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

func sysctlPath(name string) string {
	return filepath.Join("/proc/sys", strings.ReplaceAll(name, ".", "/"))
}
