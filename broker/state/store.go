package state

import "context"

// Store is one replica's way into the shared state. All methods may be called
// from any goroutine.
type Store interface {
	// Bucket returns the bucket of that name, making it if there is none.
	Bucket(ctx context.Context, name string) (Bucket, error)
	// Log returns the session log of a workspace, making it if there is none.
	// Fails with ErrQuota if the store cannot reserve room for it.
	Log(ctx context.Context, workspaceID string) (Log, error)
	// Lock returns the lock of that name. It costs nothing until acquired.
	Lock(name string) Lock
	// Probe reports whether the store accepts a write now, by making one. It
	// is the only proof: reads go on answering when writes no longer land.
	Probe(ctx context.Context) error
	// Close ends watches, tails and held locks and frees the store. Writes
	// that are out may or may not land.
	Close() error
}

// Lock elects one holder among the replicas. It does not fence: a holder that
// was paused may act after it lost the lock, so whatever it does stays a
// conditional write.
type Lock interface {
	// Acquire waits until the lock is held or ctx is done.
	Acquire(ctx context.Context) (Held, error)
}

// Succession is a Lock whose holder can end without giving it back, and then holds
// it until its record lapses.
type Succession interface {
	Lock
	// Succeed is Acquire, and does not wait for a holder that is known to be over: over
	// is asked, again and again, whether the replica is that holds the lock. It must not
	// wait.
	Succeed(ctx context.Context, over func(replica string) bool) (Held, error)
}

// Held is a lock while it is held.
type Held interface {
	// Lost is closed when the lock is no longer held: released, lost to the
	// store, or the store closed.
	Lost() <-chan struct{}
	// Release gives the lock to the next one waiting. Releasing twice is
	// allowed.
	Release()
}
