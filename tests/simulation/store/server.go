package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/state/memory"
)

// Options of a Server.
type Options struct {
	// MemberTTL is after how long a member's entry expires.
	MemberTTL time.Duration
	// LogMaxBytes and LogMaxAge bound each log. 0: no bound.
	LogMaxBytes int64
	LogMaxAge   time.Duration
	// LockLease is how long a lock is held that nobody renews. 0: 18 s.
	LockLease time.Duration
	// Seed decides the lies.
	Seed uint64
	// Landed is told of every write as it lands, one after the other. It must not call
	// the store. nil: nobody.
	Landed func(Landing)
	// Appended is told of every batch as it lands in a log, the same way.
	Appended func(client, workspace string, first uint64, records [][]byte)
	// Left is told of every write that has left a client, over its lease connection if
	// lease, and is on its way. nil: nobody.
	Left func(client, purpose string, lease bool)
}

// Landing is a write that has landed.
type Landing struct {
	// Client is who made it, over its lease connection if Lease.
	Client string
	Lease  bool
	Bucket string
	state.Write
	Revision uint64
}

// Server is the state the replicas share.
type Server struct {
	o    Options
	dice *Dice

	mu     sync.Mutex // one write lands at a time
	inner  *memory.Store
	past   map[string]*past
	locks  map[string]*held // who has each lock
	logs   map[string]bool
	closed bool

	flights sync.WaitGroup // what is on its way, ghosts included
}

// Open returns an empty store.
func Open(o Options) (*Server, error) {
	if o.LockLease <= 0 {
		o.LockLease = 18 * time.Second
	}
	s := &Server{o: o, dice: NewDice(o.Seed), past: map[string]*past{}, locks: map[string]*held{}, logs: map[string]bool{}}
	var err error
	if s.inner, err = s.empty(); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Server) empty() (*memory.Store, error) {
	o := memory.Options{LogMaxBytes: s.o.LogMaxBytes, LogMaxAge: s.o.LogMaxAge}
	if s.o.MemberTTL > 0 {
		o.TTL = map[string]time.Duration{state.Members: s.o.MemberTTL}
	}
	inner, err := memory.Open(o)
	if err != nil {
		return nil, fmt.Errorf("open simulated store: %w", err)
	}
	return inner, nil
}

// Close ends the store once nothing is on its way any more. Clients are closed before.
func (s *Server) Close() error {
	s.flights.Wait()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	return s.inner.Close()
}

// bucket returns the true bucket.
func (s *Server) bucket(name string) (state.Bucket, error) {
	return s.inner.Bucket(context.Background(), name)
}

// log returns the true log.
func (s *Server) log(workspace string) (state.Log, error) {
	s.mu.Lock()
	s.logs[workspace] = true
	s.mu.Unlock()
	return s.inner.Log(context.Background(), workspace)
}

// land makes writes, at this moment, and tells about those that were made. over, if not
// nil, is what stood there when the creates among them were sent, and nobody waits for them
// any more: a create is sent for a key that has no record, or a deletion of a given
// revision. Who waits for the answer sends it again over a later deletion; one that nobody
// does is refused by that.
func (s *Server) land(c *conn, name string, writes []state.Write, over []uint64) []state.Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, w := range writes {
		if over == nil || w.Op != state.OpCreate {
			continue
		}
		if v, there := s.past[name].latest(w.Key); there && v.deleted && v.record.Revision != over[i] {
			writes[i] = state.Write{Op: state.OpUpdate, Key: w.Key, Value: w.Value} // no record has revision 0
		}
	}
	b, err := s.bucket(name)
	if err != nil {
		results := make([]state.Result, len(writes))
		for i := range results {
			results[i].Err = err
		}
		return results
	}
	results := b.Apply(context.Background(), writes)
	p := s.past[name]
	if p == nil {
		p = &past{}
		s.past[name] = p
	}
	now := time.Now()
	for i, r := range results {
		if r.Err != nil {
			continue
		}
		p.note(now, writes[i], r.Revision)
		p.last = r.Revision
		if s.o.Landed != nil {
			s.o.Landed(Landing{Client: c.client.name, Lease: c.lease, Bucket: name, Write: writes[i], Revision: r.Revision})
		}
	}
	return results
}

// append appends a batch, at this moment. Each record is kept with its time, so that a
// restored log has the times it had.
func (s *Server) append(c *conn, workspace string, records [][]byte) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	log, err := s.inner.Log(context.Background(), workspace)
	if err != nil {
		return 0, err
	}
	first, err := log.Append(context.Background(), stamped(records, time.Now()))
	if err == nil && s.o.Appended != nil {
		s.o.Appended(c.client.name, workspace, first, records)
	}
	return first, err
}

// kept is for how long a read may still show what was overwritten.
const kept = 20 * time.Second

// past is what a bucket's keys held lately.
type past struct {
	keys map[string][]version // oldest first; the last is the present one
	last uint64               // revision
}

type version struct {
	record  state.Record
	deleted bool
	at      time.Time
}

func (p *past) note(now time.Time, w state.Write, revision uint64) {
	if p.keys == nil {
		p.keys = map[string][]version{}
	}
	list := p.keys[w.Key]
	drop := 0
	for drop+1 < len(list) && now.Sub(list[drop+1].at) > kept {
		drop++
	}
	list = append(list[:0:0], list[drop:]...)
	p.keys[w.Key] = append(list, version{state.Record{Key: w.Key, Value: append([]byte(nil), w.Value...), Revision: revision, Time: now}, w.Op == state.OpDelete, now})
}

// latest is the present one of a key; false if it never had any.
func (p *past) latest(key string) (version, bool) {
	if p == nil || len(p.keys[key]) == 0 {
		return version{}, false
	}
	list := p.keys[key]
	return list[len(list)-1], true
}

// standing is the revision of what stands under a key, a deletion's too; 0: nothing ever
// did.
func (s *Server) standing(name, key string) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, _ := s.past[name].latest(key)
	return v.record.Revision
}

// asOf returns what a key held at a moment; false if nothing.
func (p *past) asOf(key string, at time.Time) (state.Record, bool) {
	if p == nil {
		return state.Record{}, false
	}
	list := p.keys[key]
	for i := len(list) - 1; i >= 0; i-- {
		if v := list[i]; !v.at.After(at) {
			return v.record, !v.deleted
		}
	}
	return state.Record{}, false
}

// get reads a record as of a moment; expiry is by the clock of now.
func (s *Server) get(name, key string, asOf time.Time) (state.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, there := s.past[name].asOf(key, asOf)
	if there && name == state.Members && s.o.MemberTTL > 0 && time.Since(r.Time) >= s.o.MemberTTL {
		there, r.Revision = false, 0
	}
	if !there {
		return state.Record{Key: key, Revision: r.Revision}, fmt.Errorf("get %q from %s: %w", key, name, state.ErrNotFound)
	}
	return r, nil
}

// list reads all records as of a moment.
func (s *Server) list(name string, asOf time.Time) []state.Record {
	s.mu.Lock()
	var keys []string
	if p := s.past[name]; p != nil {
		for key := range p.keys {
			keys = append(keys, key)
		}
	}
	s.mu.Unlock()
	var records []state.Record
	for _, key := range keys {
		if r, err := s.get(name, key, asOf); err == nil {
			records = append(records, r)
		} else if !errors.Is(err, state.ErrNotFound) {
			continue
		}
	}
	return records
}
