package contract

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"

	"maestrohub.io/uns/broker/config"
)

// Value is one key of an annotated values.yaml.
type Value struct {
	Path       string // "uns.mqtt.embedded.memberTTL"
	Doc        string
	Section    bool           // begins a section of the README
	Schema     map[string]any // what @schema says
	Config     *config.Row    // what @config names
	Kubernetes string         // what @kubernetes names
	Default    *yaml.Node
	Children   []*Value // of a map that lists its keys
}

// Name is the last part of the path.
func (v *Value) Name() string { return v.Path[strings.LastIndexByte(v.Path, '.')+1:] }

// Walk calls f for v and all below it.
func (v *Value) Walk(f func(*Value)) {
	f(v)
	for _, c := range v.Children {
		c.Walk(f)
	}
}

// ReadValues reads an annotated values.yaml. The Value it returns stands for the
// whole file.
func ReadValues(path string) (*Value, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	top := &Value{}
	if len(document.Content) == 0 {
		return top, nil
	}
	rows := make(map[string]config.Row)
	for _, row := range config.Rows() {
		rows[row.Key] = row
	}
	if err := top.read(document.Content[0], rows); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return top, nil
}

// read takes the keys of the mapping n as v's children.
func (v *Value) read(n *yaml.Node, rows map[string]config.Row) error {
	v.Default = n
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		c := &Value{Path: strings.TrimPrefix(v.Path+"."+key.Value, "."), Default: value}
		if err := c.annotate(key.HeadComment, rows); err != nil {
			return fmt.Errorf("line %d: %s: %w", key.Line, c.Path, err)
		}
		if value.Kind == yaml.MappingNode && len(value.Content) > 0 && c.Kubernetes == "" && c.Schema["additionalProperties"] == nil {
			if err := c.read(value, rows); err != nil {
				return err
			}
		}
		v.Children = append(v.Children, c)
	}
	return nil
}

// annotate takes the comment above a key apart. Of several blocks the last is the
// key's own.
func (v *Value) annotate(comment string, rows map[string]config.Row) error {
	blocks := strings.Split(comment, "\n\n")
	var doc []string
	for line := range strings.Lines(blocks[len(blocks)-1]) {
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "#"))
		word, rest, _ := strings.Cut(line, " ")
		switch word {
		case "@schema":
			var schema map[string]any
			if err := json.Unmarshal([]byte(rest), &schema); err != nil {
				return fmt.Errorf("@schema: %w", err)
			}
			if v.Schema == nil {
				v.Schema = make(map[string]any)
			}
			maps.Copy(v.Schema, schema)
		case "@config":
			row, known := rows[rest]
			if !known {
				return fmt.Errorf("@config %s: the broker has no such setting", rest)
			}
			v.Config = &row
		case "@kubernetes":
			v.Kubernetes = rest
		case "--":
			v.Section = true
			doc = append(doc, rest)
		default:
			doc = append(doc, line)
		}
	}
	v.Doc = strings.TrimSpace(strings.Join(doc, " "))
	return nil
}

// Settings are the values that become settings of the broker, by value path.
func (v *Value) Settings() []*Value {
	var all []*Value
	v.Walk(func(v *Value) {
		if v.Config != nil {
			all = append(all, v)
		}
	})
	return all
}

// IsPort reports whether the value is the port of a setting that is an address to
// listen on: the chart has every listener open on every address.
func (v *Value) IsPort() bool {
	return v.Config != nil && strings.HasPrefix(v.Config.Default, ":") && v.Default.Tag == "!!int"
}
