package jetstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"maestrohub.io/uns/broker/state"
)

// Get implements state.Bucket. It asks the leader, so it sees this replica's own
// writes while the leader is one.
func (b *bucket) Get(ctx context.Context, key string) (state.Record, error) {
	if err := state.CheckKey(key); err != nil {
		return state.Record{}, fmt.Errorf("get from %s: %w", b.name, err)
	}
	tokens, _ := encodeKey(key)
	m, err := b.conn.get(ctx, b.stream, getRequest{Last: b.base + tokens})
	if err == nil && m.deletion {
		err = state.ErrNotFound
	}
	if err != nil {
		return state.Record{Key: key, Revision: m.sequence}, fmt.Errorf("get %q from %s: %w", shorten(key), b.name, err)
	}
	b.seen(m.sequence)
	b.live.add(m.sequence)
	return b.record(m)
}

// List implements state.Bucket.
func (b *bucket) List(ctx context.Context, prefix string) ([]state.Record, error) {
	records, _, err := b.scan(ctx, prefix, b.known.Load())
	if err != nil {
		return nil, fmt.Errorf("list %q of %s: %w", shorten(prefix), b.name, err)
	}
	return records, nil
}

// scan reads the records that begin with prefix, ordered by key, as they stood
// at the returned sequence or, the ones that changed since, a little before. A
// message moves only towards the end, and the scan goes there, so it meets every
// key. least is a sequence the scan has to reach if it still matters.
func (b *bucket) scan(ctx context.Context, prefix string, least uint64) ([]state.Record, uint64, error) {
	found := map[string]state.Record{}
	var reached uint64
	for _, filter := range prefixFilters(b.base, prefix) {
		at, err := b.scanFilter(ctx, prefix, filter, least, found)
		if err != nil {
			return nil, 0, err
		}
		reached = max(reached, at)
	}
	records := make([]state.Record, 0, len(found))
	for _, r := range found {
		records = append(records, r)
	}
	slices.SortFunc(records, func(x, y state.Record) int { return strings.Compare(x.Key, y.Key) })
	return records, reached, nil
}

func (b *bucket) scanFilter(ctx context.Context, prefix, filter string, least uint64, found map[string]state.Record) (uint64, error) {
	at := uint64(0)
	for try := 0; ; {
		msgs, more, err := b.conn.page(ctx, b.stream, filter, at+1, pageMessages)
		if err != nil {
			return 0, err
		}
		for _, m := range msgs {
			at = max(at, m.sequence)
			r, err := b.record(m)
			if err != nil {
				return 0, err
			}
			if !strings.HasPrefix(r.Key, prefix) {
				continue
			}
			if m.deletion {
				delete(found, r.Key)
			} else {
				found[r.Key] = r
			}
		}
		if more {
			continue
		}
		if at >= least {
			return at, nil
		}
		// Shorter than what we know of: either that has expired or lies outside
		// the filter, or this copy lags. The leader knows.
		_, err = b.conn.get(ctx, b.stream, getRequest{Sequence: at + 1, Next: filter})
		if errors.Is(err, state.ErrNotFound) {
			return at, nil
		}
		if err != nil {
			return 0, err
		}
		try++
		if err := b.conn.rest(ctx, min(time.Millisecond<<min(try, 8), 100*time.Millisecond)); err != nil {
			return 0, fmt.Errorf("%w: %w", state.ErrUnavailable, err)
		}
	}
}
