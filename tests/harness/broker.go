package harness

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"maestrohub.io/uns/tools/launch"
)

// Workspace is the slug of the workspace that Clients are in.
const Workspace = "acme"

// readyWithin is how long a broker may take to serve: a start is well under a
// second, but the machine may be busy with other tests.
const readyWithin = 30 * time.Second

// Options say what broker to start; see launch.BrokerOptions.
type Options struct {
	Clients   []launch.Client // nil: Clients("device")
	Model     string
	Settings  map[string]any
	TLS       bool
	WebSocket bool
	Env       []string
}

// Broker is a broker process of one test.
type Broker struct {
	*launch.Broker
	secrets map[string]string // by client id
}

// Secret returns the secret of a client that Clients made. It has the form of a
// generated one, so that the broker need not protect it by a slow hash.
func Secret(id string) string {
	sum := sha256.Sum256([]byte("secret of " + id))
	return hex.EncodeToString(sum[:])
}

// Clients returns clients that may do everything in Workspace.
func Clients(ids ...string) []launch.Client {
	var clients []launch.Client
	for _, id := range ids {
		clients = append(clients, launch.Client{ID: id, Secret: Secret(id), Workspace: Workspace,
			Scopes: []string{"uns:read", "uns:write", "uns_settings:update", "api_clients:manage"}})
	}
	return clients
}

// Inbox returns the name a client of Workspace publishes a topic to.
func Inbox(client, topic string) string {
	return "mHv1.0/" + Workspace + "/_ingress/" + client + "/" + topic
}

// Data returns the name under which the live copies of a topic of Workspace go out.
func Data(topic string) string { return "mHv1.0/" + Workspace + "/" + topic }

var binary = sync.OnceValues(func() (string, error) { return launch.BuildBroker() })

// Binary returns the path of the broker, built once per test binary.
func Binary(t testing.TB) string {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Prepare writes a broker's folder without starting it: for tests of the start.
func Prepare(t testing.TB, o Options) *Broker {
	t.Helper()
	if o.Clients == nil {
		o.Clients = Clients("device")
	}
	b, err := launch.PrepareBroker(launch.BrokerOptions{
		Binary: Binary(t), Dir: folder(t), Clients: o.Clients, Model: o.Model,
		Settings: o.Settings, TLS: o.TLS, WebSocket: o.WebSocket, Env: o.Env,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.Kill()
		if t.Failed() {
			t.Logf("the broker printed:\n%s", tail(b.Output(), 200))
		}
	})
	return Attach(b, o.Clients)
}

// Attach gives a broker that something else prepared, with these clients, the
// methods of this package. It is not ended with the test.
func Attach(b *launch.Broker, clients []launch.Client) *Broker {
	secrets := map[string]string{}
	for _, c := range clients {
		secrets[c.ID] = c.Secret
	}
	return &Broker{Broker: b, secrets: secrets}
}

// Start starts a broker and waits until it is ready to serve.
func Start(t testing.TB, o Options) *Broker {
	t.Helper()
	b := Prepare(t, o)
	b.Restart(t)
	return b
}

// Restart starts a broker that was killed, stopped, or only prepared.
func (b *Broker) Restart(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), readyWithin)
	defer cancel()
	if err := b.Broker.Start(ctx); err != nil {
		t.Fatal(err)
	}
}

// folder returns a temporary folder whose removal waits for nothing: a killed
// broker leaves no writer behind, but t.TempDir names it by the whole test name,
// which a Unix socket's path has no room for.
func folder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "broker-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove the broker's folder: %v", err)
		}
	})
	return dir
}

// tail returns the last n lines of a text.
func tail(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(lines) > n {
		lines = append([]string{fmt.Sprintf("... %d lines before", len(lines)-n)}, lines[len(lines)-n:]...)
	}
	return strings.Join(lines, "\n")
}
