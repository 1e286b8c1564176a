package topic

import "slices"

// children holds the nodes one literal level below a node: in a list while they
// are few, in a map when they are many, never in both.
type children[K comparable, V any] struct {
	list []*node[K, V]
	many *crowd[K, V]
}

// crowd is a map with the size it once had, since a Go map keeps the memory of
// its largest size.
type crowd[K comparable, V any] struct {
	byLevel map[string]*node[K, V]
	peak    int
}

func (c *children[K, V]) len() int {
	if c.many != nil {
		return len(c.many.byLevel)
	}
	return len(c.list)
}

// find returns the child of a level, nil if there is none.
func (c *children[K, V]) find(level string) *node[K, V] {
	if c.many != nil {
		return c.many.byLevel[level]
	}
	for _, n := range c.list {
		if n.level == level {
			return n
		}
	}
	return nil
}

// add adds a child of a level that has none.
func (c *children[K, V]) add(child *node[K, V]) {
	switch {
	case c.many != nil:
		c.many.byLevel[child.level] = child
		c.many.peak = max(c.many.peak, len(c.many.byLevel))
	case len(c.list) < few:
		if c.list == nil {
			c.list = make([]*node[K, V], 0, 1) // most levels of most filters have one
		}
		c.list = append(c.list, child)
	default:
		c.toMap(append(c.list, child))
	}
}

// drop takes the child of a level out, if there is one.
func (c *children[K, V]) drop(level string) {
	if c.many == nil {
		c.list = slices.DeleteFunc(c.list, func(n *node[K, V]) bool { return n.level == level })
		if len(c.list) == 0 {
			c.list = nil
		}
		return
	}
	delete(c.many.byLevel, level)
	left := len(c.many.byLevel)
	// Half of few, so that a node at the edge is not built and torn down in turns.
	if left > few/2 && left > c.many.peak/4 {
		return
	}
	list := make([]*node[K, V], 0, left)
	for _, n := range c.many.byLevel {
		list = append(list, n)
	}
	if left > few/2 {
		c.toMap(list)
	} else {
		c.list, c.many = list, nil
	}
}

func (c *children[K, V]) toMap(list []*node[K, V]) {
	c.many = &crowd[K, V]{byLevel: make(map[string]*node[K, V], len(list)), peak: len(list)}
	for _, n := range list {
		c.many.byLevel[n.level] = n
	}
	c.list = nil
}
