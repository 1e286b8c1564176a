package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Load reads and checks the file at path. A relative path written in it counts from its directory.
func Load(path string) (*Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	c, err := parse(data, filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("configuration %s: %w", path, err)
	}
	return c, nil
}

// Parse checks data, the content of a configuration file. Relative paths in it stay as they are.
// What is wrong with it is returned as an *Error, all of it at once.
func Parse(data []byte) (*Config, error) { return parse(data, "") }

func parse(data []byte, dir string) (*Config, error) {
	r := &reader{dir: dir}
	c := Default()
	if document := r.document(data); document != nil {
		section(r, settings(), c, document, "", root)
	}
	for _, v := range rules(c) {
		if !r.concerns(v) {
			r.violations = append(r.violations, v)
		}
	}
	if len(r.violations) > 0 {
		return nil, &Error{Violations: r.violations}
	}
	return c, nil
}

// reader goes through one file and gathers what is wrong with it.
type reader struct {
	dir        string // relative paths count from here; "" = leave them
	violations []Violation
}

func (r *reader) report(n *yaml.Node, key, value, want string) {
	r.violations = append(r.violations, Violation{Line: n.Line, Key: key, Value: value, Want: want})
}

// concerns reports whether a rule's violation v is about a setting that is wrong already: its field
// holds the default, and what the rule says of that would mislead.
func (r *reader) concerns(v Violation) bool {
	return slices.ContainsFunc(r.violations, func(wrong Violation) bool {
		return wrong.Key != "" && (wrong.Key == v.Key || strings.Contains(v.Want, wrong.Key) || strings.Contains(wrong.Want, v.Key))
	})
}

// document is the file's one document; nil when the file is empty or cannot be read as YAML (reported).
func (r *reader) document(data []byte) *yaml.Node {
	d := yaml.NewDecoder(bytes.NewReader(data))
	var n, more yaml.Node
	switch err := d.Decode(&n); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		r.violations = append(r.violations, Violation{Want: "must be YAML: " + strings.TrimPrefix(err.Error(), "yaml: ")})
		return nil
	}
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		r.violations = append(r.violations, Violation{Want: "must hold one YAML document, and holds another below it"})
	}
	if len(n.Content) == 0 {
		return nil
	}
	return follow(n.Content[0])
}

// section reads the mapping n, which lies at path, into t. The rows' keys lie below base.
func section[T any](r *reader, rows []setting[T], t *T, n *yaml.Node, path, base string) {
	if null(n) {
		return
	}
	if n.Kind != yaml.MappingNode {
		r.report(n, path, describe(n), "must hold settings, one to a line")
		return
	}
	seen := make(map[string]int)
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], follow(n.Content[i+1])
		key := below(path, name.Value)
		if first, twice := seen[name.Value]; twice {
			r.report(name, key, "", "is set twice, first on line "+strconv.Itoa(first))
			continue
		}
		seen[name.Value] = name.Line
		if ok := entry(r, rows, t, n, name, value, key, base); !ok {
			r.report(name, key, "", "is not a known key"+suggestion(key, rows, base))
		}
	}
}

// entry reads one key of the mapping n; false when the table does not know it.
func entry[T any](r *reader, rows []setting[T], t *T, n, name, value *yaml.Node, key, base string) bool {
	for _, s := range rows {
		full := below(base, s.key)
		switch {
		case key == full:
			if !null(value) {
				before := len(r.violations)
				s.read(t, value, r, key)
				s.hide(r.violations[before:])
			}
			return true
		case s.secret && key == full+"_file":
			if other := lookup(n, strings.TrimSuffix(name.Value, "_file")); other != nil && !null(other) && !null(value) {
				r.report(name, key, "", "and "+full+" are both set: only one may be")
			} else if !null(value) {
				r.secretFile(value, key, func(v *yaml.Node, path string) {
					s.read(t, v, r, full)
					if secret, ok := s.field(t).(*Secret); ok {
						secret.file = path
					}
				})
			}
			return true
		case strings.HasPrefix(full, key+"."):
			section(r, rows, t, value, key, base)
			return true
		}
	}
	return false
}

// secretFile reads the secret in the file that n names and hands it on as if it had been written in n's place.
func (r *reader) secretFile(n *yaml.Node, key string, read func(n *yaml.Node, path string)) {
	path, ok := scalar(n, files("the path of a file that holds the secret"), r, key)
	if !ok {
		return
	}
	data, err := os.ReadFile(path)
	if err != nil {
		r.report(n, key, "", "cannot be used: "+err.Error())
		return
	}
	text := fileText(data)
	if text == "" {
		r.report(n, key, path, "must be a file that holds the secret, and is empty")
		return
	}
	read(&yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text, Line: n.Line}, path)
}

// elements is the list n, aliases followed.
func (r *reader) elements(n *yaml.Node, key string) ([]*yaml.Node, bool) {
	if n.Kind != yaml.SequenceNode {
		r.report(n, key, describe(n), "must be a list")
		return nil, false
	}
	elements := slices.Clone(n.Content)
	for i := range elements {
		elements[i] = follow(elements[i])
	}
	return elements, true
}

// follow is what an alias stands for.
func follow(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}

func null(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

func lookup(mapping *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == name {
			return follow(mapping.Content[i+1])
		}
	}
	return nil
}

func below(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// describe is a node's value as shown in a message.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode:
		return n.Value
	}
	return "an alias"
}
