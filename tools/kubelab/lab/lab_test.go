package lab

import (
	"context"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func plan(t *testing.T, nodes int) *Lab {
	t.Helper()
	l, err := New(Options{Root: t.TempDir(), Dir: filepath.Join(t.TempDir(), "lab"), Nodes: nodes})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestOptionsOutOfRangeAreRefusedByName(t *testing.T) {
	for want, o := range map[string]Options{
		"nodes (10) must be 1 to 9":      {Nodes: 10},
		"nodes (-1) must be 1 to 9":      {Nodes: -1},
		"folder (lab) must be an absol":  {Dir: "lab"},
		"folder (/) must be an absolute": {Dir: "/"},
		"of at most 82 bytes":            {Dir: "/" + strings.Repeat("long/", 20)},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
}

func TestNodesHaveAddressesOfTheirOwnInTheirNetworks(t *testing.T) {
	l := plan(t, MaxNodes)
	seen := map[netip.Addr]bool{hostAddress.Addr(): true}
	for _, n := range l.nodes() {
		if seen[n.Address] || !hostAddress.Contains(n.Address) {
			t.Errorf("%s has %s", n.Name, n.Address)
		}
		seen[n.Address] = true
		for _, other := range l.nodes() {
			if other.Name != n.Name && other.Pods.Overlaps(n.Pods) {
				t.Errorf("pods of %s and %s share %s", n.Name, other.Name, n.Pods)
			}
		}
		if !pods.Contains(n.Pods.Addr()) || pool.Contains(n.Address) {
			t.Errorf("%s: pods %s, address %s", n.Name, n.Pods, n.Address)
		}
		if len(n.Namespace) > 15 {
			t.Errorf("%s is no name for a link: more than 15 bytes", n.Namespace)
		}
	}
	for _, p := range [][2]netip.Prefix{{services, pods}, {services, pool}, {pool, pods}, {hostAddress.Masked(), pool}} {
		if p[0].Overlaps(p[1]) {
			t.Errorf("%s and %s overlap", p[0], p[1])
		}
	}
	if !services.Contains(netip.MustParseAddr(dns)) {
		t.Errorf("DNS at %s is no ClusterIP", dns)
	}
}

func TestEveryFileIsFilledAndWellFormed(t *testing.T) {
	l := plan(t, 2)
	if err := os.MkdirAll(l.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := l.configure(); err != nil {
		t.Fatal(err)
	}
	if err := l.PullFrom("images.plant:80"); err != nil {
		t.Fatal(err)
	}
	if err := l.PullFrom("images.plant"); err == nil {
		t.Error("a registry without a port is taken")
	}
	read := func(names ...string) string {
		content, err := os.ReadFile(l.file(names...))
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	for _, name := range []string{"kubelet.yaml", "kube-proxy.yaml", "cni/10-kubelab.conflist"} {
		var document map[string]any
		if err := yaml.Unmarshal([]byte(read("n2", name)), &document); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for file, want := range map[string][]string{
		"n2/kubelet.yaml":                       {"cgroupRoot: /kubelab/n2", "kubelet-server-node2.crt", "unix://" + l.Dir + "/n2/containerd.sock"},
		"n2/cni/10-kubelab.conflist":            {`"subnet": "10.250.2.0/24"`},
		"n2/containerd.toml":                    {`address = "` + l.Dir + `/n2/containerd.sock"`, `config_path = "` + l.Dir + `/registries"`},
		"n1/kube-proxy.yaml":                    {"bindAddress: 172.31.250.11", "hostnameOverride: node1"},
		"registries/_default/hosts.toml":        {`[host."http://172.31.250.1:5000"]`},
		"registries/images.plant:80/hosts.toml": {`server = "http://images.plant:80"`, `[host."http://images.plant:80"]`},
	} {
		content := read(strings.Split(file, "/")...)
		for _, w := range want {
			if !strings.Contains(content, w) {
				t.Errorf("%s does not hold %q:\n%s", file, w, content)
			}
		}
	}
	manifests, err := l.render("cluster.yaml", Node{})
	if err != nil {
		t.Fatal(err)
	}
	decoder := yaml.NewDecoder(strings.NewReader(string(manifests)))
	kinds := []string{}
	for {
		var document map[string]any
		if err := decoder.Decode(&document); err != nil {
			break
		}
		kinds = append(kinds, document["kind"].(string))
	}
	if !slices.Contains(kinds, "DaemonSet") || !slices.Contains(kinds, "StorageClass") {
		t.Errorf("the cluster gets %v", kinds)
	}
}

func TestNoPartIsNamedTwice(t *testing.T) {
	l := plan(t, 3)
	parts := append([]part{l.registryPart(), l.etcdPart(), l.apiServerPart()}, l.controllerParts()...)
	for _, n := range l.nodes() {
		parts = append(append(parts, l.containerdPart(n), l.policyPart(n)), l.nodeParts(n)...)
	}
	seen := map[string]bool{}
	for _, p := range parts {
		if seen[p.name] {
			t.Errorf("two parts are called %s", p.name)
		}
		seen[p.name] = true
	}
	if len(seen) != 7+3*4 {
		t.Errorf("%d parts", len(seen))
	}
}

func TestMissingPackagesAreNamed(t *testing.T) {
	there := func(path string) bool { return path != "/usr/sbin/ipset" && !strings.HasPrefix(path, "/usr/lib/cni/") }
	if got := missingPackages(needed, there); !slices.Equal(got, []string{"containernetworking-plugins", "ipset"}) {
		t.Errorf("missing: %q", got)
	}
}

func TestALabThatIsNotThere(t *testing.T) {
	l := plan(t, 1)
	s, err := l.Status()
	if err != nil || s.Nodes != 0 || s.Whole() {
		t.Fatalf("%+v, %v", s, err)
	}
	if err := l.Cut(t.Context(), "all", "10.0.0.1"); err == nil || !strings.Contains(err.Error(), "no lab is up in "+l.Dir) {
		t.Errorf("a cut without a lab: %v", err)
	}
}

func TestAHalfUpLabIsSaid(t *testing.T) {
	l := plan(t, 1)
	table, err := l.table()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.save(state{Nodes: 1, Ready: true}); err != nil {
		t.Fatal(err)
	}
	if err := table.Start("brief", "true"); err != nil {
		t.Fatal(err)
	}
	for { // its end is a matter of moments
		s, err := l.Status()
		if err != nil {
			t.Fatal(err)
		}
		if slices.Equal(s.Ended, []string{"brief"}) {
			if s.Whole() {
				t.Error("a lab with a process that has ended counts as whole")
			}
			return
		}
	}
}

func TestWhatALabHasLeftIsFound(t *testing.T) {
	l := plan(t, 1)
	l.Dir = filepath.Join(t.TempDir(), "lab")
	mine := func() (left []string) {
		for _, trace := range l.traces() { // those of a lab that is up have other names
			if strings.Contains(trace, l.Dir) {
				left = append(left, trace)
			}
		}
		return left
	}
	if left := mine(); len(left) > 0 {
		t.Fatalf("a lab that never was has left %q", left)
	}
	if err := os.Mkdir(l.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stays := exec.CommandContext(ctx, "sh", "-c", "read line", l.Dir+"/n1/kubelet")
	in, err := stays.StdinPipe() // never closed, so that it waits
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := stays.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cancel(); _ = stays.Wait() }()
	want := []string{l.Dir, "process sh -c read line " + l.Dir + "/n1/kubelet"}
	if left := mine(); !slices.Equal(left, want) {
		t.Errorf("left: %q, want %q", left, want)
	}
}

func TestTwoCommandsDoNotWorkOnOneLab(t *testing.T) {
	l := plan(t, 1)
	err := l.exclusively(func() error {
		return l.exclusively(func() error { t.Error("both ran"); return nil })
	})
	if err == nil || !strings.Contains(err.Error(), "another kubelab command") {
		t.Errorf("%v", err)
	}
}

func TestAnEndIsAPodAnAddressOrANetwork(t *testing.T) {
	l := plan(t, 1)
	for name, want := range map[string]string{"all": "0.0.0.0/0", "10.1.2.3": "10.1.2.3/32", "10.1.2.3/8": "10.0.0.0/8"} {
		if got, err := l.end(t.Context(), name); err != nil || got.String() != want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for _, name := range []string{"", "pod", "/pod", "ns/"} {
		if _, err := l.end(t.Context(), name); err == nil || !strings.Contains(err.Error(), "must be namespace/pod") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestAContainerIsFoundByNameOrAlone(t *testing.T) {
	var one, two podStatus
	one.Status.ContainerStatuses = []containerStatus{{Name: "broker", ContainerID: "containerd://a"}}
	two.Status.ContainerStatuses = append(one.Status.ContainerStatuses, containerStatus{Name: "reloader"})
	for _, c := range []struct {
		pod       podStatus
		container string
		found     bool
	}{{one, "", true}, {one, "broker", true}, {one, "nats", false}, {two, "broker", true}, {two, "", false}} {
		got, err := c.pod.container(c.container)
		if (err == nil) != c.found || c.found && got.Name != "broker" {
			t.Errorf("%q: %+v, %v", c.container, got, err)
		}
	}
	const tasks = "TASK    PID     STATUS\na       4711    RUNNING\nb       4712    STOPPED\n"
	if pid, err := taskPID(tasks, "a"); err != nil || pid != 4711 {
		t.Errorf("%d, %v", pid, err)
	}
	if _, err := taskPID(tasks, "b"); err == nil {
		t.Error("a container that is stopped was found running")
	}
}

func TestOnlyAListenerOnEveryAddressTakesAPort(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:192B 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1
   1: 0100007F:1388 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 2
   2: 00000000:094B 0100007F:0035 01 00000000:00000000 00:00000000 00000000     0        0 3
   3: 00000000000000000000000000000000:094C 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4
`
	if got := wildcards(table); !slices.Equal(got, []int{6443, 2380}) {
		t.Errorf("ports %v, want 6443 and 2380: not one on loopback, nor a connection", got)
	}
}

func TestOnlyTheLabsOwnRuntimeFilesAreItsOwn(t *testing.T) {
	l := plan(t, 1)
	bundle := l.file("n1", "run", "io.containerd.runtime.v2.task", "k8s.io", "abc")
	if err := os.MkdirAll(bundle, 0o755); err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string][]string{
		"unix:///run/containerd/s/0123": {"/run/containerd/runc/k8s.io/abc", "/var/lib/cni/results/cni-loopback-abc-lo", "/run/containerd/s/0123"},
		"unix:///etc/passwd":            {"/run/containerd/runc/k8s.io/abc", "/var/lib/cni/results/cni-loopback-abc-lo"},
	} {
		if err := os.WriteFile(filepath.Join(bundle, "address"), []byte(address), 0o600); err != nil {
			t.Fatal(err)
		}
		files, err := l.runtimeFiles()
		if err != nil {
			t.Fatal(err)
		}
		files = slices.DeleteFunc(files, func(f string) bool { return strings.HasPrefix(f, cniResults+"/kubelab-") }) // of a lab that is up
		if !slices.Equal(files, want) {
			t.Errorf("%s: %q, want %q", address, files, want)
		}
	}
}
