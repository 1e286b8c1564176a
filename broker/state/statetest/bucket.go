package statetest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"maestrohub.io/uns/broker/state"
)

var bucketTests = []test{
	{"a written record is read as it was written", func(b *bench) {
		bucket := b.bucket()
		before := time.Now()
		revision := b.put(bucket, "a", "one")
		b.reads(bucket, "a", "one", revision)
		b.eventually("the record's time", func() (string, bool) {
			r, err := bucket.Get(b.ctx, "a")
			return fmt.Sprintf("written at %v, has time %v (error %v)", before, r.Time, err),
				err == nil && !r.Time.Before(before.Add(-time.Minute)) && !r.Time.After(time.Now().Add(time.Minute))
		})
		b.reads(bucket, "empty", "", b.put(bucket, "empty", ""))
		b.absent(bucket, "never written")
	}},
	{"a value handed in may be changed afterwards", func(b *bench) {
		bucket := b.bucket()
		value := []byte("before")
		revision := b.must("put", func() (uint64, error) { return bucket.Put(b.ctx, "a", value) })
		copy(value, "xxxxxx")
		b.reads(bucket, "a", "before", revision)
	}},
	{"revisions grow over the bucket", func(b *bench) {
		bucket := b.bucket()
		var last uint64
		for i := range 20 {
			revision := b.put(bucket, fmt.Sprint("k", i%3), fmt.Sprint(i))
			if revision <= last {
				b.Fatalf("write %d has revision %d after %d", i, revision, last)
			}
			last = revision
		}
	}},
	{"create succeeds only where nothing is", func(b *bench) {
		bucket := b.bucket()
		first := b.must("create", func() (uint64, error) { return bucket.Create(b.ctx, "a", []byte("one")) })
		b.conflict("create again", func() (uint64, error) { return bucket.Create(b.ctx, "a", []byte("two")) })
		b.reads(bucket, "a", "one", first)
	}},
	{"update succeeds only at the revision it names", func(b *bench) {
		bucket := b.bucket()
		first := b.put(bucket, "a", "one")
		b.put(bucket, "b", "moves the bucket's revision")
		second := b.must("update", func() (uint64, error) { return bucket.Update(b.ctx, "a", []byte("two"), first) })
		if second <= first {
			b.Fatalf("update has revision %d after %d", second, first)
		}
		for _, revision := range []uint64{0, first, second + 1, second + 100} {
			b.conflict(fmt.Sprint("update at ", revision), func() (uint64, error) { return bucket.Update(b.ctx, "a", []byte("three"), revision) })
		}
		b.reads(bucket, "a", "two", second)
		for _, revision := range []uint64{0, 1, second} {
			b.conflict(fmt.Sprint("update of nothing at ", revision), func() (uint64, error) { return bucket.Update(b.ctx, "c", []byte("x"), revision) })
		}
	}},
	{"delete is conditional and leaves a revision that refuses late writes", func(b *bench) {
		bucket := b.bucket()
		first := b.put(bucket, "a", "one")
		second := b.put(bucket, "a", "two")
		b.conflict("delete at an old revision", func() (uint64, error) { return bucket.Delete(b.ctx, "a", first) })
		gone := b.must("delete", func() (uint64, error) { return bucket.Delete(b.ctx, "a", second) })
		if gone <= second {
			b.Fatalf("deletion has revision %d after %d", gone, second)
		}
		b.absent(bucket, "a")
		b.eventually("the revision of the deletion, from a read that finds nothing", func() (string, bool) {
			r, err := bucket.Get(b.ctx, "a")
			return fmt.Sprintf("%d, error %v", r.Revision, err), r.Revision == gone && r.Value == nil && errors.Is(err, state.ErrNotFound)
		})
		if r, err := bucket.Get(b.ctx, "never"); r.Revision != 0 {
			b.Fatalf("a record that never was has revision %d, error %v", r.Revision, err)
		}
		b.conflict("late update", func() (uint64, error) { return bucket.Update(b.ctx, "a", []byte("late"), second) })
		b.conflict("late delete", func() (uint64, error) { return bucket.Delete(b.ctx, "a", second) })
		b.conflict("delete of a deleted record", func() (uint64, error) { return bucket.Delete(b.ctx, "a", gone) })
		b.conflict("delete of nothing", func() (uint64, error) { return bucket.Delete(b.ctx, "never", gone) })
		b.absent(bucket, "a")
		records, err := bucket.List(b.ctx, "")
		if err != nil || len(records) != 0 {
			b.Fatalf("list shows %v after the deletion (error %v)", records, err)
		}
	}},
	{"a deleted record can be made again", func(b *bench) {
		bucket := b.bucket()
		first := b.put(bucket, "a", "one")
		gone := b.must("delete", func() (uint64, error) { return bucket.Delete(b.ctx, "a", first) })
		again := b.must("create", func() (uint64, error) { return bucket.Create(b.ctx, "a", []byte("two")) })
		if again <= gone {
			b.Fatalf("record made again has revision %d after %d", again, gone)
		}
		b.reads(bucket, "a", "two", again)
		gone = b.must("delete", func() (uint64, error) { return bucket.Delete(b.ctx, "a", again) })
		back := b.must("update at the deletion", func() (uint64, error) { return bucket.Update(b.ctx, "a", []byte("three"), gone) })
		b.reads(bucket, "a", "three", back)
	}},
	{"of rivals for one revision exactly one wins", func(b *bench) {
		const rivals, rounds = 8, 25
		ways := []state.Bucket{b.bucket()}
		other, err := b.reopen().Bucket(b.ctx, state.Routes)
		if err != nil {
			b.Fatal(err)
		}
		ways = append(ways, other)
		revision := uint64(0)
		for round := range rounds {
			var wg sync.WaitGroup
			var mu sync.Mutex
			won := map[string]uint64{}
			unknown := map[string]bool{}
			for i := range rivals {
				wg.Go(func() {
					value := fmt.Sprintf("%d by %d", round, i)
					var r uint64
					var err error
					if revision == 0 {
						r, err = ways[i%2].Create(b.ctx, "prize", []byte(value))
					} else {
						r, err = ways[i%2].Update(b.ctx, "prize", []byte(value), revision)
					}
					mu.Lock()
					defer mu.Unlock()
					switch {
					case err == nil:
						won[value] = r
					case errors.Is(err, state.ErrUnknown):
						unknown[value] = true
					case !errors.Is(err, state.ErrConflict):
						b.Errorf("rival %d in round %d: %v", i, round, err)
					}
				})
			}
			wg.Wait()
			if len(won) > 1 || len(won) == 0 && len(unknown) == 0 {
				b.Fatalf("round %d: won by %v, unknown %v, want one winner", round, won, unknown)
			}
			b.eventually("the winner's record", func() (string, bool) {
				r, err := ways[0].Get(b.ctx, "prize")
				if err != nil || r.Revision <= revision {
					return fmt.Sprint(r, err), false
				}
				w, ok := won[string(r.Value)]
				if ok && w != r.Revision {
					b.Fatalf("round %d: %q won at revision %d and stands at %d", round, r.Value, w, r.Revision)
				}
				if ok || len(won) == 0 && unknown[string(r.Value)] {
					revision = r.Revision
					return "", true
				}
				return fmt.Sprintf("%q", r.Value), false
			})
		}
	}},
	{"apply decides each write on its own", func(b *bench) {
		bucket := b.bucket()
		one := b.put(bucket, "one", "1")
		two := b.put(bucket, "two", "2")
		results := bucket.Apply(b.ctx, []state.Write{
			{Op: state.OpUpdate, Key: "one", Value: []byte("1a"), Revision: one},
			{Op: state.OpUpdate, Key: "two", Value: []byte("2a"), Revision: one},
			{Op: state.OpCreate, Key: "three", Value: []byte("3")},
			{Op: state.OpPut, Key: "four", Value: []byte("4")},
			{Op: state.OpPut, Key: "", Value: []byte("no key")},
			{Op: state.OpDelete, Key: "five", Revision: 1},
			{Op: state.OpPut, Key: "four", Value: []byte("twice")},
		})
		if len(results) != 7 {
			b.Fatalf("%d results of 7 writes", len(results))
		}
		for i, ok := range []bool{true, false, true, true, false, false, false} {
			if err := results[i].Err; errors.Is(err, state.ErrUnknown) {
				b.Skipf("write %d: %v", i, err)
			} else if (err == nil) != ok || ok == (results[i].Revision == 0) {
				b.Errorf("write %d: %+v, want success: %v", i, results[i], ok)
			}
		}
		if !errors.Is(results[1].Err, state.ErrConflict) || !errors.Is(results[5].Err, state.ErrConflict) {
			b.Errorf("conflicts of apply: %v and %v, want ErrConflict", results[1].Err, results[5].Err)
		}
		b.reads(bucket, "one", "1a", results[0].Revision)
		b.reads(bucket, "two", "2", two)
		b.reads(bucket, "three", "3", results[2].Revision)
		b.reads(bucket, "four", "4", results[3].Revision)
		if results := bucket.Apply(b.ctx, nil); len(results) != 0 {
			b.Errorf("apply of nothing: %v", results)
		}
	}},
	{"list gives what a prefix begins, ordered by key", func(b *bench) {
		bucket := b.bucket()
		for _, key := range []string{"b", "a/2", "a/1", "a", "ab", "c"} {
			b.put(bucket, key, "value of "+key)
		}
		for prefix, want := range map[string]string{"": "a a/1 a/2 ab b c", "a": "a a/1 a/2 ab", "a/": "a/1 a/2", "x": ""} {
			b.eventually(fmt.Sprintf("list %q, want %s", prefix, want), func() (string, bool) {
				records, err := bucket.List(b.ctx, prefix)
				if err != nil {
					return err.Error(), false
				}
				var keys []string
				for _, r := range records {
					if string(r.Value) != "value of "+r.Key || r.Revision == 0 {
						b.Errorf("list %q: record %q has value %q, revision %d", prefix, r.Key, r.Value, r.Revision)
					}
					keys = append(keys, r.Key)
				}
				got := strings.Join(keys, " ")
				return got, got == want
			})
		}
	}},
	{"any MQTT string is a key", func(b *bench) {
		bucket := b.bucket()
		keys := []string{"a b", "*", ">", ".", "a..b", "/", "//a//", "ünïcödé/温度", "$SYS", "%41", "a\x7fb", strings.Repeat("k", 300),
			strings.Repeat("long/", 1000), strings.Repeat("x", state.MaxKeyBytes)}
		for i, key := range keys {
			b.put(bucket, key, fmt.Sprint(i))
		}
		for i, key := range keys {
			b.eventually(fmt.Sprintf("get key of %d bytes", len(key)), func() (string, bool) {
				r, err := bucket.Get(b.ctx, key)
				return fmt.Sprint(err), err == nil && string(r.Value) == fmt.Sprint(i) && r.Key == key
			})
		}
		records, err := bucket.List(b.ctx, "long/long/")
		if err != nil || len(records) != 1 {
			b.Errorf("list of a prefix of a long key: %d records, error %v, want 1", len(records), err)
		}
		for _, key := range []string{"", "a\x00b", strings.Repeat("x", state.MaxKeyBytes+1)} {
			if _, err := bucket.Put(b.ctx, key, nil); err == nil {
				b.Errorf("put under a key of %d bytes that is none succeeded", len(key))
			}
		}
	}},
	{"a write whose context is done is not made", func(b *bench) {
		bucket := b.bucket()
		ctx, cancel := contextDone()
		defer cancel()
		if _, err := bucket.Put(ctx, "a", nil); err == nil {
			b.Fatal("put with a context that is done succeeded")
		}
		for _, r := range bucket.Apply(ctx, []state.Write{{Key: "a"}}) {
			if r.Err == nil {
				b.Fatal("apply with a context that is done succeeded")
			}
		}
		if _, err := bucket.Create(b.ctx, "a", []byte("first")); err != nil && !errors.Is(err, state.ErrUnknown) {
			b.Fatalf("create after the writes that were not made: %v", err)
		}
	}},
	{"an expired record is absent, and no watch says so", func(b *bench) {
		if b.MembersTTL == 0 {
			b.Skip("the store's members do not expire")
		}
		bucket, err := b.store.Bucket(b.ctx, state.Members)
		if err != nil {
			b.Fatal(err)
		}
		first := b.put(bucket, "a", "1")
		f := b.follow(bucket, "")
		f.untilReady()
		b.Patience += b.MembersTTL
		b.absent(bucket, "a")
		b.conflict("update of an expired record", func() (uint64, error) { return bucket.Update(b.ctx, "a", nil, first) })
		second := b.must("create", func() (uint64, error) { return bucket.Create(b.ctx, "a", []byte("2")) })
		if second <= first {
			b.Fatalf("record made after the expiry has revision %d, the expired one %d", second, first)
		}
		if u, _ := f.next(); u.Revision != second {
			b.Fatalf("the watch says %+v, want revision %d and nothing before it", u, second)
		}
	}},
}
