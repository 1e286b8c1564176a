package pebble

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	crdb "github.com/cockroachdb/pebble/v2"

	"maestrohub.io/uns/broker/topic"
)

// found is a topic of the index that a query asks for.
type found struct {
	id   uint32
	name string
}

// matching returns the topics of a workspace that a filter matches and the reader
// may see, in the order of the topic tree.
func matching(ctx context.Context, db crdb.Reader, workspace, filter string, visible func(string) bool) ([]found, error) {
	if !strings.ContainsAny(filter, "+#") {
		return exactly(db, workspace, filter, visible)
	}
	literal, _, _ := strings.Cut(filter, "+")
	literal, _, _ = strings.Cut(literal, "#")
	// "a/b/#" also matches "a/b": the walk begins there.
	lower := appendName(nil, workspace, strings.TrimSuffix(literal, "/"))
	iter, err := db.NewIter(&crdb.IterOptions{LowerBound: lower, UpperBound: prefixEnd(lower)})
	if err != nil {
		return nil, err
	}
	defer func() { _ = iter.Close() }()

	var topics []found
	levels := strings.Split(filter, "/")
	start := len(workspace) + 2
	var seek []byte
	for ok := iter.First(); ok; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		key, data := iter.Key(), iter.Value()
		if len(key) < start || len(data) != 4 {
			return nil, fmt.Errorf("%w: name with a key of %d bytes and data of %d", errDamagedStore, len(key), len(data))
		}
		if name := topicOf(key[start:]); topic.MatchBelow(filter, name) {
			if visible == nil || visible(name) {
				topics = append(topics, found{binary.BigEndian.Uint32(data), name})
			}
			ok = iter.Next()
			continue
		}
		if seek = nextCandidate(seek[:0], key, start, levels); seek == nil {
			ok = iter.Next()
		} else {
			ok = iter.SeekGE(seek)
		}
	}
	return topics, iter.Error()
}

func exactly(db crdb.Reader, workspace, name string, visible func(string) bool) ([]found, error) {
	if visible != nil && !visible(name) {
		return nil, nil
	}
	data, closer, err := db.Get(appendName(nil, workspace, name))
	if errors.Is(err, crdb.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = closer.Close() }()
	if len(data) != 4 {
		return nil, fmt.Errorf("%w: topic %q with %d bytes, 4 expected", errDamagedStore, name, len(data))
	}
	return []found{{binary.BigEndian.Uint32(data), name}}, nil
}

// nextCandidate returns the first key after key that a filter of these levels could
// match, given that key, whose topic begins at start, does not match. It skips the
// topics below the level that differs, so that "+/temperature" reads about one
// entry per first level, not all of them. nil means the entry that follows.
func nextCandidate(dst, key []byte, start int, levels []string) []byte {
	from := start
	for i, want := range levels {
		if want == "#" {
			return nil
		}
		end, last := len(key), true
		if j := bytes.IndexByte(key[from:], 0); j >= 0 {
			end, last = from+j, false
		}
		level := key[from:end]
		if want != "+" {
			switch c := bytes.Compare(level, []byte(want)); {
			case c < 0:
				// The wanted level sorts later below the same parent.
				return append(append(dst, key[:from]...), want...)
			case c > 0:
				// Nothing more below this parent. A key that continues the parent is
				// longer by a zero byte; the first that does not is above it.
				if from == start {
					return append(append(dst, key[:start-1]...), 1)
				}
				return append(append(dst, key[:from-1]...), 1)
			}
		}
		if i == len(levels)-1 {
			// The topic is deeper than the filter: skip what is below this level.
			if !last {
				return append(append(dst, key[:end]...), 1)
			}
			return nil
		}
		if last {
			return nil // shallower than the filter: what follows may be deeper
		}
		from = end + 1
	}
	return nil
}
