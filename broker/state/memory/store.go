package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"maestrohub.io/uns/broker/state"
)

// Options say what survives and how large the session logs grow.
type Options struct {
	// Dir is where the durable buckets are kept; it is made if missing and
	// belongs to one process at a time. Empty: nothing survives.
	Dir string
	// Durable are the buckets kept in Dir. The others end with the process.
	Durable []string
	// LogMaxBytes bounds each session log, bookkeeping of 24 bytes a record
	// included; the oldest entries go first. 0: no bound.
	LogMaxBytes int64
	// LogMaxAge is how long a session log keeps an entry. 0: no bound.
	LogMaxAge time.Duration
	// TTL gives buckets whose records vanish that long after their last
	// write, as the members' do. No watch says so.
	TTL map[string]time.Duration
	// WatchBuffer is how many changes a slow watch may be behind before it
	// loses track and starts again. 0: 65,536.
	WatchBuffer int
	// FS is the file system of Dir. nil: the operating system's.
	FS vfs.FS
}

// Store implements state.Store.
type Store struct {
	options Options
	journal *journal // nil: nothing survives
	commits chan *commit
	// snapshot is the committer's: the result of the snapshot being written.
	snapshot chan snapshotResult

	closing   chan struct{} // closed by Close: nothing is accepted from here on
	committed chan struct{} // closed when the committer has ended

	mu      sync.Mutex // below: what exists
	closed  bool
	buckets map[string]*bucket
	logs    map[string]*log
	locks   map[string]chan struct{} // full while held
}

// Open opens the store and loads what survived. Errors name the file that is
// damaged or cannot be used; a Dir another process holds is one of them.
func Open(options Options) (*Store, error) {
	if options.WatchBuffer <= 0 {
		options.WatchBuffer = 1 << 16
	}
	if options.FS == nil {
		options.FS = vfs.Default
	}
	s := &Store{
		options:   options,
		commits:   make(chan *commit, 1024),
		closing:   make(chan struct{}),
		committed: make(chan struct{}),
		buckets:   map[string]*bucket{},
		logs:      map[string]*log{},
		locks:     map[string]chan struct{}{},
	}
	if options.Dir == "" || len(options.Durable) == 0 {
		close(s.committed)
		return s, nil
	}
	for _, name := range options.Durable {
		if err := state.CheckName("bucket", name); err != nil {
			return nil, err
		}
		s.bucket(name).durable = true
	}
	j, err := openJournal(options.FS, options.Dir, s.load)
	if err != nil {
		return nil, fmt.Errorf("open state in %s: %w", options.Dir, err)
	}
	s.journal = j
	for _, b := range s.buckets {
		b.dropOldTombstones(time.Now())
	}
	go s.commitLoop()
	return s, nil
}

// load puts one record of the journal in its place; a later one of the same key
// replaces an earlier.
func (s *Store) load(bucketName string, r *record) {
	b := s.bucket(bucketName)
	b.durable = true // also one no longer named: what is there stays there
	b.install(r)
}

func (s *Store) bucket(name string) *bucket {
	b := s.buckets[name]
	if b == nil {
		b = &bucket{store: s, name: name, ttl: s.options.TTL[name],
			records: map[string]*record{}, watches: map[*watch]struct{}{}}
		s.buckets[name] = b
	}
	return b
}

// Bucket implements state.Store.
func (s *Store) Bucket(ctx context.Context, name string) (state.Bucket, error) {
	if err := state.CheckName("bucket", name); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, state.ErrClosed
	}
	return s.bucket(name), nil
}

// Log implements state.Store.
func (s *Store) Log(ctx context.Context, workspaceID string) (state.Log, error) {
	if err := state.CheckName("workspace id", workspaceID); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, state.ErrClosed
	}
	l := s.logs[workspaceID]
	if l == nil {
		l = newLog(s.options.LogMaxBytes, s.options.LogMaxAge)
		s.logs[workspaceID] = l
	}
	return l, nil
}

// Probe implements state.Store. Where buckets are durable it syncs a frame.
func (s *Store) Probe(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.journal == nil {
		return s.open()
	}
	return s.commit(ctx, &commit{done: make(chan struct{})})
}

// open returns ErrClosed once the store is closed.
func (s *Store) open() error {
	select {
	case <-s.closing:
		return state.ErrClosed
	default:
		return nil
	}
}

// Close implements state.Store. Writes already accepted are still committed.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	buckets, logs := slices.Collect(maps.Values(s.buckets)), slices.Collect(maps.Values(s.logs))
	s.mu.Unlock()
	close(s.closing)
	<-s.committed
	for _, b := range buckets {
		b.stopWatches()
	}
	for _, l := range logs {
		l.close()
	}
	if s.journal != nil {
		return s.journal.close()
	}
	return nil
}
