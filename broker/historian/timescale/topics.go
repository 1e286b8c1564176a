package timescale

import (
	"context"
	"crypto/sha256"
	"strings"
	"sync"
)

type topicName struct{ workspace, topic string }

// topicID is the number of a topic and of its workspace.
type topicID struct{ id, workspace int32 }

// topicCacheSize is the number of topics per half; both halves hold at most 2 × 131,072
// topics, about 40 MB with names of 60 bytes.
const topicCacheSize = 1 << 17

// topics knows the numbers of topics. A topic keeps its number for ever.
type topics struct {
	mu sync.Mutex
	// young and old are the halves of a cache: a topic found in old moves to young,
	// and a full young becomes old.
	young, old map[topicName]topicID
}

// resolve fills in the numbers of rows from the cache and returns the names it does
// not have, each once.
func (t *topics) resolve(rows []*row) []topicName {
	t.mu.Lock()
	defer t.mu.Unlock()
	var missing map[topicName]bool
	var names []topicName
	for _, r := range rows {
		name := topicName{r.v.Workspace, r.v.Topic}
		id, found := t.young[name]
		if !found {
			if id, found = t.old[name]; found {
				t.keep(name, id)
			}
		}
		if found {
			r.topic = id
			continue
		}
		if !missing[name] {
			if missing == nil {
				missing = make(map[topicName]bool)
			}
			missing[name] = true
			names = append(names, name)
		}
	}
	return names
}

// keep remembers a number. t.mu is held.
func (t *topics) keep(name topicName, id topicID) {
	if t.young == nil || len(t.young) >= topicCacheSize {
		t.old, t.young = t.young, make(map[topicName]topicID)
	}
	// The names are kept: without a copy they would keep the PUBLISH they lie in.
	t.young[topicName{strings.Clone(name.workspace), strings.Clone(name.topic)}] = id
}

// topicOf is the number of each given topic (workspace, topic, digest) that has one.
const topicOf = `SELECT i.ord, t.id, t.workspace_id
	FROM unnest($1::text[], $2::uuid[]) WITH ORDINALITY AS i (workspace, digest, ord)
	JOIN @schema.workspace w ON w.name = i.workspace
	JOIN @schema.topic t ON t.workspace_id = w.id AND t.digest = i.digest`

// Numbers for what has none. Written in one order, so that replicas that meet the
// same new topics wait for each other instead of both waiting for ever.
const (
	newWorkspaces = `INSERT INTO @schema.workspace (name)
	SELECT name FROM (SELECT DISTINCT unnest($1::text[]) AS name) i
	WHERE NOT EXISTS (SELECT FROM @schema.workspace w WHERE w.name = i.name)
	ORDER BY name ON CONFLICT DO NOTHING`
	newTopics = `INSERT INTO @schema.topic (workspace_id, digest, name)
	SELECT w.id, i.digest, i.name FROM unnest($1::text[], $2::uuid[], $3::text[]) AS i (workspace, digest, name)
	JOIN @schema.workspace w ON w.name = i.workspace
	ORDER BY w.id, i.digest ON CONFLICT DO NOTHING`
)

// nameTopics gives every row of pending its topic's number, making numbers for new
// topics. That is a transaction of its own: a number without rows harms nobody.
func (h *Historian) nameTopics(ctx context.Context, s *session, pending []*row) error {
	names := s.known.topics.resolve(pending)
	if len(names) == 0 {
		return nil
	}
	missing, err := h.lookUpTopics(ctx, s, names)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		workspaces, digests, texts := topicArrays(missing)
		if err := h.exec(ctx, s, newWorkspaces, workspaces); err != nil {
			return err
		}
		if err := h.exec(ctx, s, newTopics, workspaces, digests, texts); err != nil {
			return err
		}
		if missing, err = h.lookUpTopics(ctx, s, missing); err != nil {
			return err
		}
	}
	if len(missing) > 0 || len(s.known.topics.resolve(pending)) > 0 {
		return errRepeat // the cache turned over meanwhile, or the place changed
	}
	return nil
}

// lookUpTopics puts the numbers of topics into the cache and returns the names that
// have none.
func (h *Historian) lookUpTopics(ctx context.Context, s *session, names []topicName) ([]topicName, error) {
	workspaces, digests, _ := topicArrays(names)
	result := s.Conn.Conn().PgConn().ExecParams(ctx, h.sql.Replace(topicOf), [][]byte{workspaces, digests}, nil, binaryFormat, binaryFormat)
	found := make(map[int]topicID, len(names))
	for result.NextRow() {
		f := result.Values()
		found[int(int64Of(f[0]))-1] = topicID{int32Of(f[1]), int32Of(f[2])}
	}
	if _, err := result.Close(); err != nil {
		return nil, err
	}
	s.known.topics.mu.Lock()
	defer s.known.topics.mu.Unlock()
	var missing []topicName
	for i, name := range names {
		if id, ok := found[i]; ok {
			s.known.topics.keep(name, id)
		} else {
			missing = append(missing, name)
		}
	}
	return missing, nil
}

// topicArrays encodes names as arrays of workspaces, digests and topics.
func topicArrays(names []topicName) (workspaces, digests, texts []byte) {
	var a arrays
	encoded := a.encode(len(names),
		column{oidText, -1, func(dst []byte, i int) []byte { return append(dst, names[i].workspace...) }},
		column{oidUUID, 16, func(dst []byte, i int) []byte { return append(dst, topicDigest(names[i].topic)...) }},
		column{oidText, -1, func(dst []byte, i int) []byte { return append(dst, names[i].topic...) }})
	return encoded[0], encoded[1], encoded[2]
}

// topicDigest stands for a topic in its index.
func topicDigest(topic string) []byte {
	digest := sha256.Sum256([]byte(topic))
	return digest[:16]
}

// exec runs a statement with binary parameters in a transaction of its own.
func (h *Historian) exec(ctx context.Context, s *session, statement string, parameters ...[]byte) error {
	_, err := s.Conn.Conn().PgConn().ExecParams(ctx, h.sql.Replace(statement), parameters, nil, binaryFormat, binaryFormat).Close()
	return err
}
