package model

import (
	"math"
	"sync"
	"sync/atomic"

	"maestrohub.io/uns/broker/topic"
	"maestrohub.io/uns/broker/value"
)

// Type is what a schema allows a value to be.
type Type string

// The types, as the model file names them. Any is every JSON value, null too;
// Opaque is bytes the broker does not look into.
const (
	Number  Type = "number"
	Integer Type = "integer"
	Boolean Type = "boolean"
	String  Type = "string"
	Object  Type = "object"
	Array   Type = "array"
	Any     Type = "any"
	Opaque  Type = "opaque"
)

var types = []Type{Number, Integer, Boolean, String, Object, Array, Any, Opaque}

// Model is one valid model file. It does not change: a changed file is another
// Model.
type Model struct {
	workspaces map[string]*Workspace
	bindings   int // in all workspaces

	// If open, a workspace that is not listed exists as well. Those asked for are
	// kept, up to maxOpened.
	open        bool
	opened      sync.Map // slug -> *Workspace
	openedCount atomic.Int64
}

// maxOpened bounds how many workspaces an open model keeps that are not listed
// in it; more exist, but are made anew at each call.
const maxOpened = 1024

// Workspace is one tenant's part of the model.
type Workspace struct {
	// Slug is its level in every topic, ID its identity in the names of what is
	// stored for it: the slug may change, the ID must not. Name is for people.
	Slug, ID, Name string

	bindings topic.Index[int, *Topic] // by position in the file
}

// Topic is what the model says of a topic: of every topic that the same binding
// is for. It does not change.
type Topic struct {
	// Filter is the binding's topic filter below the workspace, Schema the name
	// of its schema; both are empty without one.
	Filter, Schema string
	// Type is what a value may be, Unit what it is in, for people; "" if not said.
	Type Type
	Unit string
	// Retain says that the last value is kept and sent to new subscribers.
	Retain bool
	// Alerts says that there are thresholds: Alarm can return a level.
	Alerts bool
	// MaxPayloadBytes is the largest payload, 0 for no limit of its own.
	MaxPayloadBytes int
	// MinQuality is the least grade a value may have; value.Bad takes all.
	MinQuality value.Quality

	min, max   float64     // hard range, infinite where not given
	thresholds []threshold // the critical ones first
	shape      *shape      // the JSON Schema, nil if there is none
}

// unbound is the topic without a binding: it takes any JSON value.
var unbound = newTopic()

func newTopic() *Topic {
	return &Topic{Type: Any, min: math.Inf(-1), max: math.Inf(1)}
}

// Empty returns the model of a broker without a model file: every workspace
// exists, every topic takes any JSON value.
func Empty() *Model { return &Model{open: true} }

// Workspace returns a workspace by its slug. One that is not listed in the model
// exists only if the model is open; its ID is its slug.
func (m *Model) Workspace(slug string) (*Workspace, bool) {
	if w, ok := m.workspaces[slug]; ok {
		return w, true
	}
	if !m.open || !validSlug(slug) {
		return nil, false
	}
	if w, ok := m.opened.Load(slug); ok {
		return w.(*Workspace), true
	}
	w := &Workspace{Slug: slug, ID: slug}
	if m.openedCount.Load() < maxOpened {
		kept, loaded := m.opened.LoadOrStore(slug, w)
		if !loaded {
			m.openedCount.Add(1)
		}
		return kept.(*Workspace), true
	}
	return w, true
}

// Topic returns what the model says of a topic below the workspace: the first
// binding in the file whose filter matches, or, if none does, that it takes any
// JSON value. Nothing is allocated; the same binding always gives the same
// *Topic.
func (w *Workspace) Topic(name string) *Topic {
	first, found := math.MaxInt, unbound
	w.bindings.MatchBelow(name, func(position int, t *Topic) {
		if position < first {
			first, found = position, t
		}
	})
	return found
}

// validSlug reports whether s can be a workspace's slug or ID: letters, digits,
// "-" and "_", the first a letter or digit, at most 63. It is part of topics,
// stream names and file names.
func validSlug(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '-' || s[0] == '_' {
		return false
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !digit(c) && c != '-' && c != '_' && (c|0x20 < 'a' || c|0x20 > 'z') {
			return false
		}
	}
	return true
}
