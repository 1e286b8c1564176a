package timescale

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"maestrohub.io/uns/broker/value"
)

// BenchmarkAppend stores values of 256 bytes of 1,000 topics in batches of several
// sizes from one writer or two, as lanes do: the next batch goes out when the one
// before is acknowledged.
func BenchmarkAppend(b *testing.B) {
	for _, writers := range []int{1, 2} {
		for _, size := range []int{1, 10, 100, 1000} {
			b.Run(fmt.Sprintf("writers=%d/batch=%d", writers, size), func(b *testing.B) {
				h := open(b, database(b, shared), Options{})
				next := stream(b, h, size)
				b.ResetTimer()
				start := time.Now()
				inTurns(b, writers, func() {
					if err := h.Append(b.Context(), next()); err != nil {
						b.Error(err)
					}
				})
				b.ReportMetric(float64(b.N*size)/time.Since(start).Seconds(), "values/s")
			})
		}
	}
}

// inTurns runs f b.N times on as many goroutines as there are writers.
func inTurns(b *testing.B, writers int, f func()) {
	var left atomic.Int64
	left.Store(int64(b.N))
	done := make(chan struct{})
	for range writers {
		go func() {
			for left.Add(-1) >= 0 {
				f()
			}
			done <- struct{}{}
		}()
	}
	for range writers {
		<-done
	}
}

// stream returns a source of batches; the topics have their numbers already.
func stream(b *testing.B, h *Historian, size int) func() []*value.Value {
	body := `{"v":` + strings.Repeat("1", 250) + `}`
	base := time.Now()
	var n atomic.Int64
	make1 := func() *value.Value {
		i := n.Add(1)
		return at(fmt.Sprintf("line/%d/machine/%d/temperature", i%10, i%1000), base.Add(time.Duration(i)*time.Microsecond), body)
	}
	var first []*value.Value
	for range 1000 {
		first = append(first, make1())
	}
	mustAppend(b, h, first...)
	return func() []*value.Value {
		batch := make([]*value.Value, size)
		for i := range batch {
			batch[i] = make1()
		}
		return batch
	}
}
