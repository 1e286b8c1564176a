package retained

import (
	"context"
	"time"

	"maestrohub.io/uns/broker/state"
)

const (
	// sweepEvery is how long an expired message may stay in the bucket. It is not
	// given out in that time.
	sweepEvery = time.Minute
	// sweepBatch bounds one sweep's write.
	sweepBatch = 1000
)

func (r *Retained) sweepUntil(ctx context.Context) {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			r.sweep(ctx, time.Now().UnixNano())
		}
	}
}

// sweep deletes what has expired, and removals so old that no older value can still
// be on its way. What fails is left for the next sweep, here or on another replica.
func (r *Retained) sweep(ctx context.Context, now int64) {
	var writes []state.Write
	r.mu.Lock()
	r.deleted, r.deletedBefore = make(map[string]uint64), r.deleted
	for name, e := range r.byName {
		if e.over(now) {
			writes = append(writes, state.Write{Op: state.OpDelete, Key: name, Revision: e.revision})
		}
	}
	r.mu.Unlock()
	for len(writes) > 0 && ctx.Err() == nil {
		n := min(len(writes), sweepBatch)
		for i, result := range r.bucket.Apply(ctx, writes[:n]) {
			if result.Err == nil {
				r.drop(writes[i].Key, result.Revision)
			}
		}
		writes = writes[n:]
	}
}

// over reports whether the record serves no purpose any more.
func (e *entry) over(now int64) bool {
	if e.value == nil {
		return false
	}
	if len(e.value.Payload) == 0 {
		return now-e.value.Received > int64(state.TombstoneAge)
	}
	return e.value.Expired(now)
}
