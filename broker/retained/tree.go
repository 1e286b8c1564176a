package retained

import (
	"strings"

	"maestrohub.io/uns/broker/value"
)

// entry is what is known of one topic's record.
type entry struct {
	// value is the message, a removal if its payload is empty, nil if this release
	// cannot read the record.
	value    *value.Value
	revision uint64
	// load is the pass of the watch that told of it last; see Retained.follow.
	load uint64
}

// message returns the value if it is a message that has not expired at now.
func (e *entry) message(now int64) *value.Value {
	if e == nil || e.value == nil || len(e.value.Payload) == 0 || e.value.Expired(now) {
		return nil
	}
	return e.value
}

// tree holds entries by the levels of their names. A node without entry and
// without children does not exist, except the root.
type tree struct {
	root node
}

type node struct {
	children map[string]*node
	entry    *entry
}

// set stores e under name, or removes what is there if e is nil.
func (t *tree) set(name string, e *entry) {
	if e == nil {
		t.root.remove(name)
		return
	}
	n := &t.root
	for more := true; more; {
		var level string
		level, name, more = strings.Cut(name, "/")
		child := n.children[level]
		if child == nil {
			child = &node{}
			if n.children == nil {
				n.children = make(map[string]*node)
			}
			n.children[strings.Clone(level)] = child
		}
		n = child
	}
	n.entry = e
}

func (n *node) remove(name string) {
	level, rest, more := strings.Cut(name, "/")
	child := n.children[level]
	if child == nil {
		return
	}
	if more {
		child.remove(rest)
	} else {
		child.entry = nil
	}
	if child.entry == nil && len(child.children) == 0 {
		delete(n.children, level)
	}
}

// match yields the entries whose names a filter matches. The filter is well formed.
func (t *tree) match(filter string, yield func(*entry)) {
	t.root.match(filter, true, yield)
}

// match yields what lies below n; first says that n is the root, whose children
// beginning with $ no wildcard matches [MQTT-4.7.2-1].
func (n *node) match(filter string, first bool, yield func(*entry)) {
	level, rest, more := strings.Cut(filter, "/")
	switch level {
	case "#":
		n.all(first, yield)
	case "+":
		for name, child := range n.children {
			if !first || !strings.HasPrefix(name, "$") {
				child.rest(rest, more, yield)
			}
		}
	default:
		if child := n.children[level]; child != nil {
			child.rest(rest, more, yield)
		}
	}
}

// rest matches what is left of a filter at n.
func (n *node) rest(filter string, more bool, yield func(*entry)) {
	if more {
		n.match(filter, false, yield)
	} else if n.entry != nil {
		yield(n.entry)
	}
}

// all yields n and everything below: "a/#" matches "a" too.
func (n *node) all(first bool, yield func(*entry)) {
	if n.entry != nil {
		yield(n.entry)
	}
	for name, child := range n.children {
		if !first || !strings.HasPrefix(name, "$") {
			child.all(false, yield)
		}
	}
}
