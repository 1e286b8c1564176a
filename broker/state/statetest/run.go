package statetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"maestrohub.io/uns/broker/state"
)

// Options say what the suite may expect of the stores it opens.
type Options struct {
	// LogMaxBytes (at least 256 KiB) and LogMaxAge are the bounds the stores' logs are opened
	// with. 0 leaves the tests of that bound out.
	LogMaxBytes int64
	LogMaxAge   time.Duration
	// MembersTTL is how long a record of the bucket Members lives, at most a
	// minute. 0 leaves the test of it out.
	MembersTTL time.Duration
	// LogOverhead is what the store may count for a record beside its data.
	LogOverhead int64
	// Only chooses among the tests by what they promise. nil: all.
	Only func(promise string) bool
	// Patience is how long a write, a read that lags or a watch may take.
	// 0: 10 s.
	Patience time.Duration
}

// Run runs the suite. open returns a way into one store, made empty for each
// test it is given; called twice with the same test it returns another way into
// the same store, as another replica has it (which may be the same object).
func Run(t *testing.T, open func(t *testing.T) state.Store, options Options) {
	if options.Patience == 0 {
		options.Patience = 10 * time.Second
	}
	suites := []struct {
		name  string
		tests []test
	}{
		{"Bucket", bucketTests},
		{"Watch", watchTests},
		{"Log", logTests},
		{"Tail", tailTests},
		{"Lock", lockTests},
		{"Store", storeTests},
	}
	for _, suite := range suites {
		t.Run(suite.name, func(t *testing.T) {
			for _, test := range suite.tests {
				if options.Only != nil && !options.Only(test.promise) {
					continue
				}
				t.Run(strings.ReplaceAll(test.promise, " ", "_"), func(t *testing.T) {
					test.run(newBench(t, open, options))
				})
			}
		})
	}
}

// test is one promise and how it is shown.
type test struct {
	promise string
	run     func(b *bench)
}

// bench is what one test works with.
type bench struct {
	*testing.T
	Options
	ctx    context.Context
	store  state.Store
	reopen func() state.Store
}

var names atomic.Uint64

func newBench(t *testing.T, open func(t *testing.T) state.Store, options Options) *bench {
	ctx, cancel := context.WithTimeout(context.Background(), 20*options.Patience)
	t.Cleanup(cancel)
	return &bench{T: t, Options: options, ctx: ctx, store: open(t), reopen: func() state.Store { return open(t) }}
}

// bucket returns a bucket of the store: Routes, which no store makes durable or
// lets expire, so that every law holds for it.
func (b *bench) bucket() state.Bucket {
	b.Helper()
	bucket, err := b.store.Bucket(b.ctx, state.Routes)
	if err != nil {
		b.Fatalf("bucket %s: %v", state.Routes, err)
	}
	return bucket
}

// log returns a log that nobody wrote to yet.
func (b *bench) log() state.Log {
	b.Helper()
	log, err := b.store.Log(b.ctx, fmt.Sprintf("ws-%d", names.Add(1)))
	if err != nil {
		b.Fatalf("log: %v", err)
	}
	return log
}

// must repeats an idempotent write whose outcome is unknown until it has one.
func (b *bench) must(what string, write func() (uint64, error)) uint64 {
	b.Helper()
	for {
		revision, err := write()
		if err == nil {
			return revision
		}
		if !errors.Is(err, state.ErrUnknown) && !errors.Is(err, state.ErrUnavailable) || b.ctx.Err() != nil {
			b.Fatalf("%s: %v", what, err)
		}
	}
}

func (b *bench) put(bucket state.Bucket, key, value string) uint64 {
	b.Helper()
	return b.must("put "+key, func() (uint64, error) { return bucket.Put(b.ctx, key, []byte(value)) })
}

// conflict repeats a write that must conflict until its outcome is known.
func (b *bench) conflict(what string, write func() (uint64, error)) {
	b.Helper()
	for {
		revision, err := write()
		if errors.Is(err, state.ErrConflict) {
			if revision != 0 {
				b.Fatalf("%s: conflict with revision %d, want 0", what, revision)
			}
			return
		}
		if !errors.Is(err, state.ErrUnknown) || b.ctx.Err() != nil {
			b.Fatalf("%s: revision %d, error %v, want ErrConflict", what, revision, err)
		}
	}
}

// eventually waits for a read, which may lag, to show what is wanted.
func (b *bench) eventually(what string, shown func() (got string, ok bool)) {
	b.Helper()
	deadline := time.Now().Add(b.Patience)
	for {
		got, ok := shown()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			b.Fatalf("%s: still %s after %v", what, got, b.Patience)
		}
		pause := time.NewTimer(5 * time.Millisecond)
		<-pause.C
	}
}

func (b *bench) reads(bucket state.Bucket, key, value string, revision uint64) {
	b.Helper()
	b.eventually(fmt.Sprintf("get %q, want %q at revision %d", key, value, revision), func() (string, bool) {
		r, err := bucket.Get(b.ctx, key)
		got := fmt.Sprintf("%q at %d, error %v", r.Value, r.Revision, err)
		return got, err == nil && r.Key == key && string(r.Value) == value && r.Revision == revision
	})
}

func (b *bench) absent(bucket state.Bucket, key string) {
	b.Helper()
	b.eventually(fmt.Sprintf("get %q, want ErrNotFound", key), func() (string, bool) {
		r, err := bucket.Get(b.ctx, key)
		return fmt.Sprintf("%q at %d, error %v", r.Value, r.Revision, err), errors.Is(err, state.ErrNotFound)
	})
}
