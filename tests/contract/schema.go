package contract

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"

	"go.yaml.in/yaml/v3"

	"maestrohub.io/uns/broker/config"
)

// Patterns of what the broker's parser reads. Ranges of durations and sizes are
// beyond JSON Schema: chart/templates/_validate.tpl checks them by files/settings.json.
const (
	durationPattern = `^(0|([0-9]+d)?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h))*)$`
	bytesPattern    = `^[0-9]+(\.[0-9]+)? ?([KMGTkmgt][iI]?)?[bB]?$`
)

// Schema is the JSON Schema of an annotated values.yaml. subcharts are the schemas
// of the keys that are a subchart's; conditions go into the top's allOf.
func Schema(values *Value, subcharts map[string]map[string]any, conditions []any) ([]byte, error) {
	definitions := make(map[string]any)
	for _, sub := range subcharts {
		if own, ok := sub["definitions"].(map[string]any); ok {
			maps.Copy(definitions, own)
		}
	}
	top, err := values.schema(subcharts, definitions)
	if err != nil {
		return nil, err
	}
	if len(definitions) > 0 {
		top["definitions"] = definitions
	}
	top["$schema"] = "http://json-schema.org/draft-07/schema#"
	if len(conditions) > 0 {
		top["allOf"] = conditions
	}
	out, err := json.MarshalIndent(top, "", "  ")
	return append(out, '\n'), err
}

func (v *Value) schema(subcharts map[string]map[string]any, definitions map[string]any) (map[string]any, error) {
	s := make(map[string]any)
	if v.Doc != "" {
		s["description"] = v.Doc
	}
	switch {
	case v.IsPort():
		s["type"], s["minimum"], s["maximum"] = []any{"integer", "null"}, 1, 65535
	case v.Config != nil:
		maps.Copy(s, settingSchema(*v.Config))
	case v.Kubernetes != "":
		k, err := kubernetesSchema(v.Kubernetes, definitions)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", v.Path, err)
		}
		maps.Copy(s, k)
		if v.Default.Tag == "!!null" {
			s["type"] = []any{s["type"], "null"}
		}
	default:
		t, err := typeOf(v.Default)
		if err != nil && v.Schema["type"] == nil {
			return nil, fmt.Errorf("%s: %w: say its type with @schema", v.Path, err)
		}
		s["type"] = t
	}
	if s["type"] == "object" && v.Kubernetes == "" {
		properties := make(map[string]any)
		sub := subcharts[v.Path]
		if own, ok := sub["properties"].(map[string]any); ok {
			maps.Copy(properties, own)
		}
		for _, c := range v.Children {
			p, err := c.schema(subcharts, definitions)
			if err != nil {
				return nil, err
			}
			properties[c.Name()] = merged(properties[c.Name()], p)
		}
		s["properties"], s["additionalProperties"] = properties, false
	}
	maps.Copy(s, v.Schema)
	return s, nil
}

// merged is what the subchart says of a key, and what the chart adds.
func merged(sub any, own map[string]any) map[string]any {
	s, ok := sub.(map[string]any)
	if !ok {
		return own
	}
	out := maps.Clone(s)
	for k, v := range own {
		if k == "properties" {
			below := maps.Clone(s["properties"].(map[string]any))
			for name, p := range v.(map[string]any) {
				below[name] = merged(below[name], p.(map[string]any))
			}
			out[k] = below
			continue
		}
		if _, said := out[k]; !said {
			out[k] = v
		}
	}
	return out
}

// settingSchema says what the broker accepts, as far as JSON Schema can. Null keeps
// the broker's default.
func settingSchema(row config.Row) map[string]any {
	s := formSchema(row)
	if len(row.Elements) > 0 {
		properties := make(map[string]any)
		for _, e := range row.Elements {
			p := settingSchema(e)
			p["description"] = e.Meaning
			properties[e.Key] = p
		}
		s = map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
	}
	if row.Form.List {
		return map[string]any{"type": []any{"array", "null"}, "items": s}
	}
	s["type"] = append(asList(s["type"]), "null")
	if words, ok := s["enum"].([]any); ok {
		s["enum"] = append(words, nil)
	}
	return s
}

func asList(t any) []any {
	if l, ok := t.([]any); ok {
		return l
	}
	return []any{t}
}

func formSchema(row config.Row) map[string]any {
	switch f := row.Form; f.Sort {
	case config.Count:
		return map[string]any{"type": "integer", "minimum": f.Low, "maximum": f.High}
	case config.Duration:
		s := map[string]any{"type": "string", "pattern": durationPattern, "minLength": 1}
		if f.Zero || f.Low == 0 {
			s["type"], s["minimum"], s["maximum"] = []any{"string", "integer"}, 0, 0
		}
		return s
	case config.Bytes:
		s := map[string]any{"type": []any{"string", "integer"}, "pattern": bytesPattern, "minimum": f.Low, "maximum": f.High}
		if f.Zero {
			s["minimum"] = 0
		}
		return s
	case config.Switch:
		return map[string]any{"type": "boolean"}
	case config.Word:
		words := make([]any, len(f.Words))
		for i, w := range f.Words {
			words[i] = w
		}
		return map[string]any{"type": "string", "enum": words}
	}
	return map[string]any{"type": "string"}
}

func typeOf(n *yaml.Node) (string, error) {
	switch n.Kind {
	case yaml.MappingNode:
		return "object", nil
	case yaml.SequenceNode:
		return "array", nil
	}
	switch n.Tag {
	case "!!str":
		return "string", nil
	case "!!int":
		return "integer", nil
	case "!!float":
		return "number", nil
	case "!!bool":
		return "boolean", nil
	}
	return "", fmt.Errorf("its default (%s) has no type", n.Value)
}

// ReadSchema reads a values.schema.json; nil if there is none.
func ReadSchema(path string) (map[string]any, error) {
	data, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var s map[string]any
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}
