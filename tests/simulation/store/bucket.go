package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"maestrohub.io/uns/broker/state"
)

// bucket implements state.Bucket over one connection.
type bucket struct {
	client *Client
	conn   *conn
	name   string
}

// Get implements state.Bucket.
func (b *bucket) Get(ctx context.Context, key string) (r state.Record, err error) {
	err = b.conn.read(ctx, "get "+b.name, func(stale bool, asOf time.Time) error {
		var err error
		if stale {
			r, err = b.client.server.get(b.name, key, asOf)
			return err
		}
		inner, err := b.client.server.bucket(b.name)
		if err == nil {
			r, err = inner.Get(context.Background(), key)
		}
		return err
	})
	return r, err
}

// Put implements state.Bucket.
func (b *bucket) Put(ctx context.Context, key string, value []byte) (uint64, error) {
	return b.write(ctx, state.Write{Op: state.OpPut, Key: key, Value: value})
}

// Create implements state.Bucket.
func (b *bucket) Create(ctx context.Context, key string, value []byte) (uint64, error) {
	return b.write(ctx, state.Write{Op: state.OpCreate, Key: key, Value: value})
}

// Update implements state.Bucket.
func (b *bucket) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	return b.write(ctx, state.Write{Op: state.OpUpdate, Key: key, Value: value, Revision: revision})
}

// Delete implements state.Bucket.
func (b *bucket) Delete(ctx context.Context, key string, revision uint64) (uint64, error) {
	return b.write(ctx, state.Write{Op: state.OpDelete, Key: key, Revision: revision})
}

func (b *bucket) write(ctx context.Context, w state.Write) (uint64, error) {
	r := b.Apply(ctx, []state.Write{w})[0]
	return r.Revision, r.Err
}

// Apply implements state.Bucket. The writes land together.
func (b *bucket) Apply(ctx context.Context, writes []state.Write) []state.Result {
	own := make([]state.Write, len(writes))
	over := make([]uint64, len(writes)) // what each create was sent over
	for i, w := range writes {
		own[i] = w
		own[i].Value = slices.Clone(w.Value)
		if w.Op == state.OpCreate {
			over[i] = b.client.server.standing(b.name, w.Key)
		}
	}
	var landed []state.Result // written where it lands, perhaps after this has returned; read once the answer is back
	err := b.refuse(writes)
	if err == nil {
		err = b.conn.write(ctx, "write "+b.name, true, func(waited bool) {
			if waited {
				over = nil
			}
			landed = b.client.server.land(b.conn, b.name, own, over)
		})
	}
	if err == nil {
		return landed
	}
	results := make([]state.Result, len(writes))
	for i := range results {
		results[i].Err = fmt.Errorf("%v %q in %s: %w", own[i].Op, own[i].Key, b.name, err)
	}
	return results
}

// refuse is now and then the answer of a leader that does not know that it was
// deposed: a conflict where there is none. Nothing is written.
func (b *bucket) refuse(writes []state.Write) error {
	lies := b.client.lies()
	if lies.Conflict == 0 || len(writes) != 1 || writes[0].Op == state.OpPut {
		return nil
	}
	if b.client.server.dice.Roll(b.conn.name+"/conflict "+b.name).Float64() < lies.Conflict {
		return fmt.Errorf("%w: says a deposed leader", state.ErrConflict)
	}
	return nil
}

// List implements state.Bucket.
func (b *bucket) List(ctx context.Context, prefix string) (records []state.Record, err error) {
	err = b.conn.read(ctx, "list "+b.name, func(stale bool, asOf time.Time) error {
		if stale {
			for _, r := range b.client.server.list(b.name, asOf) {
				if strings.HasPrefix(r.Key, prefix) {
					records = append(records, r)
				}
			}
			slices.SortFunc(records, func(x, y state.Record) int { return strings.Compare(x.Key, y.Key) })
			return nil
		}
		inner, err := b.client.server.bucket(b.name)
		if err == nil {
			records, err = inner.List(context.Background(), prefix)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return records, nil
}

// Watch implements state.Bucket.
func (b *bucket) Watch(ctx context.Context, prefix string) (state.Watch, error) {
	if err := b.conn.read(ctx, "watch "+b.name, func(bool, time.Time) error { return nil }); err != nil {
		return nil, err
	}
	w := &watch{bucket: b, prefix: prefix, updates: make(chan state.Update, 64), stopped: make(chan struct{})}
	w.ctx, w.cancel = context.WithCancel(ctx)
	go w.run()
	return w, nil
}
