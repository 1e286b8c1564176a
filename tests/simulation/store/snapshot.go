package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"maestrohub.io/uns/broker/state"
)

// Snapshot is a backup: some of the buckets, and logs.
type Snapshot struct {
	buckets map[string]backed
	logs    map[string][][]byte // by workspace, from the first sequence on
}

type backed struct {
	records []state.Record
	last    uint64 // revision
}

// Snapshot backs up buckets, and every log if logs.
func (s *Server) Snapshot(logs bool, buckets ...string) (*Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx := context.Background()
	n := &Snapshot{map[string]backed{}, map[string][][]byte{}}
	for _, name := range buckets {
		b, err := s.bucket(name)
		if err != nil {
			return nil, err
		}
		records, err := b.List(ctx, "")
		if err != nil {
			return nil, err
		}
		slices.SortFunc(records, func(x, y state.Record) int { return cmp.Compare(x.Revision, y.Revision) })
		k := backed{records: records}
		if p := s.past[name]; p != nil {
			k.last = p.last
		}
		n.buckets[name] = k
	}
	if !logs {
		return n, nil
	}
	for workspace := range s.logs {
		l, err := s.inner.Log(ctx, workspace)
		if err != nil {
			return nil, err
		}
		var records [][]byte
		for next := uint64(1); ; {
			entries, err := l.Read(ctx, next, 256, nil)
			if err != nil {
				return nil, err
			}
			if len(entries) == 0 {
				break
			}
			for _, e := range entries {
				if e.Sequence != next {
					return nil, fmt.Errorf("log %s has dropped what was before %d: such a one is not backed up here", workspace, e.Sequence)
				}
				records = append(records, e.Data)
				next++
			}
		}
		n.logs[workspace] = records
	}
	return n, nil
}

// Restore replaces all there is by what was backed up, of several backups that do not
// overlap: as one does that backs up some streams before others. All clients are closed, and
// nothing of theirs is on its way.
func (s *Server) Restore(backups ...*Snapshot) error {
	inner, err := s.empty()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.inner
	s.inner, s.past, s.locks, s.logs = inner, map[string]*past{}, map[string]*held{}, map[string]bool{}
	ctx := context.Background()
	for _, n := range backups {
		for name, k := range n.buckets {
			if err := s.restore(ctx, name, k); err != nil {
				return fmt.Errorf("restore %s: %w", name, err)
			}
		}
		for workspace, records := range n.logs {
			l, err := s.inner.Log(ctx, workspace)
			if err != nil {
				return err
			}
			s.logs[workspace] = true
			for batch := range slices.Chunk(records, state.MaxAppend) {
				if _, err := l.Append(ctx, batch); err != nil {
					return fmt.Errorf("restore log %s: %w", workspace, err)
				}
			}
		}
	}
	return old.Close()
}

// restore brings a bucket back. The revisions between those of its records go to one
// that is deleted in the end.
func (s *Server) restore(ctx context.Context, name string, k backed) error {
	b, err := s.bucket(name)
	if err != nil {
		return err
	}
	p := &past{}
	s.past[name] = p
	const between = "between"
	var filler uint64
	fill := func(to uint64) error {
		for p.last < to {
			if filler, err = b.Put(ctx, between, nil); err != nil {
				return err
			}
			p.last = filler
		}
		return nil
	}
	for _, r := range k.records {
		if err := fill(r.Revision - 1); err != nil {
			return err
		}
		if p.last, err = b.Put(ctx, r.Key, r.Value); err != nil {
			return err
		}
		if p.last != r.Revision {
			return errors.New("its revisions cannot be brought back")
		}
	}
	if err := fill(k.last); err != nil || filler == 0 {
		return err
	}
	p.last, err = b.Delete(ctx, between, filler)
	return err
}
