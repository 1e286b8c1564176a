package jetstream_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/state/jetstream"
)

// BenchmarkAppend appends batches of 256 B records to one log of three copies,
// one batch after the other by each writer.
func BenchmarkAppend(b *testing.B) {
	for _, shape := range []struct{ writers, records int }{{1, 1}, {1, 100}, {1, 999}, {8, 100}, {64, 10}} {
		b.Run(fmt.Sprintf("writers=%d/records=%d", shape.writers, shape.records), func(b *testing.B) {
			log, err := openFor(b).Log(b.Context(), "ws")
			if err != nil {
				b.Fatal(err)
			}
			batch := make([][]byte, shape.records)
			for i := range batch {
				batch[i] = make([]byte, 256)
			}
			var wg sync.WaitGroup
			work := make(chan struct{})
			for range shape.writers {
				wg.Go(func() {
					for range work {
						if _, err := log.Append(b.Context(), batch); err != nil {
							b.Error(err)
						}
					}
				})
			}
			b.ResetTimer()
			for range b.N {
				work <- struct{}{}
			}
			close(work)
			wg.Wait()
			b.ReportMetric(float64(b.N*shape.records)/b.Elapsed().Seconds(), "records/s")
		})
	}
}

// BenchmarkRead reads a log from its beginning.
func BenchmarkRead(b *testing.B) {
	log, err := openFor(b).Log(b.Context(), "ws")
	if err != nil {
		b.Fatal(err)
	}
	batch := make([][]byte, 100)
	for i := range batch {
		batch[i] = make([]byte, 256)
	}
	for range 1000 {
		if _, err := log.Append(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	b.ResetTimer()
	read := 0
	var entries []state.Entry
	for range b.N {
		for from := uint64(0); ; {
			if entries, err = log.Read(b.Context(), from, state.MaxAppend, entries[:0]); err != nil {
				b.Fatal(err)
			}
			if len(entries) == 0 {
				break
			}
			read += len(entries)
			from = entries[len(entries)-1].Sequence + 1
		}
	}
	b.ReportMetric(float64(read)/b.Elapsed().Seconds(), "records/s")
}

// BenchmarkUpdate is a conditional write after the other, and many at once.
func BenchmarkUpdate(b *testing.B) {
	for _, parallel := range []int{1, 64} {
		b.Run(fmt.Sprintf("parallel=%d", parallel), func(b *testing.B) {
			bucket, err := openFor(b).Bucket(b.Context(), state.SessionState)
			if err != nil {
				b.Fatal(err)
			}
			var wg sync.WaitGroup
			var mu sync.Mutex
			var latencies []time.Duration
			work := make(chan struct{})
			for i := range parallel {
				wg.Go(func() {
					key := fmt.Sprint("key-", i)
					revision, err := bucket.Create(b.Context(), key, make([]byte, 100))
					if err != nil {
						b.Error(err)
					}
					var own []time.Duration
					for range work {
						begin := time.Now()
						if revision, err = bucket.Update(b.Context(), key, make([]byte, 100), revision); err != nil {
							b.Error(err)
						}
						own = append(own, time.Since(begin))
					}
					mu.Lock()
					latencies = append(latencies, own...)
					mu.Unlock()
				})
			}
			b.ResetTimer()
			for range b.N {
				work <- struct{}{}
			}
			close(work)
			wg.Wait()
			slices.Sort(latencies)
			b.ReportMetric(float64(latencies[len(latencies)/2].Microseconds())/1000, "ms-p50")
			b.ReportMetric(float64(latencies[len(latencies)*99/100].Microseconds())/1000, "ms-p99")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
		})
	}
}

// BenchmarkApply makes writes of 100 keys at once.
func BenchmarkApply(b *testing.B) {
	bucket, err := openFor(b).Bucket(b.Context(), state.SessionState)
	if err != nil {
		b.Fatal(err)
	}
	writes := make([]state.Write, 100)
	for i := range writes {
		writes[i] = state.Write{Op: state.OpPut, Key: fmt.Sprint("key-", i), Value: make([]byte, 100)}
	}
	b.ResetTimer()
	for range b.N {
		for _, r := range bucket.Apply(b.Context(), writes) {
			if r.Err != nil {
				b.Fatal(r.Err)
			}
		}
	}
	b.ReportMetric(float64(b.N*len(writes))/b.Elapsed().Seconds(), "writes/s")
}

func openFor(b *testing.B) *jetstream.Store {
	s := sharedSite(b)
	return s.open(b, s.account(b), nil)
}
