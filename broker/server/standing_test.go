package server

import (
	"context"
	"testing"
	"testing/synctest"

	"maestrohub.io/uns/broker/cluster"
	"maestrohub.io/uns/broker/session"
	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/state/memory"
)

// silent makes writes and does not tell what became of some of them, nor shows them at
// once: what ErrUnknown and a read allow.
type silent struct {
	state.Bucket
	untold int          // writes that are yet to be made without an answer
	stale  int          // reads that are yet to show before
	before state.Record // what they show
	refuse int          // writes that are yet to be refused by a leader that was deposed
}

func (s *silent) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	if s.refuse > 0 {
		s.refuse--
		return 0, state.ErrConflict
	}
	written, err := s.Bucket.Update(ctx, key, value, revision)
	if err == nil && s.untold > 0 {
		s.untold--
		return 0, state.ErrUnknown
	}
	return written, err
}

func (s *silent) Get(ctx context.Context, key string) (state.Record, error) {
	if s.stale > 0 {
		s.stale--
		return s.before, nil
	}
	return s.Bucket.Get(ctx, key)
}

// A conflict is a takeover only if another's write stands there.
func TestAConflictWithOnesOwnWriteIsNoTakeover(t *testing.T) {
	for name, test := range map[string]struct {
		faults func(s *silent)
		// taken: another connection has confirmed the record as it found it.
		taken bool
		// deleted: the sweep has ended the session.
		deleted bool
	}{
		"the answer to a write got lost":                    {faults: func(s *silent) { s.untold = 1 }},
		"so did that to the next":                           {faults: func(s *silent) { s.untold = 3 }},
		"the read lags":                                     {faults: func(s *silent) { s.untold, s.stale = 1, 5 }},
		"a deposed leader refuses":                          {faults: func(s *silent) { s.refuse = 2 }},
		"another has taken over":                            {taken: true},
		"another has taken over, the read lags":             {taken: true, faults: func(s *silent) { s.stale = 5 }},
		"the session was ended":                             {deleted: true},
		"nothing explains it":                               {faults: func(s *silent) { s.refuse = 1000 }, taken: true},
		"another has taken over what was written untold of": {taken: true, faults: func(s *silent) { s.untold = 1 }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, err := memory.Open(memory.Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer store.Close()
				cursors, err := store.Bucket(t.Context(), state.SessionCursor)
				if err != nil {
					t.Fatal(err)
				}
				s := &Server{}
				s.shared = &shared{Cluster: Cluster{Member: alone{}}, server: s}
				press := &client{id: "press"}
				record := &cluster.Session{ID: cluster.NewID()}
				c := &connection{server: s, client: press, lock: &press.lock, session: &session.Session{}, ws: &workspace{server: s}, settled: make(chan struct{}), ended: true}
				c.held = &holding{owner: cluster.Owner{Connection: cluster.NewID()}, record: record}
				bucket := &silent{Bucket: cursors}
				r := &c.held.cursor
				*r = recorder{bucket: bucket, encode: c.encodeCursor, writer: cursorWriter}
				first, _ := c.encodeCursor()
				if r.revision, err = cursors.Create(t.Context(), press.id, first); err != nil {
					t.Fatal(err)
				}
				if bucket.before, err = cursors.Get(t.Context(), press.id); err != nil {
					t.Fatal(err)
				}
				if test.faults != nil {
					test.faults(bucket)
				}
				over := r.revision
				takeOver := func() {
					confirmed, err := cluster.DecodeCursor(bucket.before.Value)
					if err != nil {
						t.Fatal(err)
					}
					confirmed.Writer = cluster.NewID()
					if _, err := cursors.Update(t.Context(), press.id, confirmed.Encode(cluster.Oldest), over); err != nil {
						t.Fatal(err)
					}
				}
				switch {
				case test.deleted:
					if _, err := cursors.Delete(t.Context(), press.id, r.revision); err != nil {
						t.Fatal(err)
					}
				case test.taken && bucket.untold > 0:
					if over, err = cursors.Update(t.Context(), press.id, bucket.before.Value, over); err != nil {
						t.Fatal(err)
					}
					bucket.untold = 0
					takeOver()
				case test.taken:
					takeOver()
				}
				left := false
				press.lock.Lock()
				r.wanted, r.writing = 1, true
				r.waiting = []awaiting{{1, func() { left = true }}}
				press.lock.Unlock()
				c.writeRecord(t.Context(), r)
				want := !test.taken && !test.deleted
				if c.held.lost == want || left != want {
					t.Errorf("taken over: %v, what waited for the write has left: %v; want %v and %v", c.held.lost, left, !want, want)
				}
				if got, err := cursors.Get(t.Context(), press.id); want && (err != nil || got.Revision != r.revision) {
					t.Errorf("it goes on from revision %d, the record is at %d, %v", r.revision, got.Revision, err)
				}
				synctest.Wait()
			})
		})
	}
}
