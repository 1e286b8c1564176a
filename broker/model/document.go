package model

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Limits of a model file, so that a wrong one costs an error and not the broker:
// its size, and how deep a JSON Schema nests. How many keys and values it may
// have with its aliases followed grows with its size (see root).
const (
	MaxFileBytes = 8 << 20
	maxNesting   = 64
)

// document goes through a YAML file and gathers what is wrong with it.
type document struct {
	problems []Problem
	failed   int // how often fail was called, also beyond maxProblems
	nodes    int // keys and values gone through
	maxNodes int
}

// maxProblems is how many are told of one file.
const maxProblems = 100

// root parses the file; nil if it cannot be gone through.
func (d *document) root(data []byte) *yaml.Node {
	if len(data) > MaxFileBytes {
		d.problems = append(d.problems, Problem{Detail: fmt.Sprintf("has %d bytes, at most %d are allowed", len(data), MaxFileBytes)})
		return nil
	}
	// Enough to share the bindings of one workspace with dozens of others, too few
	// for aliases of aliases of aliases.
	d.maxNodes = 100_000 + 16*len(data)
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var file, more yaml.Node
	err := decoder.Decode(&file)
	switch {
	case errors.Is(err, io.EOF) || err == nil && (len(file.Content) == 0 || file.Content[0].ShortTag() == "!!null"):
		d.problems = append(d.problems, Problem{Line: 1, Detail: "is empty: a model without workspaces and schemas is {}"})
		return nil
	case err != nil:
		d.problems = append(d.problems, syntax(err))
		return nil
	}
	if err := decoder.Decode(&more); err == nil {
		d.problems = append(d.problems, Problem{Line: more.Line, Detail: "a second document begins: one file is one document"})
		return nil
	} else if !errors.Is(err, io.EOF) {
		d.problems = append(d.problems, syntax(err))
		return nil
	}
	return file.Content[0]
}

// syntax takes the line out of an error of the YAML library: "yaml: line 3: ...".
func syntax(err error) Problem {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if after, ok := strings.CutPrefix(text, "line "); ok {
		if number, rest, ok := strings.Cut(after, ": "); ok {
			if line, err := strconv.Atoi(number); err == nil {
				return Problem{Line: line, Detail: "is not YAML: " + rest}
			}
		}
	}
	return Problem{Detail: "is not YAML: " + text}
}

func (d *document) fail(n *yaml.Node, key, format string, args ...any) {
	if d.failed++; d.failed <= maxProblems {
		d.problems = append(d.problems, Problem{Line: n.Line, Key: cut(key, 200), Detail: fmt.Sprintf(format, args...)})
	}
}

// follow returns the node itself or what it is an alias of; nil once there are
// too many, which is reported once.
func (d *document) follow(n *yaml.Node, key string) *yaml.Node {
	if d.nodes++; d.nodes > d.maxNodes {
		if d.nodes == d.maxNodes+1 {
			d.fail(n, key, "the file has more than %d keys and values with its aliases followed", d.maxNodes)
		}
		return nil
	}
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// field is a key a mapping may have.
type field struct {
	name     string
	required bool
	read     func(n *yaml.Node, key string)
}

// mapping reads a mapping with the given keys and no others, each once.
func (d *document) mapping(n *yaml.Node, key string, fields ...field) {
	d.members(n, key, func(name string, at, v *yaml.Node, path string) {
		for i, f := range fields {
			if f.name == name {
				fields[i].required = false
				f.read(v, path)
				return
			}
		}
		var names []string
		for _, f := range fields {
			names = append(names, f.name)
		}
		d.fail(at, path, "is not a key of the model file; here it may be %s", strings.Join(names, ", "))
	})
	if n = d.follow(n, key); n == nil || n.Kind != yaml.MappingNode {
		return
	}
	for _, f := range fields {
		if f.required {
			d.fail(n, join(key, f.name), "is missing")
		}
	}
}

// members reads a mapping, each key of which is a string and there once.
func (d *document) members(n *yaml.Node, key string, read func(name string, at, v *yaml.Node, path string)) {
	if n = d.follow(n, key); n == nil {
		return
	}
	if n.Kind != yaml.MappingNode {
		d.fail(n, key, "is %s, must be a mapping of keys to values", describe(n))
		return
	}
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		at := d.follow(n.Content[i], key)
		if at == nil {
			return
		}
		if at.Kind != yaml.ScalarNode || at.ShortTag() != "!!str" {
			d.fail(at, key, "has the key %s, keys must be strings", describe(at))
			continue
		}
		path := join(key, at.Value)
		if line, twice := lines[at.Value]; twice {
			d.fail(at, path, "is there twice, first in line %d", line)
			continue
		}
		lines[at.Value] = at.Line
		read(at.Value, at, n.Content[i+1], path)
	}
}

