package pebble

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"

	"maestrohub.io/uns/broker/historian"
	"maestrohub.io/uns/broker/value"
)

// Bounds of what is stored.
const (
	maxTimestamp = math.MaxInt64 - 1 // 2262-04-11
	maxTopic     = 65_535            // [MQTT-1.5.4-1]: a UTF-8 string's greatest length
	maxBody      = 268_435_455       // the greatest MQTT packet
	maxBatch     = 65_536            // values of one Append
	maxBatchSize = 1 << 30           // bytes of one Append
)

// request is one Append, encoded: what the writer needs once the caller may have
// gone. The caller encodes, so that the one writer has less to do.
type request struct {
	rows      []pending
	data      []byte // the rows, one after the other
	positions []uint64
	scratch   []byte
	// drop and forget are set instead of rows by retention.
	drop   []*segment
	forget []topicName

	err  error
	done chan struct{} // capacity 1
}

// pending is one row of a request.
type pending struct {
	workspace, topic string
	timestamp        int64
	identity         [identitySize]byte
	from, to         int // of the row in data
}

var requests = sync.Pool{New: func() any { return &request{done: make(chan struct{}, 1)} }}

// recycle makes the request ready for its next use. Only a request the writer is
// done with may be recycled.
func (r *request) recycle() {
	if cap(r.data) > 1<<20 {
		r.data = nil
	}
	clear(r.rows) // let go of the topics
	*r = request{rows: r.rows[:0], data: r.data[:0], positions: r.positions[:0], scratch: r.scratch[:0], done: r.done}
	requests.Put(r)
}

// add encodes a value.
func (r *request) add(v *value.Value) error {
	if err := storable(v); err != nil {
		return err
	}
	p := pending{workspace: v.Workspace, topic: v.Topic, timestamp: v.Timestamp, from: len(r.data)}
	p.identity, r.scratch = identity(v, r.scratch)
	r.data = appendRow(r.data, v)
	p.to = len(r.data)
	r.rows = append(r.rows, p)
	return nil
}

// storable says what is wrong with a value that can never be stored.
func storable(v *value.Value) error {
	switch {
	case v == nil:
		return errors.New("no value")
	case v.Workspace == "" || strings.IndexByte(v.Workspace, 0) >= 0:
		return fmt.Errorf("workspace %q: a name without zero bytes is needed", v.Workspace)
	case v.Topic == "" || strings.IndexByte(v.Topic, 0) >= 0:
		return fmt.Errorf("topic %q: a topic without zero bytes is needed", v.Topic)
	case len(v.Workspace)+len(v.Topic) > maxTopic:
		return fmt.Errorf("workspace and topic of %d bytes, at most %d", len(v.Workspace)+len(v.Topic), maxTopic)
	case len(v.Publisher) > maxTopic:
		return fmt.Errorf("publisher of %d bytes, at most %d", len(v.Publisher), maxTopic)
	case v.Timestamp < 0 || v.Timestamp > maxTimestamp:
		return fmt.Errorf("timestamp %d ns, allowed 0 (1970) to %d (2262)", v.Timestamp, int64(maxTimestamp))
	case len(v.Body) > maxBody:
		return fmt.Errorf("body of %d bytes, at most %d", len(v.Body), maxBody)
	}
	return nil
}

// Append implements historian.Historian.
func (h *Historian) Append(ctx context.Context, values []*value.Value) error {
	if len(values) == 0 {
		return nil
	}
	if len(values) > maxBatch {
		return fmt.Errorf("append %d values: at most %d in a batch", len(values), maxBatch)
	}
	r := requests.Get().(*request)
	for i, v := range values {
		err := r.add(v)
		if err == nil && len(r.data) > maxBatchSize {
			err = fmt.Errorf("the batch is larger than %d bytes", maxBatchSize)
		}
		if err != nil {
			r.recycle()
			return &historian.ValueError{Index: i, Err: err}
		}
	}
	if finished, err := h.submit(ctx, r); !finished {
		return err // the writer may still have the request
	}
	err := r.err
	if err == nil {
		for i, position := range r.positions {
			values[i].Position = position
		}
	}
	r.recycle()
	return err
}

// Check implements historian.Historian: it takes the way of an Append, a sync
// included, without storing anything.
func (h *Historian) Check(ctx context.Context) error {
	r := requests.Get().(*request)
	finished, err := h.submit(ctx, r)
	if finished {
		err = r.err
		r.recycle()
	}
	return err
}

// submit hands a request to the writer and waits for it. finished says that the
// writer is done with it and the outcome is in it.
func (h *Historian) submit(ctx context.Context, r *request) (finished bool, err error) {
	g, err := h.writable()
	if err != nil {
		return false, err
	}
	if err := ctx.Err(); err != nil {
		return false, fmt.Errorf("append to history: %w", err)
	}
	if err := g.submit(ctx, r); err != nil {
		return false, err
	}
	return true, nil
}

func (g *generation) submit(ctx context.Context, r *request) error {
	select {
	case g.queue <- r:
	case <-g.failed:
		return g.unavailable()
	case <-g.stop:
		return g.unavailable()
	case <-ctx.Done():
		return fmt.Errorf("append to history: %w", ctx.Err())
	}
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("append to history: %w", ctx.Err())
	case <-g.failed:
	case <-g.ended:
	}
	select {
	case <-r.done: // it was durable before the end
		return nil
	default:
		return g.unavailable()
	}
}

// unavailable returns the error of a generation that ended.
func (g *generation) unavailable() error {
	if cause := g.cause.Load(); cause != nil {
		return newTrouble(g.dir, *cause).said
	}
	return newTrouble(g.dir, errClosed).said
}
