package launch

import (
	"os"
	"path/filepath"
	"testing"

	"go.yaml.in/yaml/v3"
)

// A setting inside a group wins over the group, whatever the order of the map.
func TestASettingWinsOverItsGroup(t *testing.T) {
	for range 20 {
		dir := t.TempDir()
		_, err := PrepareBroker(BrokerOptions{Dir: dir, Settings: map[string]any{
			"brokerMesh":         map[string]any{"certFile": "a.crt", "keyFile": "a.key"},
			"brokerMesh.keyFile": "b.key", "brokerMesh.certFile": "b.crt",
		}})
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, "config.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var written struct {
			Modules struct {
				UNS struct {
					BrokerMesh map[string]string `yaml:"brokerMesh"`
				} `yaml:"uns"`
			} `yaml:"modules"`
		}
		if err := yaml.Unmarshal(text, &written); err != nil {
			t.Fatal(err)
		}
		if m := written.Modules.UNS.BrokerMesh; m["certFile"] != "b.crt" || m["keyFile"] != "b.key" {
			t.Fatalf("written as %v", m)
		}
	}
}
