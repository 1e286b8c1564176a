package statetest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"maestrohub.io/uns/broker/state"
)

// append appends a batch. A batch whose outcome is unknown cannot be told from
// one that landed without reading, so the suite reads.
func (b *bench) append(log state.Log, records ...string) uint64 {
	b.Helper()
	batch := make([][]byte, len(records))
	for i, r := range records {
		batch[i] = []byte(r)
	}
	return b.must(fmt.Sprintf("append of %d records", len(records)), func() (uint64, error) { return log.Append(b.ctx, batch) })
}

func (b *bench) bounds(log state.Log) (first, last uint64) {
	b.Helper()
	first, last, err := log.Bounds(b.ctx)
	if err != nil {
		b.Fatalf("bounds: %v", err)
	}
	return first, last
}

// readAll reads everything from a sequence on, in reads of various sizes, and
// checks the order.
func (b *bench) readAll(log state.Log, from uint64) []state.Entry {
	b.Helper()
	var all []state.Entry
	for {
		entries, err := log.Read(b.ctx, from, 1+rand.IntN(700), nil)
		if err != nil {
			b.Fatalf("read from %d: %v", from, err)
		}
		if len(entries) == 0 {
			return all
		}
		b.inOrder(entries, from)
		all = append(all, entries...)
		from = entries[len(entries)-1].Sequence + 1
	}
}

func (b *bench) inOrder(entries []state.Entry, from uint64) {
	b.Helper()
	for i, e := range entries {
		if e.Sequence < from {
			b.Fatalf("entry %d has sequence %d, want at least %d", i, e.Sequence, from)
		}
		from = e.Sequence + 1
		if i > 0 && e.Time.Before(entries[i-1].Time) && entries[i-1].Time.Sub(e.Time) > time.Minute {
			b.Fatalf("entry %d of %v is older than the one before, of %v", e.Sequence, e.Time, entries[i-1].Time)
		}
	}
}

