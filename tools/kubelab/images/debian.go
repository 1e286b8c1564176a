package images

import (
	"bytes"
	"context"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// packageFiles adds the files that installed Debian packages own below the given
// folders, and every library they need.
func (t tree) packageFiles(ctx context.Context, packages, folders []string, wanted func(path string) bool) error {
	for _, name := range packages {
		out, err := exec.CommandContext(ctx, "dpkg-query", "--listfiles", name).Output()
		if err != nil {
			return fmt.Errorf("list the files of Debian package %s (tools/setup/install lab installs it): %w", name, err)
		}
		for _, path := range strings.Split(string(out), "\n") {
			if !below(path, folders) || !wanted(path) {
				continue
			}
			if err := t.hostFile(path); err != nil {
				return err
			}
		}
	}
	return nil
}

func below(path string, folders []string) bool {
	for _, f := range folders {
		if strings.HasPrefix(path, f+"/") {
			return true
		}
	}
	return false
}

// hostFile adds a file or a link of this machine under its own path.
func (t tree) hostFile(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("add %s to an image: %w", path, err)
	}
	switch {
	case info.Mode()&os.ModeSymlink != 0:
		target, err := os.Readlink(path)
		if err != nil {
			return fmt.Errorf("add %s to an image: %w", path, err)
		}
		t[inImage(path)] = file{link: target}
	case info.Mode().IsRegular():
		t[inImage(path)] = file{source: path, mode: int64(info.Mode().Perm())}
	}
	return nil
}

// libraries adds, for every dynamic program and library the tree holds, what the
// loader would load for it on this machine, and the loader.
func (t tree) libraries(ctx context.Context) error {
	for _, f := range t {
		if f.source == "" || !dynamic(f.source) {
			continue
		}
		out, err := exec.CommandContext(ctx, "ldd", f.source).CombinedOutput()
		if err != nil {
			return fmt.Errorf("find the libraries of %s: %w: %s", f.source, err, bytes.TrimSpace(out))
		}
		for _, line := range strings.Split(string(out), "\n") {
			// "libz.so.1 => /lib/…/libz.so.1 (0x…)", "/lib64/ld-linux-x86-64.so.2 (0x…)"
			fields := strings.Fields(line)
			for _, field := range fields {
				if !strings.HasPrefix(field, "/") {
					continue
				}
				real, err := filepath.EvalSymlinks(field)
				if err != nil {
					return fmt.Errorf("find the libraries of %s: %w", f.source, err)
				}
				t[inImage(field)] = file{source: real, mode: 0o755}
			}
			if strings.Contains(line, "not found") {
				return fmt.Errorf("find the libraries of %s: %s", f.source, strings.TrimSpace(line))
			}
		}
	}
	return nil
}

// dynamic reports whether a file is a program or library that the loader loads.
func dynamic(path string) bool {
	f, err := elf.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	libraries, err := f.ImportedLibraries()
	return err == nil && len(libraries) > 0
}
