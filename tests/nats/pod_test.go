package nats_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"maestrohub.io/uns/tools/launch"
)

// pod runs the containers of a rendered pod on this machine: each program with the
// command, arguments and files of its container, at the paths it has there, in a mount
// namespace of its own, and with names resolved as the cluster's DNS would.
type pod struct {
	name, address string
	spec          *corev1.PodSpec
	dir           string            // config, run and data below it
	hosts         map[string]string // name: address
	binaries      string            // folder of the programs
	generation    int
}

// inPod mounts what a pod mounts over what the machine has, and becomes the program.
const inPod = `
mount -t tmpfs tmpfs /etc
mount -t tmpfs tmpfs /run
mkdir -p /etc/nats /run/nats
cp "$POD/hosts" /etc/hosts
mount --bind "$POD/config" /etc/nats
mount --bind "$POD/run" /run/nats
mount --bind "$POD/data" "$DATA"
exec "$@"`

func newPod(t *testing.T, name, address string, spec *corev1.PodSpec, hosts map[string]string, binaries string) *pod {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("mounts what a pod mounts: needs root")
	}
	p := &pod{name: name, address: address, spec: spec, dir: filepath.Join(t.TempDir(), name), hosts: hosts, binaries: binaries}
	for _, dir := range []string{"config", "run", "data"} {
		must(t, os.MkdirAll(filepath.Join(p.dir, dir), 0o755))
	}
	must(t, os.MkdirAll(dataDir, 0o755))
	var b strings.Builder
	b.WriteString("127.0.0.1 localhost\n")
	for host, address := range hosts {
		fmt.Fprintf(&b, "%s %s\n", address, host)
	}
	must(t, os.WriteFile(filepath.Join(p.dir, "hosts"), []byte(b.String()), 0o644))
	return p
}

// dataDir is where servers have their volume; each mounts its own there.
var dataDir = filepath.Join(os.TempDir(), "nats-test-data")

// project puts files into the pod's configuration as a projected volume does: all of
// them at once, by a link that is swapped.
func (p *pod) project(t *testing.T, files map[string][]byte) {
	t.Helper()
	p.generation++
	config := filepath.Join(p.dir, "config")
	version := fmt.Sprintf("..%d", p.generation)
	for path, content := range files {
		full := filepath.Join(config, version, path)
		must(t, os.MkdirAll(filepath.Dir(full), 0o755))
		must(t, os.WriteFile(full, content, 0o640))
		first, _, _ := strings.Cut(path, "/")
		if _, err := os.Lstat(filepath.Join(config, first)); err != nil {
			must(t, os.Symlink(filepath.Join("..data", first), filepath.Join(config, first)))
		}
	}
	must(t, os.Symlink(version, filepath.Join(config, "..data_tmp")))
	must(t, os.Rename(filepath.Join(config, "..data_tmp"), filepath.Join(config, "..data")))
	// As the kubelet does, and what the reloader sees of it.
	must(t, os.RemoveAll(filepath.Join(config, fmt.Sprintf("..%d", p.generation-1))))
}

func (p *pod) command(args ...string) launch.Spec {
	return launch.Spec{
		Name: p.name + " " + filepath.Base(args[0]), Path: "unshare",
		Args: append([]string{"--mount", "--propagation", "private", "sh", "-ec", inPod, "sh"}, args...),
		Env: append(p.environment(), "PATH="+p.binaries+":"+os.Getenv("PATH"), "POD="+p.dir, "DATA="+dataDir, "HOME=/run/nats", "XDG_CONFIG_HOME=/run/nats",
			`POD_IP="`+p.address+`"`), // in quotes, or NATS takes it for a number
	}
}

// environment is that of the server's container, as the kubelet makes it.
func (p *pod) environment() (env []string) {
	known := strings.NewReplacer()
	var pairs []string
	for _, e := range p.spec.Containers[0].Env {
		value := known.Replace(e.Value)
		if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil && e.ValueFrom.FieldRef.FieldPath == "metadata.name" {
			value = p.name
		}
		pairs = append(pairs, "$("+e.Name+")", value)
		known = strings.NewReplacer(pairs...)
		env = append(env, e.Name+"="+value)
	}
	return env
}

// container is one of the pod's.
func (p *pod) container(t *testing.T, name string) *corev1.Container {
	t.Helper()
	for i := range p.spec.Containers {
		if p.spec.Containers[i].Name == name {
			return &p.spec.Containers[i]
		}
	}
	t.Fatalf("the pod has no container %s", name)
	return nil
}

// start runs a container until the test ends. A container without a command has its
// image's, which is named.
func (p *pod) start(t *testing.T, container string, image ...string) *launch.Process {
	t.Helper()
	c := p.container(t, container)
	process, err := launch.Start(p.command(append(append(image, c.Command...), c.Args...)...))
	must(t, err)
	t.Cleanup(func() {
		process.Kill()
		if t.Failed() {
			t.Logf("%s printed:\n%s", process.Name(), process.Output())
		}
	})
	return process
}

// exec runs a program in the pod to its end.
func (p *pod) exec(ctx context.Context, args ...string) (string, error) {
	spec := p.command(args...)
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, spec.Path, spec.Args...)
	cmd.Env = append(os.Environ(), spec.Env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
