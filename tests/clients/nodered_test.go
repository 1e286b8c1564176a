package clients_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"maestrohub.io/uns/tests/harness"
	"maestrohub.io/uns/tools/launch"
)

// nodeRED imports a flow as the editor does when somebody deploys it, waits for a live
// copy of what it publishes, and returns what it printed.
func nodeRED(t *testing.T, flow, dir string, environment []string) string {
	t.Helper()
	harness.Require(t, "nodered/node_modules/node-red/red.js")
	program, err := filepath.Abs("nodered/node_modules/node-red/red.js")
	if err != nil {
		t.Fatal(err)
	}
	ports, err := launch.Reserve(1)
	if err != nil {
		t.Fatal(err)
	}
	settings := filepath.Join(dir, "settings.js")
	text := fmt.Sprintf("module.exports = { uiHost: '127.0.0.1', uiPort: %d, userDir: %q, credentialSecret: false };\n", ports[0], dir)
	if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := harness.Program(t, launch.Spec{Name: "node-red", Path: "node", Args: []string{program, "--settings", settings, "--no-telemetry"}, Dir: dir, Env: environment})
	harness.WaitFor(t, p, "Started flows")
	harness.WaitFor(t, p, "Server now running") // either may be said first
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("http://127.0.0.1:%d/flows", ports[0]), bytes.NewBufferString(flow))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if said, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusNoContent {
		t.Fatalf("Node-RED does not take the flow: %s: %s", response.Status, said)
	}
	harness.WaitFor(t, p, `"?value"?: ?21\.5|\b21\.5\b`)
	return p.Output()
}
