package statetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"maestrohub.io/uns/broker/state"
)

// next takes a tail's next entries within the suite's patience.
func (b *bench) next(tail state.Tail) []state.Entry {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, b.Patience)
	defer cancel()
	entries, err := tail.Next(ctx)
	if err != nil {
		b.Fatalf("next of the tail: %v", err)
	}
	if len(entries) == 0 || len(entries) > state.MaxAppend {
		b.Fatalf("next of the tail gave %d entries", len(entries))
	}
	return entries
}

var tailTests = []test{
	{"a tail gives every entry in order, slow or fast", func(b *bench) {
		const batches = 60
		log := b.log()
		done := make(chan []string)
		for delay := range 3 {
			go func() {
				tail := log.Tail(0)
				defer tail.Stop()
				var got []string
				var last uint64
				for len(got) == 0 || got[len(got)-1] != "end" {
					ctx, cancel := context.WithTimeout(b.ctx, b.Patience)
					entries, err := tail.Next(ctx)
					cancel()
					if err != nil {
						b.Errorf("next after %d entries: %v", len(got), err)
						break
					}
					for _, e := range entries {
						if e.Sequence <= last {
							b.Errorf("sequence %d after %d", e.Sequence, last)
						}
						last = e.Sequence
						got = append(got, string(e.Data))
					}
					pause := time.NewTimer(time.Duration(delay) * time.Millisecond)
					<-pause.C
				}
				done <- got
			}()
		}
		var want []string
		for i := range batches {
			var records []string
			for k := range 1 + i%30 {
				records = append(records, fmt.Sprintf("%d/%d", i, k))
			}
			b.append(log, records...)
			want = append(want, records...)
		}
		b.append(log, "end")
		want = append(want, "end")
		for range 3 {
			got := <-done
			// An unknown outcome may have left a batch twice: every wanted
			// entry is there, first appearances in order.
			at := 0
			for _, g := range got {
				if at < len(want) && g == want[at] {
					at++
				}
			}
			if at != len(want) {
				b.Errorf("a tail gave %d entries; missing or out of order from %q on", len(got), want[at])
			}
		}
	}},
	{"a tail begins where it is told", func(b *bench) {
		log := b.log()
		b.append(log, "a", "b")
		second := b.append(log, "c", "d")
		tail := log.Tail(second)
		defer tail.Stop()
		if entries := b.next(tail); string(entries[0].Data) != "c" {
			b.Fatalf("tail from %d begins with %q, want c", second, entries[0].Data)
		}
		ahead := log.Tail(b.lastOf(log) + 1)
		defer ahead.Stop()
		b.append(log, "e")
		if entries := b.next(ahead); string(entries[0].Data) != "e" {
			b.Fatalf("tail from the end begins with %q, want e", entries[0].Data)
		}
	}},
	{"a tail that fell behind what the log keeps goes on with the first available", func(b *bench) {
		if b.LogMaxBytes == 0 {
			b.Skip("the store's logs have no bound in bytes")
		}
		log := b.log()
		tail := log.Tail(0)
		defer tail.Stop()
		b.append(log, "seen")
		b.next(tail)
		record := fmt.Sprintf("%-*s", max(b.LogMaxBytes/20, 1), "x")
		var last uint64
		for range 60 {
			last = b.append(log, record)
		}
		var at uint64
		count := 0
		for at < last {
			for _, e := range b.next(tail) {
				if at > 0 && e.Sequence <= at {
					b.Fatalf("sequence %d after %d", e.Sequence, at)
				}
				at = e.Sequence
				count++
			}
		}
		if count < 10 {
			b.Fatalf("the tail gave %d entries of a log that keeps about 20", count)
		}
	}},
	{"waiting ends with the context, and the tail goes on after it", func(b *bench) {
		log := b.log()
		tail := log.Tail(0)
		defer tail.Stop()
		for range 3 {
			ctx, cancel := context.WithTimeout(b.ctx, 5*time.Millisecond)
			if entries, err := tail.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
				b.Fatalf("next of an empty log: %v, error %v, want the context's", entries, err)
			}
			cancel()
		}
		b.append(log, "a")
		if entries := b.next(tail); string(entries[0].Data) != "a" {
			b.Fatalf("tail gave %q, want a", entries[0].Data)
		}
	}},
	{"stopping a tail ends its waiting", func(b *bench) {
		tail := b.log().Tail(0)
		ended := make(chan error)
		go func() {
			_, err := tail.Next(b.ctx)
			ended <- err
		}()
		tail.Stop()
		tail.Stop()
		select {
		case err := <-ended:
			if !errors.Is(err, state.ErrClosed) {
				b.Fatalf("next of a stopped tail: %v, want ErrClosed", err)
			}
		case <-b.ctx.Done():
			b.Fatal("next of a stopped tail still waits")
		}
	}},
}
