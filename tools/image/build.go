package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// releaseVariable is what the linker sets; it says nothing of a name that is not there.
const releaseVariable = "main.version"

// compile builds the program for a platform ("linux/amd64") and returns the
// binary. It is static: an empty base has no C library to link with.
func compile(pkg, platform, release string) ([]byte, error) {
	goos, goarch, ok := strings.Cut(platform, "/")
	if !ok {
		return nil, fmt.Errorf("platform (%s) must be os/architecture, as linux/amd64", platform)
	}
	dir, err := os.MkdirTemp("", "image-")
	if err != nil {
		return nil, fmt.Errorf("build for %s: %w", platform, err)
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "program")
	flags := "-s -w"
	if release != "" {
		flags += " -X " + releaseVariable + "=" + release
	}
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=auto", "-ldflags", flags, "-o", binary, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build %s for %s: %w\n%s", pkg, platform, err, out)
	}
	return os.ReadFile(binary)
}
