package timescale

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"maestrohub.io/uns/broker/historian"
	"maestrohub.io/uns/broker/value"
)

// keepAppending appends batches from several writers until stop is closed, each
// again until it is acknowledged, as a lane does. It returns the acknowledged bodies
// with their Positions once all writers have ended.
func keepAppending(t *testing.T, h *Historian, writers int, stop <-chan struct{}) (wait func() map[string]uint64) {
	t.Helper()
	base := time.Now()
	var mu sync.Mutex
	acknowledged := map[string]uint64{}
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			last := uint64(0)
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				var batch []*value.Value
				for i := range 1 + n%20 {
					body := fmt.Sprintf("%d-%d-%d", w, n, i)
					v := at(fmt.Sprintf("writer/%d", w), base.Add(time.Duration(n*100+i)*time.Microsecond), body)
					if i%2 == 1 {
						v.Timed, v.RowID = false, uint64(w)<<32|uint64(n)<<8|uint64(i)
					}
					batch = append(batch, v)
				}
				if !appendUntilStored(t, h, batch) {
					return
				}
				mu.Lock()
				for _, v := range batch {
					if v.Position <= last {
						t.Errorf("writer %d: Position %d after %d", w, v.Position, last)
					}
					last = v.Position
					acknowledged[string(v.Body)] = v.Position
				}
				mu.Unlock()
			}
		})
	}
	return func() map[string]uint64 {
		wg.Wait()
		return acknowledged
	}
}

// appendUntilStored repeats a batch until it is stored. Each try has a second, so
// that some are given up on with their outcome unknown.
func appendUntilStored(t *testing.T, h *Historian, batch []*value.Value) bool {
	for {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		err := h.Append(ctx, batch)
		cancel()
		switch {
		case err == nil:
			return true
		case !errors.Is(err, historian.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded):
			t.Errorf("append: %v", err)
			return false
		}
	}
}

// expectExactly checks that the rows are the acknowledged values, each once, at the
// Position its writer was told.
func expectExactly(t *testing.T, h *Historian, acknowledged map[string]uint64) {
	t.Helper()
	stored := map[string]uint64{}
	q := historian.Query{Workspace: "acme", Topic: "#", From: 0, To: 1<<63 - 1, Limit: historian.MaxLimit}
	for {
		page, err := h.Read(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Rows {
			if _, twice := stored[string(r.Body)]; twice {
				t.Errorf("%s is stored twice", r.Body)
			}
			stored[string(r.Body)] = r.Position
		}
		if q.After = page.Next; q.After == "" {
			break
		}
	}
	for body, position := range acknowledged {
		if stored[body] != position {
			t.Errorf("%s was acknowledged at Position %d, stored is %d", body, position, stored[body])
		}
	}
	if len(stored) != len(acknowledged) {
		t.Errorf("%d rows, %d values were acknowledged", len(stored), len(acknowledged))
	}
	t.Logf("%d values", len(acknowledged))
}

// untilMore waits until more values are stored than there are now.
func untilMore(t *testing.T, h *Historian, more int) {
	t.Helper()
	count := func() int { return len(bodies(t, h, "#")) }
	from := count()
	for count() < from+more {
		if t.Failed() {
			t.FailNow()
		}
	}
}
