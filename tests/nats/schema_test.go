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
	path := chart + "/values.schema.json"
	if *rewrite {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what values.yaml says: go test ./tests/nats -rewrite", path)
	}
}
