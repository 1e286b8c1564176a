package model

import (
	"go.yaml.in/yaml/v3"

	"maestrohub.io/uns/broker/topic"
)

// Parse reads a model file. The error is an *InvalidError with everything that
// is wrong in it; there is no model then.
func Parse(data []byte) (*Model, error) {
	p := parser{model: &Model{workspaces: map[string]*Workspace{}}, schemas: map[string]*schema{}, ids: map[string]string{}}
	if root := p.root(data); root != nil {
		p.file(root)
	}
	if len(p.problems) > 0 {
		return nil, invalid(p.failed, p.problems)
	}
	return p.model, nil
}

// unknown is the type of a schema that is missing or wrong: nothing more is said
// of what uses it.
const unknown Type = ""

// parser builds a model from a document.
type parser struct {
	document
	model   *Model
	schemas map[string]*schema
	ids     map[string]string // of workspaces, to their keys
}

func (p *parser) file(root *yaml.Node) {
	var workspaces *yaml.Node
	listed := "workspaces"
	opened := false
	p.mapping(root, "",
		field{name: "openWorkspaces", read: func(n *yaml.Node, key string) { p.model.open, opened = p.bool(n, key) }},
		field{name: "workspaces", read: func(n *yaml.Node, key string) { workspaces, listed = n, key }},
		field{name: "schemas", read: func(n *yaml.Node, key string) { p.members(n, key, p.schema) }},
	)
	// After the schemas, wherever they stand in the file: bindings name them.
	if workspaces != nil {
		p.list(workspaces, listed, p.workspace)
	}
	if !opened {
		p.model.open = len(p.model.workspaces) == 0
	}
}

func (p *parser) workspace(n *yaml.Node, key string) {
	w := &Workspace{}
	slugAt, idAt := n, n
	var bindings []*yaml.Node
	var keys []string
	p.mapping(n, key,
		field{name: "slug", required: true, read: func(n *yaml.Node, key string) { w.Slug, slugAt = p.slug(n, key), n }},
		field{name: "id", read: func(n *yaml.Node, key string) { w.ID, idAt = p.slug(n, key), n }},
		field{name: "name", read: func(n *yaml.Node, key string) { w.Name, _ = p.string(n, key) }},
		field{name: "bindings", read: func(n *yaml.Node, key string) {
			p.list(n, key, func(n *yaml.Node, key string) { bindings, keys = append(bindings, n), append(keys, key) })
		}},
	)
	if w.ID == "" {
		w.ID = w.Slug
	}
	if w.Slug != "" {
		if _, twice := p.model.workspaces[w.Slug]; twice {
			p.fail(slugAt, key+".slug", "%q is the slug of another workspace too", w.Slug)
		} else if other, twice := p.ids[w.ID]; twice {
			p.fail(idAt, key+".id", "%q is the id of %s too", w.ID, other)
		}
		p.model.workspaces[w.Slug] = w
		p.ids[w.ID] = key
	}
	var above []*Topic
	for i := range bindings {
		t, at := p.binding(bindings[i], keys[i])
		if t == nil {
			above = append(above, nil)
			continue
		}
		for j, other := range above {
			// The first matching binding counts: this one would never.
			if other != nil && topic.Covers("w/"+other.Filter, "w/"+t.Filter) {
				p.fail(at, keys[i]+".topic", "%q is never used: %s with %q comes first and matches all of it", t.Filter, keys[j], other.Filter)
				break
			}
		}
		above = append(above, t)
		w.bindings.Set(t.Filter, i, t)
	}
	p.model.bindings += len(bindings)
}

func (p *parser) slug(n *yaml.Node, key string) string {
	s, ok := p.string(n, key)
	if ok && !validSlug(s) {
		p.fail(n, key, `%q must be 1 to 63 letters, digits, "-" and "_", the first a letter or digit`, cut(s, 64))
	}
	if !validSlug(s) {
		return ""
	}
	return s
}