var logTests = []test{
	{"a new log is empty", func(b *bench) {
		log := b.log()
		if first, last := b.bounds(log); first != 1 || last != 0 {
			b.Fatalf("bounds of a new log: %d, %d, want 1, 0", first, last)
		}
		if entries, err := log.Read(b.ctx, 0, 10, nil); err != nil || len(entries) != 0 {
			b.Fatalf("read of a new log: %v, error %v", entries, err)
		}
	}},
	{"what is known of a log lies behind what was appended and before what will be", func(b *bench) {
		log := b.log()
		for range 3 {
			known, err := state.Known(b.ctx, log)
			if err != nil {
				b.Fatal(err)
			}
			next := b.append(log, "one", "two", "three")
			if next < known {
				b.Fatalf("appended at %d, where the log was known to go on from %d", next, known)
			}
			if known, err = state.Known(b.ctx, log); err != nil || known <= next+2 {
				b.Fatalf("after an append of three at %d the log is known to go on from %d, error %v", next, known, err)
			}
		}
	}},
	{"a batch stands in the log as it was appended", func(b *bench) {
		log := b.log()
		before := time.Now()
		record := []byte("three")
		one := b.append(log, "one")
		two := b.must("append", func() (uint64, error) { return log.Append(b.ctx, [][]byte{[]byte("two"), record, {}}) })
		copy(record, "xxxxx")
		if one == 0 || two <= one {
			b.Fatalf("batches begin at %d and %d", one, two)
		}
		b.eventually("the log's four entries", func() (string, bool) {
			entries := b.readAll(log, 0)
			return fmt.Sprint(entries), len(entries) == 4
		})
		entries := b.readAll(log, 0)
		for i, want := range []state.Entry{{Sequence: one, Data: []byte("one")}, {Sequence: two, Data: []byte("two")},
			{Sequence: two + 1, Data: []byte("three")}, {Sequence: two + 2}} {
			e := entries[i]
			if e.Sequence != want.Sequence || !bytes.Equal(e.Data, want.Data) {
				b.Errorf("entry %d is %d %q, want %d %q", i, e.Sequence, e.Data, want.Sequence, want.Data)
			}
			if d := e.Time.Sub(before); d < -time.Minute || d > time.Minute {
				b.Errorf("entry %d has time %v, appended at %v", i, e.Time, before)
			}
		}
		if !entries[1].Time.Equal(entries[2].Time) && entries[2].Time.Sub(entries[1].Time) > time.Second {
			b.Errorf("one batch has the times %v and %v", entries[1].Time, entries[2].Time)
		}
		if last := entries[len(entries)-1].Sequence; b.lastOf(log) != last {
			b.Errorf("last of bounds is %d, the last entry %d", b.lastOf(log), last)
		}
	}},
	{"a position keeps its time", func(b *bench) {
		log := b.log()
		at := b.append(log, "here")
		var first time.Time
		for range 3 {
			b.append(log, "more")
			b.eventually("the entry", func() (string, bool) {
				entries, err := log.Read(b.ctx, at, 1, nil)
				if err != nil || len(entries) != 1 {
					return fmt.Sprint(entries, err), false
				}
				if !first.IsZero() && !entries[0].Time.Equal(first) {
					b.Fatalf("entry %d had time %v, now %v", at, first, entries[0].Time)
				}
				first = entries[0].Time
				return "", true
			})
		}
	}},
	{"reads append to what they are given and keep to max", func(b *bench) {
		log := b.log()
		first := b.append(log, "a", "b", "c", "d")
		b.eventually("all entries", func() (string, bool) { n := len(b.readAll(log, 0)); return fmt.Sprint(n), n == 4 })
		given := []state.Entry{{Sequence: 77}}
		entries, err := log.Read(b.ctx, first+1, 2, given)
		if err != nil || len(entries) != 3 || entries[0].Sequence != 77 || string(entries[1].Data) != "b" || string(entries[2].Data) != "c" {
			b.Fatalf("read of 2 from the second on: %v, error %v", entries, err)
		}
		if entries, err = log.Read(b.ctx, first, 0, given); err != nil || len(entries) != 1 {
			b.Fatalf("read of 0: %v, error %v", entries, err)
		}
		if entries, err = log.Read(b.ctx, first+1000, 10, nil); err != nil || len(entries) != 0 {
			b.Fatalf("read beyond the end: %v, error %v", entries, err)
		}
	}},
	{"a batch has 1 to MaxAppend records", func(b *bench) {
		log := b.log()
		if _, err := log.Append(b.ctx, nil); err == nil {
			b.Error("append of nothing succeeded")
		}
		if _, err := log.Append(b.ctx, make([][]byte, state.MaxAppend+1)); err == nil {
			b.Errorf("append of %d records succeeded", state.MaxAppend+1)
		}
		if entries := b.readAll(log, 0); len(entries) != 0 {
			b.Errorf("refused batches left %d entries", len(entries))
		}
		b.must("append", func() (uint64, error) { return log.Append(b.ctx, make([][]byte, state.MaxAppend)) })
	}},
	{"batches of many writers are whole and each writer's in order", func(b *bench) {
		const writers, batches = 5, 40
		log := b.log()
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				for i := range batches {
					var records []string
					size := 1 + (w*7+i*3)%20
					for k := range size {
						records = append(records, fmt.Sprintf("%d %d %d %d", w, i, k, size))
					}
					b.append(log, records...)
				}
			})
		}
		wg.Wait()
		want := 0
		for w := range writers {
			for i := range batches {
				want += 1 + (w*7+i*3)%20
			}
		}
		var entries []state.Entry
		b.eventually("all entries", func() (string, bool) {
			entries = b.readAll(log, 0)
			return fmt.Sprintf("%d of %d", len(entries), want), len(entries) >= want
		})
		next := make([]int, writers)
		for at := 0; at < len(entries); {
			var w, i, k, size int
			if _, err := fmt.Sscan(string(entries[at].Data), &w, &i, &k, &size); err != nil {
				b.Fatalf("entry %q: %v", entries[at].Data, err)
			}
			if k != 0 || i > next[w] {
				b.Fatalf("entry %d is %q, want the beginning of batch %d of writer %d", entries[at].Sequence, entries[at].Data, next[w], w)
			}
			for k := range size {
				e := entries[at+k]
				if e.Sequence != entries[at].Sequence+uint64(k) || string(e.Data) != fmt.Sprintf("%d %d %d %d", w, i, k, size) {
					b.Fatalf("record %d of batch %d of writer %d is %d %q", k, i, w, e.Sequence, e.Data)
				}
			}
			next[w] = max(next[w], i+1) // an unknown outcome may have left it twice
			at += size
		}
	}},
	{"workspaces have logs of their own", func(b *bench) {
		one, two := b.log(), b.log()
		b.append(one, "of one")
		if entries := b.readAll(two, 0); len(entries) != 0 {
			b.Fatalf("the other log shows %v", entries)
		}
	}},
	{"beyond its bytes a log drops the oldest entries, and only them", func(b *bench) {
		if b.LogMaxBytes == 0 {
			b.Skip("the store's logs have no bound in bytes")
		}
		log := b.log()
		size := max(int(b.LogMaxBytes/200), 64)
		var last uint64
		total := int(3 * b.LogMaxBytes / int64(size))
		for i := 0; i < total; i += 10 {
			var records []string
			for k := range 10 {
				records = append(records, fmt.Sprintf("%-*d", size, i+k))
			}
			last = b.append(log, records...) + 9
		}
		b.eventually("the log within its bound", func() (string, bool) {
			entries := b.readAll(log, 0)
			var bytes int64
			for _, e := range entries {
				bytes += int64(len(e.Data))
			}
			return fmt.Sprintf("%d entries of %d bytes, bound %d", len(entries), bytes, b.LogMaxBytes),
				bytes <= b.LogMaxBytes && len(entries) > 0 && entries[len(entries)-1].Sequence == last
		})
		entries := b.readAll(log, 0)
		if kept, least := int64(len(entries))*(int64(size)+b.LogOverhead), b.LogMaxBytes-10*(int64(size)+b.LogOverhead); kept < least {
			b.Errorf("the log keeps %d entries, about %d bytes with their overhead, though %d fit", len(entries), kept, b.LogMaxBytes)
		}
		first, end := b.bounds(log)
		if first != entries[0].Sequence || end != last || first == 1 {
			b.Errorf("bounds %d, %d, entries from %d to %d", first, end, entries[0].Sequence, last)
		}
		from, err := log.Read(b.ctx, 1, 1, nil)
		if err != nil || len(from) != 1 || from[0].Sequence != first {
			b.Errorf("read from a dropped entry on: %v, error %v, want the first available, %d", from, err, first)
		}
		if _, err := log.Append(b.ctx, [][]byte{make([]byte, b.LogMaxBytes+1)}); !errors.Is(err, state.ErrQuota) {
			b.Errorf("append of a record larger than the log: error %v, want ErrQuota", err)
		}
	}},
	{"a log that knows its size grows with what is appended", func(b *bench) {
		log := b.log()
		sized, ok := log.(state.Sizer)
		if !ok {
			b.Skip("the store's logs do not know their size")
		}
		size := func() int64 {
			b.Helper()
			n, err := sized.Size(b.ctx)
			if err != nil {
				b.Fatalf("size: %v", err)
			}
			return n
		}
		before := size()
		b.append(log, string(make([]byte, 700)), string(make([]byte, 800)))
		b.eventually("1,500 bytes more, and not twice that", func() (string, bool) {
			n := size() - before
			return fmt.Sprint(n), n >= 1500 && n < 3000
		})
	}},
	{"beyond its age an entry is dropped", func(b *bench) {
		if b.LogMaxAge == 0 || b.LogMaxAge > time.Minute {
			b.Skip("the store's logs have no bound in time that a test can wait for")
		}
		log := b.log()
		b.append(log, "old", "old")
		b.eventually("the entries", func() (string, bool) { n := len(b.readAll(log, 0)); return fmt.Sprint(n), n == 2 })
		b.Patience += b.LogMaxAge
		b.eventually("no entry", func() (string, bool) { n := len(b.readAll(log, 0)); return fmt.Sprint(n), n == 0 })
		_, last := b.bounds(log)
		if next := b.append(log, "new"); next <= last {
			b.Errorf("after the log emptied an entry has sequence %d, the last was %d", next, last)
		}
		b.eventually("the new entry", func() (string, bool) {
			entries := b.readAll(log, 0)
			return fmt.Sprint(entries), len(entries) == 1 && string(entries[0].Data) == "new"
		})
	}},
}

func (b *bench) lastOf(log state.Log) uint64 {
	_, last := b.bounds(log)
	return last
}
