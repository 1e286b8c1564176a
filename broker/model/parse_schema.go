package model

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// schema is one of the file's schemas.
type schema struct {
	Type     Type
	unit     string
	min, max float64
	shape    *shape
}

func (s *schema) apply(t *Topic) {
	t.Type, t.Unit, t.min, t.max, t.shape = s.Type, s.unit, s.min, s.max, s.shape
}

func (p *parser) schema(name string, at, n *yaml.Node, key string) {
	all := newTopic()
	s := &schema{min: all.min, max: all.max}
	p.schemas[name] = s // also if it is wrong: a binding that names it is not
	if !validSlug(strings.ReplaceAll(name, ".", "-")) {
		p.fail(at, key, `%q must be 1 to 63 letters, digits, "-", "_" and ".", the first a letter or digit`, cut(name, 64))
	}
	given := map[string]*yaml.Node{}
	numeric := func(name string, f *float64) field {
		return field{name: name, read: func(n *yaml.Node, key string) {
			if v, ok := p.number(n, key); ok {
				*f, given[name] = v, n
			}
		}}
	}
	var jsonSchema *yaml.Node
	p.mapping(n, key,
		field{name: "type", required: true, read: func(n *yaml.Node, key string) { s.Type = p.typeNamed(n, key) }},
		field{name: "unit", read: func(n *yaml.Node, key string) {
			if unit, ok := p.string(n, key); ok {
				if s.unit, given["unit"] = unit, n; unit == "" || len(unit) > 32 {
					p.fail(n, key, "%q must be 1 to 32 bytes", cut(unit, 64))
				}
			}
		}},
		numeric("min", &s.min), numeric("max", &s.max),
		field{name: "jsonSchema", read: func(n *yaml.Node, key string) { jsonSchema = n; s.shape = p.shape(n, key) }},
	)
	if s.Type == unknown {
		return
	}
	for _, name := range []string{"unit", "min", "max"} {
		if n := given[name]; n != nil && s.Type != Number && s.Type != Integer {
			p.fail(n, key+"."+name, "is for the types number and integer, this schema is of type %s", s.Type)
		}
	}
	if given["min"] != nil && given["max"] != nil && s.min > s.max {
		p.fail(given["min"], key+".min", "%s must be at or below max (%s)", decimal(s.min), decimal(s.max))
	}
	if jsonSchema != nil && s.Type == Opaque {
		p.fail(jsonSchema, key+".jsonSchema", "the broker does not look into opaque values")
	}
}

func (p *parser) typeNamed(n *yaml.Node, key string) Type {
	name, ok := p.string(n, key)
	if !ok {
		return unknown
	}
	var names []string
	for _, t := range types {
		if string(t) == name {
			return t
		}
		names = append(names, string(t))
	}
	p.fail(n, key, "%q must be one of %s", cut(name, 64), strings.Join(names, ", "))
	return unknown
}

// shape compiles a JSON Schema and puts what is wrong with it where it stands.
func (p *parser) shape(n *yaml.Node, key string) *shape {
	before := p.failed
	doc := p.json(n, key, 0)
	if p.failed > before {
		return nil
	}
	s, defects := compileShape(doc)
	for _, d := range defects {
		at, path := p.descend(n, key, d.at)
		p.fail(at, path, "%s", d.detail)
	}
	return s
}

// descend returns the node a path of JSON member names and indexes leads to, or
// the last there is on the way.
func (p *parser) descend(n *yaml.Node, key string, path []string) (*yaml.Node, string) {
	for _, step := range path {
		target := n
		if n.Kind == yaml.AliasNode {
			target = n.Alias
		}
		found := false
		switch target.Kind {
		case yaml.MappingNode:
			for i := 0; i+1 < len(target.Content) && !found; i += 2 {
				if found = target.Content[i].Value == step; found {
					n, key = target.Content[i+1], join(key, step)
				}
			}
		case yaml.SequenceNode:
			for i := range target.Content {
				if found = fmt.Sprint(i) == step; found {
					n, key = target.Content[i], key+"["+step+"]"
					break
				}
			}
		}
		if !found {
			break
		}
	}
	return n, key
}
