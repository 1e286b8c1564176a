package memory_test

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/state/memory"
)

func openLog(t testing.TB, options memory.Options) (*memory.Store, state.Log) {
	t.Helper()
	s, err := memory.Open(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	log, err := s.Log(t.Context(), "ws")
	if err != nil {
		t.Fatal(err)
	}
	return s, log
}

func TestALogNobodyUsesGivesItsMemoryBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, log := openLog(t, memory.Options{LogMaxAge: time.Hour})
		heap := func() uint64 {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		before := heap()
		batch := make([][]byte, 100)
		for i := range batch {
			batch[i] = make([]byte, 1024)
		}
		for range 300 { // 30 MiB over five minutes
			if _, err := log.Append(t.Context(), batch); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if grown := heap() - before; grown < 29<<20 {
			t.Fatalf("30 MiB appended grew the heap by %d", grown)
		}
		time.Sleep(2 * time.Hour)
		if after := heap(); after > before+4<<20 {
			t.Fatalf("an emptied log keeps %d bytes", after-before)
		}
		if first, last, err := log.Bounds(t.Context()); err != nil || first != 30001 || last != 30000 {
			t.Fatalf("bounds of the emptied log: %d, %d, error %v", first, last, err)
		}
		s.Close()
	})
}

func TestEntriesReadStayValidAfterTheyWereDropped(t *testing.T) {
	_, log := openLog(t, memory.Options{LogMaxBytes: 4096})
	if _, err := log.Append(t.Context(), [][]byte{[]byte("kept by the reader")}); err != nil {
		t.Fatal(err)
	}
	entries, err := log.Read(t.Context(), 1, 1, nil)
	if err != nil || len(entries) != 1 {
		t.Fatal(entries, err)
	}
	filler := [][]byte{make([]byte, 1000)}
	for range 100 {
		if _, err := log.Append(t.Context(), filler); err != nil {
			t.Fatal(err)
		}
	}
	if string(entries[0].Data) != "kept by the reader" {
		t.Fatalf("the entry reads %q now", entries[0].Data)
	}
	// A reader that appends to what it got must not reach its neighbour.
	if cap(entries[0].Data) != len(entries[0].Data) {
		t.Fatal("an entry's slice reaches beyond its data")
	}
}

func TestReadingAllocatesNothing(t *testing.T) {
	_, log := openLog(t, memory.Options{LogMaxAge: time.Hour})
	batch := make([][]byte, 100)
	for i := range batch {
		batch[i] = make([]byte, 256)
	}
	for range 20 {
		if _, err := log.Append(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
	dst := make([]state.Entry, 0, 500)
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() { dst, _ = log.Read(ctx, 700, 500, dst[:0]) }); n != 0 {
		t.Fatalf("a read of 500 entries makes %v allocations", n)
	}
}

func BenchmarkAppend100x256(b *testing.B) {
	_, log := openLog(b, memory.Options{LogMaxBytes: 64 << 20, LogMaxAge: time.Hour})
	batch := make([][]byte, 100)
	for i := range batch {
		batch[i] = make([]byte, 256)
	}
	b.ReportAllocs()
	b.SetBytes(256 * 100)
	for b.Loop() {
		if _, err := log.Append(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*100/b.Elapsed().Seconds(), "records/s")
}

func BenchmarkAppendWithThreeTails(b *testing.B) {
	_, log := openLog(b, memory.Options{LogMaxBytes: 64 << 20, LogMaxAge: time.Hour})
	batch := make([][]byte, 100)
	for i := range batch {
		batch[i] = make([]byte, 256)
	}
	var wg sync.WaitGroup
	tails := make([]state.Tail, 3)
	for i := range tails {
		tails[i] = log.Tail(0)
		wg.Go(func() {
			for {
				if _, err := tails[i].Next(b.Context()); err != nil {
					return
				}
			}
		})
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := log.Append(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*100/b.Elapsed().Seconds(), "records/s")
	for _, t := range tails {
		t.Stop()
	}
	wg.Wait()
}

func BenchmarkRead500(b *testing.B) {
	_, log := openLog(b, memory.Options{LogMaxAge: time.Hour})
	batch := make([][]byte, 500)
	for i := range batch {
		batch[i] = make([]byte, 256)
	}
	for range 20 {
		if _, err := log.Append(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	var dst []state.Entry
	b.ReportAllocs()
	for b.Loop() {
		dst, _ = log.Read(b.Context(), 5000, 500, dst[:0])
	}
	b.ReportMetric(float64(b.N)*500/b.Elapsed().Seconds(), "entries/s")
}
