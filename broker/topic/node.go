package topic

import "strings"

// node is the end of a path of levels from the root. A node without
// subscriptions below or at it does not exist, except the root.
type node[K comparable, V any] struct {
	// level is the last level of the path, a copy: a part of a filter would keep
	// all of a filter alive that may be gone.
	level    string
	children children[K, V] // by literal level
	plus     *node[K, V]    // by the level +
	here     set[K, V]      // filters that end here
	hash     *set[K, V]     // filters that end in # below here
}

// set stores v for key under the filter that is left of path below n.
func (n *node[K, V]) set(path string, key K, v V) (old V, replaced bool) {
	for more := true; more; {
		var level string
		level, path, more = strings.Cut(path, "/")
		switch {
		case level == "#" && !more:
			if n.hash == nil {
				n.hash = &set[K, V]{}
			}
			return n.hash.put(key, v)
		case level == "+":
			if n.plus == nil {
				n.plus = &node[K, V]{level: "+"}
			}
			n = n.plus
		default:
			child := n.children.find(level)
			if child == nil {
				child = &node[K, V]{level: strings.Clone(level)}
				n.children.add(child)
			}
			n = child
		}
	}
	return n.here.put(key, v)
}

// remove takes key out of the filter that is left of path below n, and every
// node that holds nothing any more with it.
func (n *node[K, V]) remove(path string, key K) (old V, ok bool) {
	level, rest, more := strings.Cut(path, "/")
	if level == "#" && !more {
		if n.hash == nil {
			return old, false
		}
		old, ok = n.hash.drop(key)
		if n.hash.len() == 0 {
			n.hash = nil
		}
		return old, ok
	}
	child := n.plus
	if level != "+" {
		child = n.children.find(level)
	}
	if child == nil {
		return old, false
	}
	if more {
		old, ok = child.remove(rest, key)
	} else {
		old, ok = child.here.drop(key)
	}
	if ok && child.empty() {
		if child == n.plus {
			n.plus = nil
		} else {
			n.children.drop(level)
		}
	}
	return old, ok
}

func (n *node[K, V]) empty() bool {
	return n.here.len() == 0 && n.hash == nil && n.plus == nil && n.children.len() == 0
}

// match yields all that matches a name of which path is left below n; more says
// whether a level is left, wild whether wildcards may match the next.
func (n *node[K, V]) match(path string, more, wild bool, yield func(K, V)) {
	for {
		if n.hash != nil && wild {
			n.hash.each(yield) // also when no level is left: "a/#" matches "a"
		}
		if !more {
			n.here.each(yield)
			return
		}
		var level string
		level, path, more = strings.Cut(path, "/")
		if n.plus != nil && wild {
			n.plus.match(path, more, true, yield)
		}
		if n = n.children.find(level); n == nil {
			return
		}
		wild = true
	}
}
