package config

import (
	"path/filepath"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// setting is one row of the table: one key, all that is known about it, and the field of T it fills.
type setting[T any] struct {
	key     string // path below the table's root, dots between levels
	initial string // default, as text
	allowed string
	unit    string
	doc     string
	secret  bool // has a _file form, and its value is never shown
	form    Form

	field func(*T) any // pointer to the field
	reset func(*T)     // sets the default
	read  func(*T, *yaml.Node, *reader, string)
	rows  []setting[Issuer] // rows of each element, for a list of mappings
}

// one is a setting with one value.
func one[T, V any](key string, field func(*T) *V, initial V, k kind[V], doc string) setting[T] {
	_, secret := any(initial).(Secret)
	return setting[T]{
		key: key, initial: k.print(initial), allowed: k.allowed, unit: k.unit, doc: doc, secret: secret, form: k.form,
		field: func(t *T) any { return field(t) },
		reset: func(t *T) { *field(t) = initial },
		read: func(t *T, n *yaml.Node, r *reader, key string) {
			if v, ok := scalar(n, k, r, key); ok {
				*field(t) = v
			}
		},
	}
}

// list is a setting with any number of values.
func list[T, V any](key string, field func(*T) *[]V, initial []V, k kind[V], doc string) setting[T] {
	form := k.form
	form.List = true
	shown := make([]string, len(initial))
	for i, v := range initial {
		shown[i] = k.print(v)
	}
	return setting[T]{
		key: key, initial: "[" + strings.Join(shown, ", ") + "]", allowed: "list: " + k.allowed, unit: k.unit, doc: doc, form: form,
		field: func(t *T) any { return field(t) },
		reset: func(t *T) { *field(t) = append([]V(nil), initial...) },
		read: func(t *T, n *yaml.Node, r *reader, key string) {
			elements, ok := r.elements(n, key)
			if !ok {
				return
			}
			values := make([]V, 0, len(elements))
			for i, e := range elements {
				if v, ok := scalar(e, k, r, key+"["+strconv.Itoa(i)+"]"); ok {
					values = append(values, v)
				}
			}
			*field(t) = values
		},
	}
}

// scalar reads one value of kind k; ok is false when it was null or wrong (then it is reported).
func scalar[V any](n *yaml.Node, k kind[V], r *reader, key string) (v V, ok bool) {
	if n.Kind != yaml.ScalarNode {
		r.report(n, key, describe(n), "must be "+singular(k.allowed))
		return v, false
	}
	v, err := k.parse(n.Value)
	if err != nil {
		r.report(n, key, n.Value, err.Error())
		return v, false
	}
	if s, isText := any(&v).(*string); isText && k.path && *s != "" && r.dir != "" && !filepath.IsAbs(*s) {
		*s = filepath.Join(r.dir, *s)
	}
	return v, true
}

// singular is "one value: <allowed>", for a list or mapping where one value belongs.
func singular(allowed string) string { return "one value: " + allowed }

// mappings is a setting that is a list of mappings, each read by rows.
func mappings(key string, field func(*Config) *[]Issuer, rows []setting[Issuer], doc string) setting[Config] {
	return setting[Config]{
		key: key, initial: "[]", allowed: "list", doc: doc, rows: rows, form: Form{List: true},
		field: func(c *Config) any { return field(c) },
		reset: func(c *Config) { *field(c) = nil },
		read: func(c *Config, n *yaml.Node, r *reader, key string) {
			elements, ok := r.elements(n, key)
			if !ok {
				return
			}
			values := make([]Issuer, len(elements))
			for i, e := range elements {
				for _, s := range rows {
					s.reset(&values[i])
				}
				at := key + "[" + strconv.Itoa(i) + "]"
				section(r, rows, &values[i], e, at, at)
			}
			*field(c) = values
		},
	}
}

// hide keeps a secret out of the messages about it.
func (s setting[T]) hide(violations []Violation) {
	for i := range violations {
		if s.secret {
			violations[i].Value = strings.Trim(hidden, "()")
		}
	}
}
