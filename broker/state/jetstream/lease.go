package jetstream

import (
	"context"
	"time"

	"maestrohub.io/uns/broker/state"
)

// Lease writes membership records over a connection that carries nothing else,
// so that they never wait behind other traffic. Its methods are the Bucket's of
// the same names, on the members' bucket. They may be called while earlier calls
// are not back: each write goes out at once.
//
// Put is a heartbeat: sent once and never again, for the next one says more. Its
// error is ErrUnknown unless it is certain that nothing was sent.
type Lease struct{ bucket *bucket }

// Lease returns the lease, checking the members' bucket first.
func (s *Store) Lease(ctx context.Context) (*Lease, error) {
	if _, err := s.bucket(ctx, state.Members); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lease == nil {
		servers := append(append([]string(nil), s.options.Servers[1:]...), s.options.Servers[0])
		c, err := connect(s.options, "lease", servers, s.options.LeaseSilence)
		if err != nil {
			return nil, err
		}
		s.lease = newBucket(s, c, state.Members)
	}
	return &Lease{s.lease}, nil
}

// Put writes a member's entry without a condition, once.
func (l *Lease) Put(ctx context.Context, key string, value []byte) (uint64, error) {
	return l.bucket.write(ctx, request{Write: state.Write{Op: state.OpPut, Key: key, Value: value}, once: true})
}

// Create writes an entry where none is.
func (l *Lease) Create(ctx context.Context, key string, value []byte) (uint64, error) {
	return l.bucket.Create(ctx, key, value)
}

// Update writes an entry that is still at the revision.
func (l *Lease) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	return l.bucket.Update(ctx, key, value, revision)
}

// Delete removes an entry that is still at the revision.
func (l *Lease) Delete(ctx context.Context, key string, revision uint64) (uint64, error) {
	return l.bucket.Delete(ctx, key, revision)
}

// Get reads an entry from the leader.
func (l *Lease) Get(ctx context.Context, key string) (state.Record, error) {
	return l.bucket.Get(ctx, key)
}

// Silent is how long the lease connection has received nothing.
func (l *Lease) Silent() time.Duration { return l.bucket.conn.silent() }
