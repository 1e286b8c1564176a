package kubernetes_test

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	oci "github.com/google/go-containerregistry/pkg/registry"
)

// The images of values-local-lab.yaml.
var labsImages = []string{"maestrohub/uns-broker", "nats", "natsio/nats-server-config-reloader", "timescale/timescaledb"}

// TestAClusterOfYours gives the commands of the chart's page for a registry of one's own,
// which wants a password, and then runs rows as `make e2e E2E_KUBECONFIG=…
// E2E_REGISTRY=…` does on a cluster that is there already: this machine is a stranger
// that reaches the API server, the nodes and that registry, and nothing within the
// cluster.
func TestAClusterOfYours(t *testing.T) {
	if !*yours {
		t.Skip("-yours has it run")
	}
	cluster.needLab(t)
	installations.enter(t)
	began := time.Now()
	images := startRegistry(t)
	if _, err := cluster.commandWith(t.Context(), []string{"DOCKER_CONFIG=" + images.login(t)}, "kubelab", "--repository", root,
		"images", "--registry", "http://"+images.address+"/plant"); err != nil {
		t.Fatal(err)
	}
	cluster.lab(t, "pull-from", images.address)
	row(t, "a registry of yours: every image pushed", "-", time.Since(began))

	r := &release{name: "maestrohub", namespace: "maestrohub"}
	r.mustBeNew(t)
	t.Cleanup(func() { r.remove(t) })
	began = time.Now()
	o := newOperator(t, r)
	repository, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "chart/README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, below, _ := strings.Cut(string(page), "\n## From a registry of your own\n")
	_, block, _ := strings.Cut(below, "\n```sh skip=")
	_, block, _ = strings.Cut(block, "\n")
	block, _, found := strings.Cut(block, "```")
	if !found || !strings.Contains(block, "helm install") {
		t.Fatalf("chart/README.md has no block about a registry of one's own, but\n%s", block)
	}
	o.runs(t, "cd '"+repository+"'\n"+strings.NewReplacer("registry.example.com/mirror", images.address+"/plant",
		"registry.example.com", images.address, "USER", registryUser, "PASSWORD", registryPassword).Replace(block))
	row(t, "chart's page: helm install from a registry that wants a password", "every command succeeds", time.Since(began))
	row(t, "helm test on it", "a device's way, once", r.helmTest(t))
	for _, name := range labsImages {
		if !images.pulled("plant/" + name) {
			t.Errorf("nobody has pulled %s from the registry", name)
		}
	}
	r.remove(t)
	images.open.Store(true) // those who run the tests have nodes that may pull

	// What somebody has who has a cluster: a kubeconfig, kubectl and helm.
	home := t.TempDir()
	config, err := os.ReadFile(*kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, "config"), config, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kubectl", "helm"} {
		path, err := cluster.program(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(home, name)); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// One row that needs a lab is among them: it must see that this is none.
	passed := stranger(t, self, "-test.v", "-test.run", "^(TestADeviceConnectsThroughANodePortAndTheLoadBalancer|TestRowPodDeleted|TestRowPodKilled)$",
		"-kubeconfig", filepath.Join(home, "config"), "-programs", home, "-registry", images.address+"/plant", "-namespace", "e2e-yours")
	if want := []string{"TestADeviceConnectsThroughANodePortAndTheLoadBalancer", "TestRowPodDeleted"}; !slices.Equal(passed, want) {
		t.Errorf("%q passed, want %q", passed, want)
	}
	row(t, "rows on a cluster of yours", "-", fmt.Sprintf("%d passed", len(passed)))
}

// registryOf serves images without TLS on the bridge of the lab.
type registryOf struct {
	address string
	open    atomic.Bool // to whoever comes; else a password is wanted

	mu    sync.Mutex
	asked map[string]bool // repositories that a node has asked for
}

// Who may use it.
const registryUser, registryPassword = "e2e", "e2e-registry-password"

// startRegistry starts a registry that ends with the test.
func startRegistry(t *testing.T) *registryOf {
	t.Helper()
	listener, err := net.Listen("tcp", labsMachine+":0")
	if err != nil {
		t.Fatal(err)
	}
	s := &registryOf{address: listener.Addr().String(), asked: map[string]bool{}}
	images := oci.New(oci.WithBlobHandler(oci.NewDiskBlobHandler(t.TempDir())), oci.Logger(slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)))
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); !s.open.Load() && (user != registryUser || password != registryPassword) {
			w.Header().Set("WWW-Authenticate", `Basic realm="images"`)
			http.Error(w, `{"errors":[{"code":"UNAUTHORIZED"}]}`, http.StatusUnauthorized)
			return
		}
		if repository, _, is := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v2/"), "/manifests/"); is && strings.HasPrefix(r.UserAgent(), "containerd/") {
			s.mu.Lock()
			s.asked[repository] = true
			s.mu.Unlock()
		}
		images.ServeHTTP(w, r)
	})}}
	server.Start()
	t.Cleanup(server.Close)
	return s
}

func (s *registryOf) pulled(repository string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[repository]
}

// login is a folder as `docker login` leaves it.
func (s *registryOf) login(t *testing.T) string {
	t.Helper()
	login := base64.StdEncoding.EncodeToString([]byte(registryUser + ":" + registryPassword))
	return filepath.Dir(written(t, "config.json", fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, s.address, login)))
}

// Addresses on the lab's bridge: the machine's, and one that nobody has.
const (
	labsMachine = "172.31.250.1"
	strangers   = "172.31.250.200/24"
)

// stranger runs a program in a network of its own, with a cable to the lab's bridge and
// a route to nothing behind it. Both are gone with the program, whatever ends it. It
// returns the tests that have passed.
func stranger(t *testing.T, program string, args ...string) (passed []string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "unshare", append([]string{"--net", "sh", "-c", `read -r _ && exec "$@" </dev/null`, "sh", program}, args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // it removes what it has installed
	cmd.WaitDelay = 3 * time.Minute
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); name != "KUBECONFIG" && name != "E2E_REGISTRY" {
			cmd.Env = append(cmd.Env, v)
		}
	}
	begin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := strconv.Itoa(cmd.Process.Pid)
	apart := func() (bool, string) {
		mine, errMine := os.Readlink("/proc/self/ns/net")
		its, err := os.Readlink("/proc/" + pid + "/ns/net")
		return errMine == nil && err == nil && mine != its, fmt.Sprintf("%s, %s, %v %v", mine, its, errMine, err)
	}
	until(t, generous, "a network of its own", apart)
	cable := "kubelab-" + pid
	for _, step := range [][]string{
		{"ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", pid},
		{"ip", "link", "set", cable, "master", "kubelab", "up"},
		{"nsenter", "-t", pid, "-n", "ip", "address", "add", strangers, "dev", "eth0"},
		{"nsenter", "-t", pid, "-n", "ip", "link", "set", "eth0", "up"},
		{"nsenter", "-t", pid, "-n", "ip", "link", "set", "lo", "up"},
	} {
		if said, err := exec.CommandContext(t.Context(), step[0], step[1:]...).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", strings.Join(step, " "), err, said)
		}
	}
	if _, err := io.WriteString(begin, "begin\n"); err != nil {
		t.Error(err)
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if test, is := strings.CutPrefix(line, "--- PASS: "); is {
			passed = append(passed, strings.Fields(test)[0])
		}
		if at := strings.Index(line, ": | "); at >= 0 { // its rows are this test's
			line = line[at+2:]
		}
		t.Log(line)
	}
	if err := lines.Err(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("on a cluster of yours: %v", err)
	}
	slices.Sort(passed)
	return passed
}
