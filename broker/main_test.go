package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"

	"maestrohub.io/uns/broker/access"
	"maestrohub.io/uns/broker/api"
	"maestrohub.io/uns/broker/config"
)

// lockedBuffer is written by the broker and read by the test at once.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// execute runs a command line and returns what it printed.
func execute(t *testing.T, in string, arguments ...string) (string, error) {
	t.Helper()
	var out, log lockedBuffer
	c := command(&out, &log)
	c.SetArgs(arguments)
	c.SetIn(strings.NewReader(in))
	err := c.ExecuteContext(t.Context())
	return out.String(), err
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestVersionSaysWhatTheBinaryIs(t *testing.T) {
	// A test binary is built without its commit.
	want := "broker unreleased, commit unknown, " + runtime.Version() + " "
	if out, err := execute(t, "", "version"); err != nil || !strings.HasPrefix(out, want) {
		t.Errorf("version printed %q (error %v), want %q", out, err, want)
	}
}

func TestADataDirectoryTooLongForTheSocketIsSaid(t *testing.T) {
	dir := t.TempDir()
	long := filepath.Join(dir, strings.Repeat("d", 108))
	file := write(t, filepath.Join(dir, "config.yaml"), "modules: {uns: {dataDir: '"+long+"'}}\n")
	var out, log lockedBuffer
	c := command(&out, &log)
	c.SetArgs([]string{"check-config", file})
	if err := c.ExecuteContext(t.Context()); err != nil || !strings.Contains(out.String(), "is valid") {
		t.Errorf("check-config printed %q, error %v: a broker runs with it", out.String(), err)
	}
	for _, want := range []string{"warning: ", "modules.uns.dataDir", "must have at most 92 bytes", "clientsFile"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("check-config warned %q, want %q in it", log.String(), want)
		}
	}
	if _, err := execute(t, "", "client", "list", "--config", file); err == nil || !strings.Contains(err.Error(), "modules.uns.dataDir") {
		t.Errorf("client list: error %v, want the setting named", err)
	}
}

func TestConfigReferenceListsTheSettings(t *testing.T) {
	if out, err := execute(t, "", "config", "reference"); err != nil || out != config.Reference() {
		t.Errorf("config reference printed %d bytes (error %v), want the table's %d", len(out), err, len(config.Reference()))
	}
}

func TestCheckConfigAcceptsAGoodFileAndListsAllThatIsWrong(t *testing.T) {
	dir := t.TempDir()
	good := write(t, filepath.Join(dir, "good.yaml"), "modules:\n  uns:\n    replicaId: a\n")
	for _, arguments := range [][]string{{"check-config", good}, {"check-config", "--config", good}} {
		if out, err := execute(t, "", arguments...); err != nil || !strings.Contains(out, "is valid") {
			t.Errorf("%v: %q, error %v", arguments, out, err)
		}
	}
	bad := write(t, filepath.Join(dir, "bad.yaml"), "modules:\n  uns:\n    brokerMemberTTL: 3s\n    replicas: 0\n    clients: x\n")
	_, err := execute(t, "", "check-config", bad)
	for _, want := range []string{bad, "brokerMemberTTL", "5s to 2m", "replicas", "modules.uns.clients"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s in it", err, want)
		}
	}
	files := write(t, filepath.Join(dir, "files.yaml"), "modules:\n  uns:\n    modelFile: none.yaml\n    clientsFile: nobody.yaml\n")
	_, err = execute(t, "", "check-config", files)
	for _, want := range []string{"none.yaml", "nobody.yaml"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s in it", err, want)
		}
	}
	if _, err := execute(t, "", "check-config"); err == nil {
		t.Error("check-config without a file: no error")
	}
}

func TestRunRefusesAWrongConfigurationAndSaysSoInItsLog(t *testing.T) {
	bad := write(t, filepath.Join(t.TempDir(), "bad.yaml"), "modules: {uns: {brokerMemberTTL: 3s, replicas: 0}}\n")
	var out, log lockedBuffer
	if err := run(t.Context(), bad, "", &out, &log); err == nil || !strings.Contains(err.Error(), "brokerMemberTTL") {
		t.Errorf("error %v, want the key named", err)
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) < 3 {
		t.Errorf("logged %q, want every setting that is wrong", lines)
	}
	for _, line := range lines {
		if !strings.HasPrefix(line, "embedded broker: ") {
			t.Errorf("log line %q without its prefix", line)
		}
	}
}

