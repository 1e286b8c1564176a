package memory

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"maestrohub.io/uns/broker/state"
)

// Get implements state.Bucket.
func (b *bucket) Get(ctx context.Context, key string) (state.Record, error) {
	if err := b.readable(ctx); err != nil {
		return state.Record{}, err
	}
	b.mu.RLock()
	r := b.present(b.records[key], time.Now().UnixNano())
	b.mu.RUnlock()
	if r == nil || r.deleted {
		gone := state.Record{Key: key}
		if r != nil {
			gone.Revision = r.revision
		}
		return gone, fmt.Errorf("get %q from %s: %w", key, b.name, state.ErrNotFound)
	}
	return r.public(), nil
}

// List implements state.Bucket.
func (b *bucket) List(ctx context.Context, prefix string) ([]state.Record, error) {
	if err := b.readable(ctx); err != nil {
		return nil, err
	}
	b.mu.RLock()
	found := b.current(prefix)
	b.mu.RUnlock()
	sortByKey(found)
	records := make([]state.Record, len(found))
	for i, r := range found {
		records[i] = r.public()
	}
	return records, nil
}

// current returns the records there are, in no order. mu is held.
func (b *bucket) current(prefix string) []*record {
	now := time.Now().UnixNano()
	var found []*record
	for key, r := range b.records {
		if strings.HasPrefix(key, prefix) && !r.deleted && b.present(r, now) != nil {
			found = append(found, r)
		}
	}
	return found
}

func sortByKey(records []*record) {
	slices.SortFunc(records, func(x, y *record) int { return strings.Compare(x.key, y.key) })
}

func (b *bucket) readable(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return b.store.open()
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
