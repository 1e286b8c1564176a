package contract

import (
	"bytes"
	"flag"
	"os"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the generated files of the chart anew")

func TestGeneratedFilesAreCurrent(t *testing.T) {
	values, err := ReadValues(folder + "/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	settings, err := SettingsFile(values)
	if err != nil {
		t.Fatal(err)
	}
	current(t, folder+"/files/settings.json", settings)

	subcharts := make(map[string]map[string]any)
	if subcharts["nats"], err = ReadSchema(folder + "/charts/nats/values.schema.json"); err != nil {
		t.Fatal(err)
	}
	schema, err := Schema(values, subcharts, nil)
	if err != nil {
		t.Fatal(err)
	}
	current(t, folder+"/values.schema.json", schema)

	page, err := Readme(folder+"/README.md", values)
	if err != nil {
		t.Fatal(err)
	}
	current(t, folder+"/README.md", page)
}

func current(t *testing.T, path string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	switch {
	case bytes.Equal(got, want):
	case *rewrite:
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s is not what values.yaml says: go test ./tests/contract -rewrite", path)
	}
}
