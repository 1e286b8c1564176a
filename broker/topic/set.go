package topic

import "slices"

// few is the number of elements up to which a list is searched from its start;
// beyond it a map is kept. A list of eight is found through as fast as a map is
// asked, and takes a fifth of its memory.
const few = 8

// pair is what one key wants under one filter.
type pair[K comparable, V any] struct {
	key K
	v   V
}

// set holds what each of some keys wants, in no order.
type set[K comparable, V any] struct {
	pairs []pair[K, V]
	// index tells where in pairs a key is; nil for few.
	index *index[K]
}

// index is a map with the size it once had, since a Go map keeps the memory of
// its largest size.
type index[K comparable] struct {
	at   map[K]int
	peak int
}

func (s *set[K, V]) len() int { return len(s.pairs) }

func (s *set[K, V]) each(yield func(K, V)) {
	for i := range s.pairs {
		yield(s.pairs[i].key, s.pairs[i].v)
	}
}

// find returns where in pairs key is, -1 if it is not.
func (s *set[K, V]) find(key K) int {
	if s.index != nil {
		if i, ok := s.index.at[key]; ok {
			return i
		}
		return -1
	}
	for i := range s.pairs {
		if s.pairs[i].key == key {
			return i
		}
	}
	return -1
}

func (s *set[K, V]) put(key K, v V) (old V, replaced bool) {
	if i := s.find(key); i >= 0 {
		old, s.pairs[i].v = s.pairs[i].v, v
		return old, true
	}
	if s.pairs == nil {
		s.pairs = make([]pair[K, V], 0, 1) // most filters have one subscriber
	}
	s.pairs = append(s.pairs, pair[K, V]{key, v})
	switch {
	case s.index != nil:
		s.index.at[key] = len(s.pairs) - 1
		s.index.peak = max(s.index.peak, len(s.pairs))
	case len(s.pairs) > few:
		s.reindex()
	}
	return old, false
}

func (s *set[K, V]) drop(key K) (old V, ok bool) {
	i := s.find(key)
	if i < 0 {
		return old, false
	}
	old = s.pairs[i].v
	last := len(s.pairs) - 1
	s.pairs[i] = s.pairs[last]
	s.pairs[last] = pair[K, V]{}
	s.pairs = s.pairs[:last]
	if s.index != nil {
		delete(s.index.at, key)
		if i != last {
			s.index.at[s.pairs[i].key] = i
		}
	}
	switch {
	case last == 0:
		s.pairs, s.index = nil, nil
	case last <= cap(s.pairs)/4:
		s.pairs = slices.Clip(append(make([]pair[K, V], 0, last), s.pairs...))
	}
	// Half of few, so that a set at the edge is not built and torn down in turns.
	if s.index != nil && (last <= few/2 || last <= s.index.peak/4) {
		s.index = nil
		if last > few/2 {
			s.reindex()
		}
	}
	return old, true
}

func (s *set[K, V]) reindex() {
	s.index = &index[K]{at: make(map[K]int, len(s.pairs)), peak: len(s.pairs)}
	for i := range s.pairs {
		s.index.at[s.pairs[i].key] = i
	}
}
