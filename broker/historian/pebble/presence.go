package pebble

import (
	"context"
	"encoding/binary"

	crdb "github.com/cockroachdb/pebble/v2"
)

// cleanStep is the number of entries removed or topics forgotten at a time.
const cleanStep = 1000

// cleanPresence removes the presence entries of segments that are gone, then the
// topics that are present nowhere. Segment ids are never used again, so an entry
// may be removed without asking the writer; a topic may not.
func (g *generation) cleanPresence(ctx context.Context) error {
	g.retention.mu.Lock()
	live := make(map[uint32]bool, len(g.retention.segments))
	newest := uint32(0)
	for _, s := range g.retention.segments {
		live[s.id] = true
		newest = max(newest, s.id)
	}
	g.retention.mu.Unlock()

	iter, err := g.db.NewIter(&crdb.IterOptions{LowerBound: []byte{spacePresence}, UpperBound: []byte{spacePresence + 1}})
	if err != nil {
		return err
	}
	defer func() { _ = iter.Close() }()
	batch := g.db.NewBatch()
	defer func() { _ = batch.Close() }()
	for ok := iter.First(); ok; ok = iter.Next() {
		_, _, segment, err := parsePresence(iter.Key())
		if err != nil {
			return err
		}
		if live[segment] || segment > newest {
			continue
		}
		if err := batch.Delete(iter.Key(), nil); err != nil {
			return err
		}
		if batch.Count() < cleanStep {
			continue
		}
		if g.stopping() {
			return nil
		}
		if err := batch.Commit(crdb.NoSync); err != nil {
			return err
		}
		batch.Reset()
	}
	if err := iter.Error(); err != nil {
		return err
	}
	if !batch.Empty() {
		if err := batch.Commit(crdb.NoSync); err != nil {
			return err
		}
	}
	return g.cleanTopics(ctx)
}

// cleanTopics has the writer forget the topics without presence.
func (g *generation) cleanTopics(ctx context.Context) error {
	iter, err := g.db.NewIter(&crdb.IterOptions{LowerBound: []byte{spaceName}, UpperBound: []byte{spaceName + 1}})
	if err != nil {
		return err
	}
	defer func() { _ = iter.Close() }()
	var forget []topicName
	flush := func() error {
		if len(forget) == 0 {
			return nil
		}
		r := &request{forget: forget, done: make(chan struct{}, 1)}
		forget = nil
		return g.submit(ctx, r)
	}
	for ok := iter.First(); ok && !g.stopping(); ok = iter.Next() {
		data := iter.Value()
		if len(data) != 4 {
			return errDamagedStore
		}
		used, err := hasPresence(g.db, binary.BigEndian.Uint32(data))
		if err != nil {
			return err
		}
		if used {
			continue
		}
		workspace, topic, err := parseName(iter.Key())
		if err != nil {
			return err
		}
		if forget = append(forget, topicName{workspace, topic}); len(forget) == cleanStep {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if err := iter.Error(); err != nil {
		return err
	}
	return flush()
}

func (g *generation) stopping() bool {
	select {
	case <-g.stop:
		return true
	case <-g.failed:
		return true
	default:
		return false
	}
}

// hasPresence reports whether a topic has rows in any segment.
func hasPresence(db *crdb.DB, topic uint32) (bool, error) {
	lower := binary.BigEndian.AppendUint32([]byte{spacePresence}, topic)
	iter, err := db.NewIter(&crdb.IterOptions{LowerBound: lower, UpperBound: prefixEnd(lower)})
	if err != nil {
		return false, err
	}
	found := iter.First()
	return found, iter.Close()
}
