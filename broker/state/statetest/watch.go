package statetest

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"maestrohub.io/uns/broker/state"
)

func contextDone() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx, cancel
}

// follower consumes a watch as package state says a consumer does, and checks
// the laws of order on the way.
type follower struct {
	*bench
	watch  state.Watch
	known  map[string]string
	before map[string]string // known before a Lost, until Ready
	ready  bool
	last   uint64 // revision of the newest change since Ready
	newest map[string]uint64
	losses int
}

func (b *bench) follow(bucket state.Bucket, prefix string) *follower {
	b.Helper()
	watch, err := bucket.Watch(b.ctx, prefix)
	if err != nil {
		b.Fatalf("watch: %v", err)
	}
	b.Cleanup(watch.Stop)
	return &follower{bench: b, watch: watch, known: map[string]string{}, newest: map[string]uint64{}}
}

// next takes in one update; false: the watch ended.
func (f *follower) next() (state.Update, bool) {
	f.Helper()
	patience := time.NewTimer(f.Patience)
	defer patience.Stop()
	var u state.Update
	select {
	case got, ok := <-f.watch.Updates():
		if !ok {
			return u, false
		}
		u = got
	case <-patience.C:
		f.Fatalf("watch said nothing for %v; known: %v", f.Patience, f.known)
	}
	switch {
	case u.Lost:
		f.before, f.known, f.ready = f.known, map[string]string{}, false
		f.newest = map[string]uint64{}
		f.losses++
	case u.Ready:
		if f.ready {
			f.Fatal("watch said Ready twice")
		}
		f.ready, f.before, f.last = true, nil, 0
	case u.Marked > 0:
		if !f.ready || u.Key != "" || u.Revision != 0 || u.Deleted {
			f.Fatalf("a mark that is something else: %+v, ready %v", u, f.ready)
		}
	default:
		if u.Key == "" || u.Revision == 0 || u.Revision <= f.newest[u.Key] {
			f.Fatalf("update %+v after revision %d of that key", u, f.newest[u.Key])
		}
		f.newest[u.Key] = u.Revision
		if f.ready {
			if u.Revision <= f.last {
				f.Fatalf("change %+v after one of revision %d", u, f.last)
			}
			f.last = u.Revision
		} else if u.Deleted {
			f.Fatalf("deletion %+v before Ready", u)
		}
		if u.Deleted {
			if u.Value != nil {
				f.Fatalf("deletion %+v has a value", u)
			}
			delete(f.known, u.Key)
		} else {
			f.known[u.Key] = string(u.Value)
		}
	}
	return u, true
}

func (f *follower) untilReady() {
	f.Helper()
	for !f.ready {
		if _, ok := f.next(); !ok {
			f.Fatal("watch ended before Ready")
		}
	}
}

// until follows on to the given revision.
func (f *follower) until(revision uint64) {
	f.Helper()
	for seen := false; !seen || !f.ready; {
		u, ok := f.next()
		if !ok {
			f.Fatalf("watch ended before revision %d", revision)
		}
		seen = seen || u.Revision >= revision
	}
}

func (f *follower) knows(want map[string]string) {
	f.Helper()
	if !maps.Equal(f.known, want) {
		f.Fatalf("watch gave %v, want %v", f.known, want)
	}
}

// marked follows on to a mark.
func (f *follower) marked(mark uint64) {
	f.Helper()
	for {
		u, ok := f.next()
		if !ok {
			f.Fatalf("watch ended before mark %d", mark)
		}
		if u.Marked >= mark {
			return
		}
	}
}

