package statetest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"maestrohub.io/uns/broker/state"
)

func (b *bench) acquire(lock state.Lock) state.Held {
	b.Helper()
	held, err := lock.Acquire(b.ctx)
	if err != nil {
		b.Fatalf("acquire: %v", err)
	}
	return held
}

var lockTests = []test{
	{"one holds a lock at a time", func(b *bench) {
		stores := []state.Store{b.store, b.reopen()}
		var holders atomic.Int32
		var wg sync.WaitGroup
		for i := range 6 {
			wg.Go(func() {
				for range 10 {
					held, err := stores[i%2].Lock(state.SweepLock).Acquire(b.ctx)
					if err != nil {
						b.Errorf("acquire: %v", err)
						return
					}
					if n := holders.Add(1); n != 1 {
						b.Errorf("%d hold the lock", n)
					}
					holders.Add(-1)
					held.Release()
				}
			})
		}
		wg.Wait()
	}},
	{"a held lock is waited for", func(b *bench) {
		lock := b.store.Lock(state.SweepLock)
		held := b.acquire(lock)
		ctx, cancel := context.WithTimeout(b.ctx, 20*time.Millisecond)
		defer cancel()
		if _, err := lock.Acquire(ctx); !errors.Is(err, context.DeadlineExceeded) {
			b.Fatalf("acquire of a held lock: %v, want the context's error", err)
		}
		select {
		case <-held.Lost():
			b.Fatal("a lock somebody else asked for was lost")
		default:
		}
		held.Release()
		held.Release()
		select {
		case <-held.Lost():
		case <-b.ctx.Done():
			b.Fatal("Lost is still open after Release")
		}
		b.acquire(lock).Release()
	}},
	{"locks of other names are other locks", func(b *bench) {
		one := b.acquire(b.store.Lock("leader.one"))
		defer one.Release()
		b.acquire(b.store.Lock("leader.two")).Release()
	}},
}

var storeTests = []test{
	{"a probe succeeds while the store takes writes", func(b *bench) {
		b.must("probe", func() (uint64, error) { return 0, b.store.Probe(b.ctx) })
	}},
	{"names that could not be a stream's are refused", func(b *bench) {
		for _, name := range []string{"", "a b", "a.b", "a*", ">", "a/b", "a\\b", "a\nb"} {
			if _, err := b.store.Bucket(b.ctx, name); err == nil {
				b.Errorf("bucket %q was made", name)
			}
			if _, err := b.store.Log(b.ctx, name); err == nil {
				b.Errorf("log %q was made", name)
			}
		}
	}},
	{"a closed store answers nothing and ends what hangs on it", func(b *bench) {
		bucket, log := b.bucket(), b.log()
		f := b.follow(bucket, "")
		f.untilReady()
		tail := log.Tail(0)
		ended := make(chan error)
		go func() {
			_, err := tail.Next(b.ctx)
			ended <- err
		}()
		held := b.acquire(b.store.Lock("leader.close"))
		if err := b.store.Close(); err != nil {
			b.Fatalf("close: %v", err)
		}
		if err := b.store.Close(); err != nil {
			b.Fatalf("close again: %v", err)
		}
		if err := <-ended; !errors.Is(err, state.ErrClosed) {
			b.Errorf("next of a tail: %v, want ErrClosed", err)
		}
		if _, open := f.next(); open {
			b.Error("the watch is still open")
		}
		select {
		case <-held.Lost():
		case <-b.ctx.Done():
			b.Error("the lock is still held")
		}
		held.Release()
		answers := map[string]error{"probe": b.store.Probe(b.ctx)}
		_, answers["put"] = bucket.Put(b.ctx, "a", nil)
		answers["apply"] = bucket.Apply(b.ctx, []state.Write{{Key: "a"}})[0].Err
		_, answers["get"] = bucket.Get(b.ctx, "a")
		_, answers["list"] = bucket.List(b.ctx, "")
		_, answers["watch"] = bucket.Watch(b.ctx, "")
		_, answers["append"] = log.Append(b.ctx, [][]byte{{1}})
		_, answers["read"] = log.Read(b.ctx, 0, 1, nil)
		_, _, answers["bounds"] = log.Bounds(b.ctx)
		_, answers["bucket"] = b.store.Bucket(b.ctx, state.Routes)
		_, answers["log"] = b.store.Log(b.ctx, "ws")
		_, answers["acquire"] = b.store.Lock("leader.close").Acquire(b.ctx)
		for what, err := range answers {
			if !errors.Is(err, state.ErrClosed) || !errors.Is(err, state.ErrUnavailable) {
				b.Errorf("%s after close: %v, want ErrClosed", what, err)
			}
		}
	}},
}
