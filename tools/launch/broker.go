package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.yaml.in/yaml/v3"
)

// Client is one entry of clients.yaml. Nil publish and subscribe lists are left
// out, which grants everything; empty ones grant nothing.
type Client struct {
	ID         string    `yaml:"id"`
	Secret     string    `yaml:"secret,omitempty"`
	SecretHash string    `yaml:"secretHash,omitempty"`
	Workspace  string    `yaml:"workspace"`
	Publish    *[]string `yaml:"publish,omitempty"`
	Subscribe  *[]string `yaml:"subscribe,omitempty"`
	Scopes     []string  `yaml:"scopes,omitempty"`
}

// BrokerOptions say what broker to prepare.
type BrokerOptions struct {
	Binary  string // from BuildBroker
	Dir     string // a folder for this broker alone
	Clients []Client
	Model   string // model.yaml; empty: none
	// Settings are keys of config.yaml below modules.uns, with dots:
	// {"embeddedBrokerLimits.maxClients": 10}. They win over the generated ones.
	Settings  map[string]any
	TLS       bool // a certificate: opens the TLS listener and makes the WebSocket one WSS
	WebSocket bool
	Env       []string
}

// Broker is a broker over a folder of its own. Start, Kill and Stop may follow
// each other as often as wanted; addresses and data stay.
type Broker struct {
	Dir  string
	TCP  string // host:port of each listener, opened or not
	TLS  string
	WS   string
	HTTP string
	CA   *Authority // nil without TLS

	binary string
	env    []string
	// process is the present one, or the last; others look at it while it is started again.
	process atomic.Pointer[Process]
	printed strings.Builder // by the lives before this one
}

// WebSocketPath is the path of the MQTT endpoint on the WebSocket listener.
const WebSocketPath = "/mqtt"

// BuildBroker compiles ./broker and returns the binary's path.
func BuildBroker(flags ...string) (string, error) {
	name := "broker"
	if len(flags) > 0 {
		name += strings.Join(flags, "")
	}
	return Build(".", "./broker", name, flags...)
}

// PrepareBroker reserves ports and writes config.yaml, clients.yaml, model.yaml
// and certificates into o.Dir.
func PrepareBroker(o BrokerOptions) (*Broker, error) {
	ports, err := Reserve(5)
	if err != nil {
		return nil, err
	}
	address := func(i int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[i])) }
	b := &Broker{
		Dir: o.Dir, TCP: address(0), TLS: address(1), WS: address(2), HTTP: address(3),
		binary: o.Binary, env: o.Env,
	}
	settings := map[string]any{
		"dataDir":                  filepath.Join(o.Dir, "data"),
		"clientsFile":              "clients.yaml",
		"embeddedBroker.tcpListen": b.TCP,
		"embeddedBroker.tlsListen": b.TLS,
		"embeddedBroker.webSocket": map[string]any{"enabled": o.WebSocket, "listen": b.WS, "path": WebSocketPath},
		"http.listen":              b.HTTP,
		"brokerMesh.listen":        address(4),
	}
	files := map[string]any{"clients.yaml": map[string]any{"clients": o.Clients}}
	if o.Model != "" {
		settings["modelFile"] = "model.yaml"
	}
	if o.TLS {
		if b.CA, err = NewAuthority("broker test authority"); err != nil {
			return nil, err
		}
		if err := b.CA.IssueTo(filepath.Join(o.Dir, "tls"), "broker"); err != nil {
			return nil, err
		}
		settings["embeddedBroker.tls"] = map[string]any{"certFile": "tls/tls.crt", "keyFile": "tls/tls.key"}
	}
	tree := map[string]any{}
	for _, layer := range []map[string]any{settings, o.Settings} {
		// A group before the keys in it, which win.
		for _, key := range slices.Sorted(maps.Keys(layer)) {
			if err := set(tree, "modules.uns."+key, layer[key]); err != nil {
				return nil, err
			}
		}
	}
	files["config.yaml"] = tree
	for name, content := range files {
		text, err := yaml.Marshal(content)
		if err != nil {
			return nil, fmt.Errorf("write %s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(o.Dir, name), text, 0o600); err != nil {
			return nil, fmt.Errorf("write %s: %w", name, err)
		}
	}
	if o.Model != "" {
		if err := os.WriteFile(filepath.Join(o.Dir, "model.yaml"), []byte(o.Model), 0o600); err != nil {
			return nil, fmt.Errorf("write model.yaml: %w", err)
		}
	}
	return b, nil
}

