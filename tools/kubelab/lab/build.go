package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Version is the Kubernetes release, that of kubernetes/go.mod.
const Version = "v1.34.4"

// build builds the programs that run on the machine itself. What is built already
// costs a few seconds.
func (l *Lab) build(ctx context.Context) error {
	flags := []string{"-s", "-w"}
	major, minor, _ := strings.Cut(strings.TrimPrefix(Version, "v"), ".")
	minor, _, _ = strings.Cut(minor, ".")
	for _, pkg := range []string{"k8s.io/client-go/pkg/version", "k8s.io/component-base/version"} {
		// In this order each time: other flags mean another link, of a minute.
		for _, v := range [][2]string{
			{"gitVersion", Version}, {"gitMajor", major}, {"gitMinor", minor}, {"gitTreeState", "clean"},
			{"gitCommit", strings.Repeat("0", 40)}, {"buildDate", "1970-01-01T00:00:00Z"},
		} {
			flags = append(flags, "-X", pkg+"."+v[0]+"="+v[1])
		}
	}
	kubernetes := filepath.Join(l.Bin(), "kubernetes")
	if err := l.compile(ctx, "tools/kubelab/kubernetes", ".", kubernetes, strings.Join(flags, " ")); err != nil {
		return err
	}
	// As Helm is released it knows a version, which `helm template` takes for the cluster's.
	const known = "helm.sh/helm/v3/pkg/chartutil.k8sVersion"
	if err := l.compile(ctx, "tools/kubelab/helm", "helm.sh/helm/v3/cmd/helm", filepath.Join(l.Bin(), "helm"),
		fmt.Sprintf("-s -w -X %sMajor=%s -X %sMinor=%s", known, major, known, minor)); err != nil {
		return err
	}
	if err := link("kubernetes", l.KubectlPath()); err != nil {
		return err
	}
	// This program, under a path that stays: `go run` deletes its own.
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return copyProgram(self, l.self())
}

// self is the path of this program for the processes that outlive its starter.
func (l *Lab) self() string { return filepath.Join(l.Bin(), "kubelab") }

func (l *Lab) compile(ctx context.Context, module, pkg, to, flags string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", to, pkg)
	cmd.Dir = filepath.Join(l.Root, module)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build %s in %s: %w\n%s", pkg, module, err, out.Bytes())
	}
	return nil
}

// link makes a link, or finds it made.
func link(target, path string) error {
	if now, err := os.Readlink(path); err == nil && now == target {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.Symlink(target, path)
}

// copyProgram replaces a program whole: what runs goes on with the one before.
func copyProgram(from, to string) error {
	if from == to {
		return nil
	}
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.WriteFile(to+".new", content, 0o755); err != nil {
		return err
	}
	return os.Rename(to+".new", to)
}

// command runs a program and returns what it printed; what it said of an error is
// part of that.
func command(ctx context.Context, stdin []byte, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin = bytes.NewReader(stdin)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w: %s", filepath.Base(name), strings.Join(args, " "), err, bytes.TrimSpace(said.Bytes()))
	}
	return out.String(), nil
}
