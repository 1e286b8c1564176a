package topic

import (
	"sync"
	"sync/atomic"
)

// Index finds, for a name, every key that wants it and what it wants: the
// subscriptions of a replica's sessions, or the routes of its peers. The zero
// value is an empty index. All methods may be called at once.
type Index[K comparable, V any] struct {
	mu   sync.RWMutex // guards root and everything below it; yield runs under it
	root node[K, V]   // of no level; its edges are the first levels

	// Moved and read without mu by readers that only compare; written under it.
	generation atomic.Uint64
	length     atomic.Int64
}

// Set makes v what key wants under filter and returns what it wanted before.
// The filter is well formed and without "$share/<name>/".
func (x *Index[K, V]) Set(filter string, key K, v V) (old V, replaced bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	old, replaced = x.root.set(filter, key, v)
	if !replaced {
		x.length.Add(1)
	}
	x.generation.Add(1)
	return old, replaced
}

// Delete takes what key wants under filter out of the index and returns it; ok
// is false if there was nothing.
func (x *Index[K, V]) Delete(filter string, key K) (old V, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	old, ok = x.root.remove(filter, key)
	if ok {
		x.length.Add(-1)
		x.generation.Add(1)
	}
	return old, ok
}

// Match calls yield for each filter and key that matches name, in no order; a
// key is yielded once per filter of its that matches. A filter that begins with
// a wildcard does not match a name that begins with "$" [MQTT-4.7.2-1].
//
// The index is locked for reading meanwhile: yield is short and calls no method
// of the index, Match included. Nothing is allocated.
func (x *Index[K, V]) Match(name string, yield func(key K, v V)) {
	wild := name == "" || name[0] != '$'
	x.mu.RLock()
	defer x.mu.RUnlock() // yield may panic
	x.root.match(name, true, wild, yield)
}

// MatchBelow is Match for the end of a longer name, such as a topic below its
// workspace: there a level that begins with "$" is like any other.
func (x *Index[K, V]) MatchBelow(rest string, yield func(key K, v V)) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	x.root.match(rest, true, true, yield)
}

// Generation returns a number that differs after every Set and every Delete
// that changed something. A result of Match holds as long as the generation read
// before it is still the current one.
func (x *Index[K, V]) Generation() uint64 { return x.generation.Load() }

// Len returns the number of (filter, key) pairs in the index.
func (x *Index[K, V]) Len() int { return int(x.length.Load()) }