// set puts v at a dotted key of a tree of maps; a map is merged into what is there.
func set(tree map[string]any, key string, v any) error {
	first, rest, nested := strings.Cut(key, ".")
	if nested {
		child, ok := tree[first].(map[string]any)
		if !ok {
			if tree[first] != nil {
				return fmt.Errorf("setting %s: %s has a value already", key, first)
			}
			child = map[string]any{}
			tree[first] = child
		}
		return set(child, rest, v)
	}
	if m, ok := v.(map[string]any); ok {
		for k, value := range m {
			if err := set(tree, first+"."+k, value); err != nil {
				return err
			}
		}
		return nil
	}
	tree[first] = v
	return nil
}

// CAFile returns the path of the certificate clients are to trust.
func (b *Broker) CAFile() string { return filepath.Join(b.Dir, "tls", "ca.crt") }

// Start starts the broker and waits until it is ready to serve.
func (b *Broker) Start(ctx context.Context) error {
	if err := b.Launch(); err != nil {
		return err
	}
	if err := b.Ready(ctx); err != nil {
		b.Process().Kill()
		return err
	}
	return nil
}

// Launch starts the broker and does not wait for anything.
func (b *Broker) Launch() error {
	if b.Process() != nil {
		b.printed.WriteString(b.Process().Output())
	}
	p, err := Start(Spec{
		Name: "broker", Path: b.binary, Dir: b.Dir, Env: b.env,
		Args: []string{"run", "--config", filepath.Join(b.Dir, "config.yaml")},
	})
	if err != nil {
		return err
	}
	b.process.Store(p)
	return nil
}

// Ready waits until /health/ready answers 200. The error has the last reason
// given and what the broker printed.
func (b *Broker) Ready(ctx context.Context) error {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	last := errors.New("not asked yet")
	for {
		var ready bool
		if ready, last = b.askReady(ctx, last); ready {
			return nil
		}
		select {
		case <-b.Process().Exited():
			return fmt.Errorf("broker ended before it was ready; it printed:\n%s", b.Process().Output())
		case <-ctx.Done():
			return fmt.Errorf("broker is not ready: %w; last answer: %w; it printed:\n%s", ctx.Err(), last, b.Process().Output())
		case <-ticker.C:
		}
	}
}

func (b *Broker) askReady(ctx context.Context, last error) (bool, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+b.HTTP+"/health/ready", nil)
	if err != nil {
		return false, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		if ctx.Err() != nil {
			return false, last // says more than that the time is over
		}
		return false, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return false, err
	}
	if response.StatusCode != http.StatusOK {
		return false, fmt.Errorf("/health/ready answered %d: %s", response.StatusCode, body)
	}
	return true, nil
}

// SetBinary says which program the next start runs: another release.
func (b *Broker) SetBinary(path string) { b.binary = path }

// Binary is the program that the next start runs.
func (b *Broker) Binary() string { return b.binary }

// Process returns the running process, or the last one; nil before Start.
func (b *Broker) Process() *Process { return b.process.Load() }

// Kill is kill -9; it returns once the broker is gone.
func (b *Broker) Kill() {
	if b.Process() != nil {
		b.Process().Kill()
	}
}

// Stop stops the broker as an operator would, with SIGTERM.
func (b *Broker) Stop(grace time.Duration) error {
	if b.Process() == nil {
		return nil
	}
	return b.Process().Stop(grace)
}

// Output returns what the broker has printed over all its lives.
func (b *Broker) Output() string {
	if b.Process() == nil {
		return ""
	}
	return b.printed.String() + b.Process().Output()
}