// list reads a list.
func (d *document) list(n *yaml.Node, key string, read func(n *yaml.Node, key string)) {
	if n = d.follow(n, key); n == nil {
		return
	}
	if n.Kind != yaml.SequenceNode {
		d.fail(n, key, "is %s, must be a list", describe(n))
		return
	}
	for i, element := range n.Content {
		read(element, key+"["+strconv.Itoa(i)+"]")
	}
}

// scalar returns a scalar of one of the tags.
func (d *document) scalar(n *yaml.Node, key, want string, tags ...string) (*yaml.Node, bool) {
	if n = d.follow(n, key); n == nil {
		return nil, false
	}
	if n.Kind == yaml.ScalarNode {
		for _, tag := range tags {
			if n.ShortTag() == tag {
				return n, true
			}
		}
	}
	d.fail(n, key, "is %s, must be %s", describe(n), want)
	return nil, false
}

func (d *document) string(n *yaml.Node, key string) (string, bool) {
	if n, ok := d.scalar(n, key, "a string (in quotes, if it looks like something else)", "!!str"); ok {
		return n.Value, true
	}
	return "", false
}

func (d *document) bool(n *yaml.Node, key string) (v, ok bool) {
	if n, ok = d.scalar(n, key, "true or false", "!!bool"); !ok {
		return false, false
	}
	if err := n.Decode(&v); err != nil {
		d.fail(n, key, "is %s, must be true or false", describe(n))
		return false, false
	}
	return v, true
}

func (d *document) number(n *yaml.Node, key string) (v float64, ok bool) {
	if n, ok = d.scalar(n, key, "a number", "!!int", "!!float"); !ok {
		return 0, false
	}
	if err := n.Decode(&v); err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		d.fail(n, key, "is %s, must be a finite number", describe(n))
		return 0, false
	}
	return v, true
}

func (d *document) whole(n *yaml.Node, key string, least, most int) (v int, ok bool) {
	want := fmt.Sprintf("an integer from %d to %d", least, most)
	if n, ok = d.scalar(n, key, want, "!!int"); !ok {
		return 0, false
	}
	if err := n.Decode(&v); err != nil || v < least || v > most {
		d.fail(n, key, "is %s, must be %s", describe(n), want)
		return 0, false
	}
	return v, true
}

// json returns a node as a JSON value: YAML has more types than JSON, those are
// refused, except that dates are strings.
func (d *document) json(n *yaml.Node, key string, depth int) any {
	at := n
	if n = d.follow(n, key); n == nil {
		return nil
	}
	if depth == maxNesting {
		d.fail(at, key, "nests deeper than %d levels", maxNesting)
		return nil
	}
	switch n.Kind {
	case yaml.MappingNode:
		object := map[string]any{}
		d.members(n, key, func(name string, _, v *yaml.Node, path string) { object[name] = d.json(v, path, depth+1) })
		return object
	case yaml.SequenceNode:
		list := []any{}
		d.list(n, key, func(v *yaml.Node, path string) { list = append(list, d.json(v, path, depth+1)) })
		return list
	}
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
		return n.Value
	case "!!null":
		return nil
	case "!!bool":
		v, _ := d.bool(n, key)
		return v
	case "!!int", "!!float":
		v, _ := d.number(n, key)
		return v
	}
	d.fail(n, key, "is of the YAML type %s, which JSON does not have", n.ShortTag())
	return nil
}

// describe says what a node is, for a message.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	if n.ShortTag() == "!!null" {
		return "empty"
	}
	if n.ShortTag() == "!!str" {
		return strconv.Quote(cut(n.Value, 64))
	}
	return cut(n.Value, 64)
}

func join(key, name string) string {
	if name = cut(name, 64); strings.ContainsAny(name, ". []\n") || name == "" {
		name = strconv.Quote(name)
	}
	if key == "" {
		return name
	}
	return key + "." + name
}
