package pebble

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"maestrohub.io/uns/broker/historian"
	"maestrohub.io/uns/broker/value"
)

// benchTopics is how many topics the values of a benchmark are spread over.
const benchTopics = 1000

// feed makes batches of 256-byte values, the timestamps in the order of time. It
// costs next to nothing, so that what is measured is the store.
type feed struct {
	values []*value.Value
	rowID  uint64
	step   int
	timed  bool
}

func newFeed(size int, timed bool, n int) *feed {
	f := &feed{timed: timed, rowID: uint64(n) << 40, step: n * 7919}
	for range size {
		f.values = append(f.values, &value.Value{
			Workspace: "acme", Publisher: fmt.Sprintf("press-%d", n), Timed: timed, Quality: value.Good, Kind: value.Opaque})
	}
	return f
}

func (f *feed) next() []*value.Value {
	now := time.Now().UnixNano()
	for i, v := range f.values {
		f.step++
		v.Topic, v.Body = topicNames[f.step*31%benchTopics], bodies[f.step*17%len(bodies)]
		v.Timestamp, v.Received, v.Payload, v.Position = now+int64(i), now, v.Body, 0
		if !f.timed {
			f.rowID++
			v.RowID = f.rowID
		}
	}
	return f.values
}

// bodies are numbers and names, which compress as such do.
var bodies = func() (bodies [4099][]byte) {
	random := rand.New(rand.NewPCG(1, 1))
	words := []string{"temperature", "pressure", "state", "running", "21.5", "1013", "value", "{", "}", ":", ",", "0.", "true"}
	for i := range bodies {
		for len(bodies[i]) < 256 {
			if random.IntN(2) == 0 {
				bodies[i] = append(bodies[i], words[random.IntN(len(words))]...)
			} else {
				bodies[i] = fmt.Appendf(bodies[i], "%d", random.Uint32())
			}
		}
		bodies[i] = bodies[i][:256:256]
	}
	return bodies
}()

var topicNames = func() (names []string) {
	for i := range benchTopics {
		names = append(names, fmt.Sprintf("site-%d/line-%d/cell-%d/sensor-%d/value", i%4, i%20, i%100, i))
	}
	return names
}()

// BenchmarkAppend reports values/s, the processor time per value of the whole
// process, flushes and compactions included, and how long an Append takes.
func BenchmarkAppend(b *testing.B) {
	for _, timed := range []bool{false, true} {
		for _, writers := range []int{1, 4} {
			for _, size := range []int{1, 10, 100, 1000} {
				b.Run(fmt.Sprintf("timed=%v/writers=%d/batch=%d", timed, writers, size), func(b *testing.B) {
					benchmarkAppend(b, timed, writers, size)
				})
			}
		}
	}
}

func benchmarkAppend(b *testing.B, timed bool, writers, size int) {
	h := open(b, filepath.Join(b.TempDir(), "history"), Options{})
	defer func() {
		if err := h.Close(); err != nil {
			b.Error(err)
		}
	}()
	b.ReportAllocs()
	b.ResetTimer()
	start, cpu := time.Now(), processTime()
	durations := make([][]time.Duration, writers)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			f := newFeed(size, timed, w)
			for range b.N / writers {
				values := f.next()
				began := time.Now()
				if err := h.Append(context.Background(), values); err != nil {
					b.Error(err)
					return
				}
				durations[w] = append(durations[w], time.Since(began))
			}
		})
	}
	wg.Wait()
	elapsed := time.Since(start)
	b.StopTimer()
	values := float64(b.N / writers * writers * size)
	if values == 0 {
		return
	}
	b.ReportMetric(values/elapsed.Seconds(), "values/s")
	b.ReportMetric(float64(processTime()-cpu)/values, "cpu-ns/value")
	b.ReportMetric(quantile(slices.Concat(durations...), 0.5), "p50-us")
	b.ReportMetric(quantile(slices.Concat(durations...), 0.99), "p99-us")
}

// processTime returns the processor time this process has used.
func processTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func quantile(d []time.Duration, q float64) float64 {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return float64(d[int(float64(len(d)-1)*q)].Nanoseconds()) / 1000
}

// BenchmarkFloor is what the disk allows: one append to a file and one fdatasync of
// it, with as many bytes as a batch has.
func BenchmarkFloor(b *testing.B) {
	for _, size := range []int{1, 10, 100, 1000} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			file, err := os.Create(filepath.Join(b.TempDir(), "floor"))
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = file.Close() }()
			data := make([]byte, 300*size)
			var durations []time.Duration
			cpu := processTime()
			for b.Loop() {
				began := time.Now()
				if _, err := file.Write(data); err != nil {
					b.Fatal(err)
				}
				if err := syscall.Fdatasync(int(file.Fd())); err != nil {
					b.Fatal(err)
				}
				durations = append(durations, time.Since(began))
			}
			b.ReportMetric(float64(processTime()-cpu)/float64(b.N*size), "cpu-ns/value")
			b.ReportMetric(quantile(durations, 0.5), "p50-us")
			b.ReportMetric(quantile(durations, 0.99), "p99-us")
		})
	}
}

// BenchmarkRead reads pages of 1,000 rows of one topic, and of all topics.
func BenchmarkRead(b *testing.B) {
	h := open(b, filepath.Join(b.TempDir(), "history"), Options{})
	defer func() { _ = h.Close() }()
	f := newFeed(1000, true, 0)
	for range 300 {
		if err := h.Append(context.Background(), f.next()); err != nil {
			b.Fatal(err)
		}
	}
	for name, filter := range map[string]string{"topic": topicNames[7], "all": "#", "level": "+/+/cell-7/#"} {
		for _, newest := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/newest=%v", name, newest), func(b *testing.B) {
				rows := 0
				for b.Loop() {
					p, err := h.Read(context.Background(), historian.Query{
						Workspace: "acme", Topic: filter, To: 1<<63 - 1, Newest: newest, Limit: 1000})
					if err != nil {
						b.Fatal(err)
					}
					rows += len(p.Rows)
				}
				b.ReportMetric(float64(rows)/float64(b.N), "rows/page")
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(max(rows, 1)), "ns/row")
			})
		}
	}
}