var watchTests = []test{
	{"at a mark a watch has given every write that was confirmed before", func(b *bench) {
		bucket := b.bucket()
		early, narrow := b.follow(bucket, ""), b.follow(bucket, "x/")
		want := map[string]string{}
		for i := range 40 {
			key := fmt.Sprintf("%d", i%7)
			revision := b.put(bucket, key, fmt.Sprint(i))
			want[key] = fmt.Sprint(i)
			if i%5 == 4 {
				b.must("delete", func() (uint64, error) { return bucket.Delete(b.ctx, key, revision) })
				delete(want, key)
			}
			for _, f := range []*follower{early, narrow, b.follow(bucket, "")} {
				mark := b.must("mark", func() (uint64, error) { return f.watch.Mark(b.ctx) })
				if mark < revision {
					b.Fatalf("a mark of %d after a write of revision %d", mark, revision)
				}
				f.marked(mark)
				if f == narrow {
					f.knows(map[string]string{})
				} else {
					f.knows(want)
				}
			}
		}
		b.put(bucket, "x/1", "1")
		narrow.marked(b.must("mark", func() (uint64, error) { return narrow.watch.Mark(b.ctx) }))
		narrow.knows(map[string]string{"x/1": "1"})
	}},
	{"marks are given while many write", func(b *bench) {
		bucket := b.bucket()
		f := b.follow(bucket, "")
		var wg sync.WaitGroup
		defer wg.Wait()
		for w := range 4 {
			wg.Go(func() {
				for i := range 60 {
					b.put(bucket, fmt.Sprintf("%d/%d", w, i%10), fmt.Sprint(i))
				}
			})
		}
		for i := range 20 {
			revision := b.put(bucket, "mine", fmt.Sprint(i))
			f.marked(b.must("mark", func() (uint64, error) { return f.watch.Mark(b.ctx) }))
			if f.known["mine"] != fmt.Sprint(i) {
				b.Fatalf("at a mark after revision %d the watch has given %q, want %d", revision, f.known["mine"], i)
			}
		}
	}},
	{"a watch gives all records, Ready, then the changes", func(b *bench) {
		bucket := b.bucket()
		b.put(bucket, "a", "1")
		b.put(bucket, "b", "1")
		b.put(bucket, "a", "2")
		gone := b.put(bucket, "c", "1")
		b.must("delete", func() (uint64, error) { return bucket.Delete(b.ctx, "c", gone) })
		f := b.follow(bucket, "")
		f.untilReady()
		f.until(b.put(bucket, "d", "1"))
		f.knows(map[string]string{"a": "2", "b": "1", "d": "1"})
		b.put(bucket, "b", "2")
		d := b.put(bucket, "d", "2")
		f.until(b.must("delete", func() (uint64, error) { return bucket.Delete(b.ctx, "d", d) }))
		f.knows(map[string]string{"a": "2", "b": "2"})
	}},
	{"an empty bucket is Ready at once", func(b *bench) {
		f := b.follow(b.bucket(), "")
		f.untilReady()
		f.knows(map[string]string{})
	}},
	{"a watch gives only what its prefix begins", func(b *bench) {
		bucket := b.bucket()
		b.put(bucket, "x/1", "1")
		b.put(bucket, "y/1", "1")
		f := b.follow(bucket, "x/")
		f.untilReady()
		b.put(bucket, "y/2", "1")
		b.put(bucket, "x", "1")
		f.until(b.put(bucket, "x/2", "1"))
		f.knows(map[string]string{"x/1": "1", "x/2": "1"})
	}},
	{"no change is missing while many write", func(b *bench) {
		const writers, writes = 6, 150
		bucket := b.bucket()
		early := b.follow(bucket, "")
		var followers []*follower
		var last sync.Map
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				for i := range writes {
					key := fmt.Sprintf("%d/%d", w, i%10)
					revision := b.put(bucket, key, fmt.Sprint(i))
					if i%7 == 6 {
						revision = b.must("delete", func() (uint64, error) { return bucket.Delete(b.ctx, key, revision) })
					}
					last.Store(w, revision)
				}
			})
		}
		for range 3 { // begun in the middle of it
			followers = append(followers, b.follow(bucket, ""))
		}
		wg.Wait()
		end := b.put(bucket, "end", "")
		want := map[string]string{}
		records, err := bucket.List(b.ctx, "")
		if err != nil {
			b.Fatal(err)
		}
		for _, r := range records {
			want[r.Key] = string(r.Value)
		}
		for _, f := range append(followers, early) {
			f.until(end)
			f.knows(want)
		}
	}},
	{"a watch nobody reads holds up no write", func(b *bench) {
		bucket := b.bucket()
		f := b.follow(bucket, "")
		var end uint64
		for i := range 2000 {
			end = b.put(bucket, fmt.Sprint("k", i%50), fmt.Sprint(i))
		}
		f.until(end)
		if f.known["k49"] != "1999" || len(f.known) != 50 {
			b.Fatalf("a watch read late gave %d records, k49=%s", len(f.known), f.known["k49"])
		}
	}},
	{"a watch ends when stopped and when its context is done", func(b *bench) {
		bucket := b.bucket()
		stopped := b.follow(bucket, "")
		stopped.untilReady()
		stopped.watch.Stop()
		stopped.watch.Stop()
		ctx, cancel := context.WithCancel(b.ctx)
		cancelled, err := bucket.Watch(ctx, "")
		if err != nil {
			b.Fatal(err)
		}
		cancel()
		for what, watch := range map[string]state.Watch{"stopped": stopped.watch, "cancelled": cancelled} {
			for open := true; open; {
				patience := time.NewTimer(b.Patience)
				select {
				case _, open = <-watch.Updates():
				case <-patience.C:
					b.Fatalf("%s watch still open after %v", what, b.Patience)
				}
				patience.Stop()
			}
		}
		b.put(bucket, "a", "writes go on")
	}},
}
