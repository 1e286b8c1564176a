package runbooks_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"maestrohub.io/uns/tests/harness"
	"maestrohub.io/uns/tests/runbooks/pages"
)

// The commands of the page on alerts, and its scrape configuration as Prometheus reads
// it.
func TestThePageOnAlerts(t *testing.T) {
	harness.Require(t, "/usr/bin/promtool")
	for _, b := range pages.Blocks(t, root, "TestThePageOnAlerts", 2) {
		script := b.Text
		if strings.HasPrefix(b.Info, "yaml") {
			// Debian's promtool is built without Kubernetes: the pods stand in a file.
			const pods = "kubernetes_sd_configs: [{role: pod}]"
			if !strings.Contains(b.Text, pods) {
				t.Fatalf("%s does not say %s", b.At(), pods)
			}
			file := filepath.Join(t.TempDir(), "prometheus.yaml")
			if err := os.WriteFile(file, []byte(strings.Replace(b.Text, pods, "file_sd_configs: [{files: [pods.json]}]", 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			script = "promtool check config " + file
		}
		cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", b.At(), err, out)
		}
	}
}
