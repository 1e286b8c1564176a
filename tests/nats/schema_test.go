package nats_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"testing"

	"maestrohub.io/uns/tests/contract"
)

var rewrite = flag.Bool("rewrite", false, "write the generated files of the NATS chart anew")

// chart is the NATS chart, seen from this package.
const chart = "../../chart/charts/nats"

// TestTheSchemaIsWhatTheValuesSay holds the schema to the comments of values.yaml. It is
// closed at every level but for what Helm itself puts in: global, which the chart above
// describes.
func TestTheSchemaIsWhatTheValuesSay(t *testing.T) {
	values, err := contract.ReadValues(chart + "/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	generated, err := contract.Schema(values, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(generated, &schema); err != nil {
		t.Fatal(err)
	}
	schema["properties"].(map[string]any)["global"] = map[string]any{"type": "object", "description": "What the chart above and this one share; described there."}
	want, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	current(t, chart+"/values.schema.json", want)
}

// TestTheReadmeHasEveryValue: the table is generated.
func TestTheReadmeHasEveryValue(t *testing.T) {
	values, err := contract.ReadValues(chart + "/values.yaml")
	must(t, err)
	page, err := contract.Readme(chart+"/README.md", values)
	must(t, err)
	current(t, chart+"/README.md", page)
}

// current holds a generated file to what it should be.
func current(t *testing.T, path string, want []byte) {
	t.Helper()
	if *rewrite {
		must(t, os.WriteFile(path, want, 0o644))
	}
	got, err := os.ReadFile(path)
	must(t, err)
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what values.yaml says: go test ./tests/nats -rewrite", path)
	}
}
