package contract

import (
	"fmt"
	"strings"
	"testing"
)

// A mistyped key is refused wherever it stands: nothing is ignored in silence.
func TestAMistypedKeyIsRefusedAtEveryLevel(t *testing.T) {
	values(t).Walk(func(v *Value) {
		if len(v.Children) == 0 {
			return
		}
		path := strings.TrimPrefix(v.Path+".mistyped", ".")
		if got := refusal(t, At(path, 1)); !strings.Contains(got, "mistyped") {
			t.Errorf("%s is taken: %s", path, got)
		}
	})
}

// open are the maps that take any key, with the reason.
var open = map[string]string{
	".uns.config":                      "the broker's own keys, which it checks",
	".extraObjects[]":                  "the user's own objects",
	".monitoring.podMonitor.tlsConfig": "the Prometheus operator's",
	".nats.config.merge":               "nats.conf's own keys, which the server checks",
	".nats.container.merge":            "a Container's, merged over the chart's and checked by Kubernetes",
	".nats.podTemplate.merge":          "a PodTemplate's, likewise",
	".nats.global":                     "described by the chart above",
}

// Every object of the schema lists its keys, but for maps of names the user chooses.
func TestTheSchemaIsClosed(t *testing.T) {
	schema, err := ReadSchema(folder + "/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var walk func(path string, s map[string]any)
	walk = func(path string, s map[string]any) {
		if kind := fmt.Sprint(s["type"]); strings.Contains(kind, "object") {
			switch may := s["additionalProperties"].(type) {
			case nil, bool:
				if may != false && open[path] == "" {
					t.Errorf("%s takes any key", path)
				}
			}
		}
		properties, _ := s["properties"].(map[string]any)
		for name, p := range properties {
			walk(path+"."+name, p.(map[string]any))
		}
		if items, ok := s["items"].(map[string]any); ok {
			walk(path+"[]", items)
		}
	}
	walk("", schema)
	definitions, _ := schema["definitions"].(map[string]any)
	for name, d := range definitions {
		walk(name, d.(map[string]any))
	}
}

func TestEveryValueIsDocumented(t *testing.T) {
	values(t).Walk(func(v *Value) {
		if v.Path != "" && v.Doc == "" && len(v.Children) == 0 {
			t.Errorf("%s says not what it is for", v.Path)
		}
		if v.Doc != "" && !strings.HasSuffix(v.Doc, ".") {
			t.Errorf("%s: %q is not a sentence", v.Path, v.Doc)
		}
	})
}