func TestAModelThatIsWrongIsLoggedWithALineForEachFault(t *testing.T) {
	dir := t.TempDir()
	model := write(t, filepath.Join(dir, "model.yaml"), "workspaces: [{slug: plant, bindings: [{topic: 'a/#', nothing: 1}, {topic: 'b/#', neither: 1}]}]\n")
	file := write(t, filepath.Join(dir, "config.yaml"), "modules: {uns: {dataDir: '"+dir+"/data', replicaId: a, modelFile: '"+model+"', http: {listen: '127.0.0.1:0'}, embeddedBroker: {tcpListen: '127.0.0.1:0'}}}\n")
	var out, log lockedBuffer
	if err := run(t.Context(), file, "", &out, &log); err == nil {
		t.Fatal("no error")
	}
	for _, fault := range []string{"nothing", "neither"} {
		if !regexp.MustCompile(`(?m)^embedded broker: ended .*error=[^\\]*` + fault + `[^\\]*$`).MatchString(log.String()) {
			t.Errorf("no line for %q alone in\n%s", fault, log.String())
		}
	}
}

func TestACommandThatIsMistypedIsAnErrorThatSuggestsOne(t *testing.T) {
	for arguments, want := range map[string]string{"trry": "try", "client lst": "list", "secrets whatever": `unknown command "whatever"`} {
		if out, err := execute(t, "", strings.Fields(arguments)...); err == nil || !strings.Contains(err.Error(), "unknown command") || !strings.Contains(err.Error(), want) {
			t.Errorf("broker %s: error %v, want %q in it; printed %q", arguments, err, want, out)
		}
	}
}

func TestHealthcheckIsTheBrokersReadiness(t *testing.T) {
	ready := true
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !ready && r.URL.Path == "/health/ready" {
			w.WriteHeader(503)
			_, _ = w.Write([]byte(`{"status":"unready","reason":"broker-cluster-store: disk full"}`))
		}
	}))
	defer server.Close()
	if _, err := execute(t, "", "healthcheck", "--url", server.URL+"/health/ready"); err != nil {
		t.Errorf("ready: %v", err)
	}
	ready = false
	if _, err := execute(t, "", "healthcheck", "--url", server.URL+"/health/ready"); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("not ready: error %v, want the reason", err)
	}
	server.Close()
	if _, err := execute(t, "", "healthcheck", "--url", server.URL+"/health/ready", "--timeout", "5s"); err == nil {
		t.Error("nobody there: no error")
	}
}

func TestHealthcheckFindsTheBrokerOfAConfiguration(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]string{
		"{}":                       "http://localhost:8080",
		"{listen: ':9000'}":        "http://localhost:9000",
		"{listen: '0.0.0.0:9000'}": "http://localhost:9000",
		"{listen: '127.0.0.2:90'}": "http://127.0.0.2:90",
		"{listen: '[::]:9000', tls: {certFile: a, keyFile: b}}": "https://localhost:9000",
	} {
		file := write(t, filepath.Join(dir, "config.yaml"), "modules: {uns: {http: "+text+"}}\n")
		if got, err := localURL(file); err != nil || got != want {
			t.Errorf("http %s: %q (error %v), want %q", text, got, err, want)
		}
	}
}

// broker runs the broker for trying out on ports of the kernel's choice.
type broker struct {
	config *config.Config
	out    *lockedBuffer
	stop   func() error
}

func startTrial(t *testing.T, dir string) *broker {
	t.Helper()
	b := &broker{config: trial(""), out: &lockedBuffer{}}
	c := b.config
	c.DataDir, c.ModelFile = dir, filepath.Join(dir, "model.yaml")
	c.Broker.TCPListen, c.Broker.WebSocket.Listen, c.HTTP.Listen = ":0", ":0", ":0"
	log := &lockedBuffer{}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- runTrial(ctx, c, b.out, log) }()
	b.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() {
		if err := b.stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
		if t.Failed() {
			t.Log(b.out.String() + log.String())
		}
	})
	waitFor(t, "the lines to paste", func() bool {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("the broker ended: %v", err)
		default:
		}
		return strings.Contains(b.out.String(), "Ctrl-C")
	})
	return b
}

// TestTheClientsFileOfTheReadmeIsOne also checks that it shows every scope there is
// in the text beside it.
func TestTheClientsFileOfTheReadmeIsOne(t *testing.T) {
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## The clients file\n")
	section, _, _ = strings.Cut(section, "\n## ")
	_, example, _ := strings.Cut(section, "```yaml\n")
	example, _, found := strings.Cut(example, "```")
	if err := access.CheckSeed([]byte(example)); err != nil || !found {
		t.Errorf("the example under The clients file is refused: %v", err)
	}
	for _, scope := range api.Scopes {
		if !strings.Contains(section, "`"+scope+"`") {
			t.Errorf("The clients file does not name the scope %s", scope)
		}
	}
}
