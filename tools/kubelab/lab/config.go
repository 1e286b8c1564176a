package lab

import (
	"bytes"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/template"
)

//go:embed files
var files embed.FS

var templates = template.Must(template.New("").Option("missingkey=error").ParseFS(files, "files/*"))

// values are what the files of a node, or of the lab, are filled with.
type values struct {
	Dir, Registry, DNS, Domain, Pods string
	Node                             Node // of a node's files
	NoSysResource                    bool
}

func (l *Lab) render(name string, n Node) ([]byte, error) {
	return l.renderFor(l.Registry(), name, n)
}

// renderFor is render for another registry than the lab's.
func (l *Lab) renderFor(registry, name string, n Node) ([]byte, error) {
	var out bytes.Buffer
	err := templates.ExecuteTemplate(&out, name, values{
		Dir: l.Dir, Registry: registry, DNS: dns, Domain: domain, Pods: pods.String(), Node: n, NoSysResource: !sysResource(),
	})
	if err != nil {
		return nil, fmt.Errorf("fill %s: %w", name, err)
	}
	return out.Bytes(), nil
}

// configure writes the files of the lab and of its nodes.
func (l *Lab) configure() error {
	write := func(name, path string, n Node) error {
		content, err := l.render(name, n)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(path), 0o755)
		}
		if err == nil {
			err = os.WriteFile(path, content, 0o644)
		}
		return err
	}
	if err := write("hosts.toml", l.file("registries", "_default", "hosts.toml"), Node{}); err != nil {
		return err
	}
	// Pods ask the cluster's DNS; what that does not know, nobody does.
	if err := os.WriteFile(l.file("resolv.conf"), []byte("options ndots:5\n"), 0o644); err != nil {
		return err
	}
	for _, n := range l.nodes() {
		for name, path := range map[string]string{
			"containerd.toml": "containerd.toml", "cni.conflist": "cni/10-kubelab.conflist",
			"kubelet.yaml": "kubelet.yaml", "kube-proxy.yaml": "kube-proxy.yaml",
		} {
			if err := write(name, filepath.Join(n.Dir, path), n); err != nil {
				return err
			}
		}
	}
	return nil
}

// sysResource reports whether this process, and so a container's, has
// CAP_SYS_RESOURCE (capability 24).
func sysResource() bool {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	for _, line := range strings.Split(string(status), "\n") {
		if set, is := strings.CutPrefix(line, "CapEff:"); is {
			bits, err := strconv.ParseUint(strings.TrimSpace(set), 16, 64)
			return err == nil && bits&(1<<24) != 0
		}
	}
	return false
}
