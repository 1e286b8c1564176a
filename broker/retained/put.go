package retained

import (
	"context"
	"errors"
	"fmt"
	"time"

	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/value"
)

// wish is a value on its way into the bucket.
type wish struct {
	value    *value.Value // as asked for
	write    *value.Value // as it is written, encoded in data
	data     []byte
	revision uint64 // of the record it replaces; 0: there is none
	unknown  bool   // an earlier try may land yet
}

// pause is the wait before a write without a definite answer is tried again:
// doubling between these.
const (
	shortestPause = 5 * time.Millisecond
	longestPause  = 500 * time.Millisecond
)

// Put makes each value its topic's message, unless a newer one is there; of values
// of one topic in the batch, the newest counts. It tries until each is decided or
// ctx ends. On an error some may have been put; the same values may be put again.
func (r *Retained) Put(ctx context.Context, values []*value.Value) error {
	open := r.wishes(values)
	writes := make([]state.Write, 0, len(open))
	for wait := shortestPause; len(open) > 0; {
		writes = writes[:0]
		for _, w := range open {
			op := state.OpUpdate
			if w.revision == 0 {
				op = state.OpCreate
			}
			writes = append(writes, state.Write{Op: op, Key: w.value.Name, Value: w.data, Revision: w.revision})
		}
		left, unknown := open[:0], false
		for i, result := range r.bucket.Apply(ctx, writes) {
			w := open[i]
			done, err := r.settle(ctx, w, result)
			if err != nil {
				return fmt.Errorf("put retained message of %q: %w", w.value.Name, err)
			}
			if !done {
				left = append(left, w)
				unknown = unknown || w.unknown
			}
		}
		open = left
		if len(open) == 0 {
			break
		}
		if err := sleep(ctx, wait); err != nil {
			if unknown {
				err = fmt.Errorf("%w: %w", state.ErrUnknown, err)
			}
			return fmt.Errorf("put retained message of %q: %w", open[0].value.Name, err)
		}
		wait = min(2*wait, longestPause)
	}
	return nil
}

// wishes returns what of the values has to be written: one per topic, and none
// where a newer value is known to be there.
func (r *Retained) wishes(values []*value.Value) []*wish {
	newest := make(map[string]int, len(values))
	var open []*wish
	for _, v := range values {
		if i, found := newest[v.Name]; found {
			// Values without a Position, removals, stand where they were put.
			if v.Position == 0 || v.Position >= open[i].value.Position {
				open[i].value = v
			}
			continue
		}
		newest[v.Name] = len(open)
		open = append(open, &wish{value: v})
	}
	left := open[:0]
	for _, w := range open {
		known := r.known(w.value.Name)
		if !w.aim(known.value, known.revision) {
			left = append(left, w)
		}
	}
	return left
}

// aim directs the wish at the record as it stands; done says that nothing is left
// to do, since the record holds this value or a newer one.
func (w *wish) aim(there *value.Value, revision uint64) (done bool) {
	v := w.value
	if v.Position == 0 && len(v.Payload) == 0 {
		// The removal of what is there: values up to that one stay away.
		removal := *v
		if there != nil {
			if len(there.Payload) == 0 {
				return true
			}
			removal.Position = there.Position
		}
		removal.Received = time.Now().UnixNano()
		w.write, w.data = &removal, removal.AppendRecord(nil)
	} else {
		if there != nil && v.Position != 0 && there.Position >= v.Position {
			return true
		}
		if w.data == nil {
			w.write, w.data = v, v.AppendRecord(nil)
		}
	}
	w.revision = revision
	return false
}

// settle takes in the result of a write.
func (r *Retained) settle(ctx context.Context, w *wish, result state.Result) (done bool, err error) {
	switch {
	case result.Err == nil:
		r.install(w.value.Name, w.write, result.Revision)
		return true, nil
	case errors.Is(result.Err, state.ErrUnknown):
		w.unknown = true
		return false, nil // the same write again: it may have landed
	case errors.Is(result.Err, state.ErrConflict):
		return r.lookAgain(ctx, w)
	default:
		return false, result.Err
	}
}

// lookAgain reads what stands in the way of a wish. The read may be stale: then the
// next write conflicts again.
func (r *Retained) lookAgain(ctx context.Context, w *wish) (done bool, err error) {
	record, err := r.bucket.Get(ctx, w.value.Name)
	if errors.Is(err, state.ErrNotFound) {
		return w.aim(nil, 0), nil
	}
	if errors.Is(err, state.ErrUnknown) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	there := decode(record)
	r.install(record.Key, there, record.Revision)
	w.unknown = false
	return w.aim(there, record.Revision), nil
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
