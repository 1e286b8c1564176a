package jetstream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"maestrohub.io/uns/broker/state"
)

// Store implements state.Store.
type Store struct {
	options Options
	shared  *connection
	closing chan struct{}

	mu      sync.Mutex // below; before a connection's. Lease connects under it, for some seconds at most
	ended   bool
	buckets map[string]*bucket
	logs    map[string]*log
	lease   *bucket // over the lease connection; nil until asked for

	opened openedStreams
}

// Open checks the options and begins to connect: it tries each server once and
// goes on trying in the background. What is called before NATS answers waits for
// it.
func Open(options Options) (*Store, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("open shared state: %w", err)
	}
	s := &Store{options: options, closing: make(chan struct{}), buckets: map[string]*bucket{}, logs: map[string]*log{}}
	if s.shared, err = connect(options, "shared state", options.Servers, options.Silence); err != nil {
		return nil, err
	}
	s.shared.met = s.opened.answered
	go s.shared.watchAnswers()
	if err := s.shared.present(options.Replica); err != nil {
		s.shared.close()
		return nil, err
	}
	return s, nil
}

func (s *Store) closed() error {
	select {
	case <-s.closing:
		return state.ErrClosed
	default:
		return nil
	}
}

// Bucket implements state.Store.
func (s *Store) Bucket(ctx context.Context, name string) (state.Bucket, error) {
	b, err := s.bucket(ctx, name)
	if err != nil {
		return nil, err
	}
	return b, nil
}

func (s *Store) bucket(ctx context.Context, name string) (*bucket, error) {
	if err := state.CheckName("bucket", name); err != nil {
		return nil, err
	}
	if err := s.closed(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	b := s.buckets[name]
	s.mu.Unlock()
	if b != nil {
		return b, nil
	}
	info, err := s.ensure(ctx, s.bucketConfig(name))
	if err == nil && name == state.Members {
		err = s.checkMembers(info)
	}
	if err != nil {
		return nil, fmt.Errorf("open bucket %s: %w", name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.buckets[name]; b != nil {
		return b, nil
	}
	b = newBucket(s, s.shared, name)
	b.seen(info.State.Last)
	s.opened.add(b.stream, info.stamp())
	b.changes = &changes{bucket: b, watches: map[*watch]struct{}{}}
	b.feed = &feed{
		conn: s.shared, stream: b.stream, subject: watchPrefix + name + ".>", every: time.Second,
		begin: func(uint64) {}, deliver: b.changes.deliver, lost: b.changes.lost, passed: b.changes.passed,
		hurry: make(chan struct{}, 1),
	}
	s.buckets[name] = b
	return b, nil
}

// Log implements state.Store.
func (s *Store) Log(ctx context.Context, workspaceID string) (state.Log, error) {
	if err := state.CheckName("workspace id", workspaceID); err != nil {
		return nil, err
	}
	if err := s.closed(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	l := s.logs[workspaceID]
	s.mu.Unlock()
	if l != nil {
		return l, nil
	}
	info, err := s.ensure(ctx, s.logConfig(workspaceID))
	if err != nil {
		return nil, fmt.Errorf("open the session log of %s: %w", workspaceID, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.logs[workspaceID]; l != nil {
		return l, nil
	}
	l = newLog(s, workspaceID)
	l.seen(info.State.Last)
	s.opened.add(l.stream, info.stamp())
	s.logs[workspaceID] = l
	return l, nil
}

// Probe implements state.Store. It fails as well while a stream that this store has
// opened is gone.
func (s *Store) Probe(ctx context.Context) error {
	whole := make(chan error, 1)
	go func() { whole <- s.whole(ctx) }() // at once: a slow store is waited for only once
	_, err := s.ProbeAt(ctx)
	return errors.Join(err, <-whole)
}

// ProbeAt is a Probe that tells its revision: a write to this replica's probe
// key in the bucket SessionState. A consumer that watches the bucket has, once
// it was given that revision, everything written to it before the probe was
// sent.
func (s *Store) ProbeAt(ctx context.Context) (revision uint64, err error) {
	b, err := s.bucket(ctx, state.SessionState)
	if err != nil {
		return 0, fmt.Errorf("probe the shared state: %w", err)
	}
	revision, err = b.Put(ctx, state.ProbeKeys+s.options.Replica, nil)
	if err != nil {
		return 0, fmt.Errorf("probe the shared state: %w", err)
	}
	return revision, nil
}

// Silent is how long the shared-state connection has received nothing at all,
// connected or not. From Options.Silence on the connection counts as half-open:
// it is then made again, and what was decided by it is to be decided again.
func (s *Store) Silent() time.Duration { return s.shared.silent() }

// Connected says whether the shared-state connection is up now.
func (s *Store) Connected() bool {
	up, _ := s.shared.status()
	return up
}

// Trouble is why the shared-state connection is not up, as far as that is known; nil while
// it is. It may take as long as an attempt to connect.
func (s *Store) Trouble() error { return s.shared.trouble() }

// MaxPayload is the largest message the NATS server takes, in bytes with its
// headers; 0 before the first connection.
func (s *Store) MaxPayload() int64 { return s.shared.maxPayload() }

// Close implements state.Store.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return nil
	}
	s.ended = true
	lease := s.lease
	s.mu.Unlock()
	close(s.closing)
	s.shared.close()
	if lease != nil {
		lease.conn.close()
	}
	return nil
}
