package jetstream

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"maestrohub.io/uns/broker/state"
)

// bucket implements state.Bucket over one connection.
type bucket struct {
	store  *Store
	conn   *connection
	name   string
	stream string
	base   string // of its subjects, with the last dot

	// known is the highest revision this replica has seen: a listing that does
	// not reach it is stale.
	known atomic.Uint64
	live  recent
	// Of its changes; nil on the lease connection.
	feed    *feed
	changes *changes
}

func newBucket(s *Store, c *connection, name string) *bucket {
	return &bucket{store: s, conn: c, name: name, stream: state.BucketStream + name, base: bucketPrefix + name + "."}
}

func (b *bucket) seen(revision uint64) {
	for {
		k := b.known.Load()
		if revision <= k || b.known.CompareAndSwap(k, revision) {
			return
		}
	}
}

// Put implements state.Bucket.
func (b *bucket) Put(ctx context.Context, key string, value []byte) (uint64, error) {
	return b.write(ctx, request{Write: state.Write{Op: state.OpPut, Key: key, Value: value}})
}

// Create implements state.Bucket.
func (b *bucket) Create(ctx context.Context, key string, value []byte) (uint64, error) {
	return b.write(ctx, request{Write: state.Write{Op: state.OpCreate, Key: key, Value: value}})
}

// Update implements state.Bucket.
func (b *bucket) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	return b.write(ctx, request{Write: state.Write{Op: state.OpUpdate, Key: key, Value: value, Revision: revision}})
}

// Delete implements state.Bucket.
func (b *bucket) Delete(ctx context.Context, key string, revision uint64) (uint64, error) {
	return b.write(ctx, request{Write: state.Write{Op: state.OpDelete, Key: key, Revision: revision}})
}

// request is one write to be made.
type request struct {
	state.Write
	id   string // the message id; empty: made when sent
	once bool   // it is not sent again
}

// write makes one write and says in its error which.
func (b *bucket) write(ctx context.Context, w request) (uint64, error) {
	revision, err := b.decide(ctx, w)
	if err != nil {
		return 0, fmt.Errorf("%v %q in %s: %w", w.Op, shorten(w.Key), b.name, err)
	}
	b.seen(revision)
	if w.Op != state.OpDelete {
		b.live.add(revision)
	}
	return revision, nil
}

func (b *bucket) decide(ctx context.Context, w request) (uint64, error) {
	if err := state.CheckKey(w.Key); err != nil {
		return 0, err
	}
	if err := b.conn.closed(); err != nil {
		return 0, err
	}
	switch w.Op {
	case state.OpPut:
		r, err := b.publish(ctx, w, -1)
		return r.sequence, err
	case state.OpCreate:
		return b.create(ctx, w)
	case state.OpUpdate, state.OpDelete:
		if w.Revision == 0 {
			return 0, fmt.Errorf("%w: no record has revision 0", state.ErrConflict)
		}
		if w.Op == state.OpDelete {
			if err := b.checkLive(ctx, w); err != nil {
				return 0, err
			}
		}
		r, err := b.publish(ctx, w, int64(w.Revision))
		if err == nil && r.conflict {
			err = fmt.Errorf("%w: at revision %d, not %d", state.ErrConflict, r.current, w.Revision)
		}
		return r.sequence, err
	}
	return 0, fmt.Errorf("%v (%d)", w.Op, w.Op)
}

// create writes where nothing is or a tombstone, which is found out by trying:
// the refusal names the sequence of what is there, and a message never changes.
func (b *bucket) create(ctx context.Context, w request) (uint64, error) {
	var expected int64
	for {
		r, err := b.publish(ctx, w, expected)
		if err != nil || !r.conflict {
			return r.sequence, err
		}
		if r.current == 0 { // the tombstone expired meanwhile
			expected = 0
			continue
		}
		there, err := b.conn.get(ctx, b.stream, getRequest{Sequence: r.current})
		switch {
		case errors.Is(err, state.ErrNotFound): // replaced by a newer one
			expected = 0
		case err != nil:
			return 0, err
		case !there.deletion:
			return 0, fmt.Errorf("%w: it is there at revision %d", state.ErrConflict, r.current)
		default:
			expected = int64(r.current)
		}
	}
}

// checkLive says ErrConflict if the revision to delete is itself a deletion,
// which the server would accept.
func (b *bucket) checkLive(ctx context.Context, w request) error {
	if b.live.has(w.Revision) {
		return nil
	}
	there, err := b.conn.get(ctx, b.stream, getRequest{Sequence: w.Revision})
	if err == nil && there.deletion {
		return fmt.Errorf("%w: revision %d is a deletion", state.ErrConflict, w.Revision)
	}
	if errors.Is(err, state.ErrNotFound) {
		return nil // replaced, or not yet at that server: the write will tell
	}
	return err
}

// publish sends one write until it has a definite answer. expected is the
// sequence the subject's last message must have, 0 for none; negative: any.
func (b *bucket) publish(ctx context.Context, w request, expected int64) (written, error) {
	if w.id == "" || w.Op == state.OpCreate && expected > 0 { // another condition is another write
		w.id = b.conn.messageID()
	}
	m, err := b.message(w, expected)
	if err != nil {
		return written{}, err
	}
	var r written
	sent := 0
	err = b.conn.trade(ctx, func(reply string) []*nats.Msg {
		sent++
		again := *m
		again.Reply = reply
		return []*nats.Msg{&again}
	}, judgeWrite(&r, expected), w.once)
	if err == nil {
		err = r.err
		if err != nil && sent > 1 {
			err = fmt.Errorf("%w: refused now, an attempt before may land: %w", state.ErrUnknown, err)
		}
	}
	return r, err
}

// message makes a write's message. It has a copy of the value.
func (b *bucket) message(w request, expected int64) (*nats.Msg, error) {
	tokens, long := encodeKey(w.Key)
	m := &nats.Msg{Subject: b.base + tokens, Header: nats.Header{headerMessageID: {w.id}}}
	if expected >= 0 {
		m.Header[headerExpectedSequence] = []string{strconv.FormatInt(expected, 10)}
	}
	if long {
		m.Data = binary.AppendUvarint(nil, uint64(len(w.Key)))
		m.Data = append(m.Data, w.Key...)
	}
	if w.Op == state.OpDelete {
		m.Header[headerOperation] = []string{operationDelete}
		m.Header[headerTTL] = []string{strconv.Itoa(int(state.TombstoneAge / time.Second))}
	} else {
		m.Data = append(m.Data, w.Value...)
	}
	if limit := b.conn.maxPayload(); limit > 0 && int64(len(m.Data))+headerRoom > limit {
		return nil, fmt.Errorf("%w: value of %d bytes, NATS takes at most %d with its headers", state.ErrQuota, len(m.Data), limit-headerRoom)
	}
	return m, nil
}

// headerRoom is more than the headers of any message of ours take.
const headerRoom = 512

// record makes a record of a bucket's message.
func (b *bucket) record(m message) (state.Record, error) {
	tokens, ok := strings.CutPrefix(m.subject, b.base)
	if !ok {
		return state.Record{}, fmt.Errorf("message %d of %s has the subject %q", m.sequence, b.stream, m.subject)
	}
	r := state.Record{Value: m.data, Revision: m.sequence, Time: m.time}
	if strings.HasPrefix(tokens, longKeys+".") {
		n, size := binary.Uvarint(m.data)
		if size <= 0 || n > uint64(len(m.data)-size) {
			return r, fmt.Errorf("message %d of %s does not begin with its key", m.sequence, b.stream)
		}
		r.Key, r.Value = string(m.data[size:size+int(n)]), m.data[size+int(n):]
	} else {
		key, err := decodeKey(tokens)
		if err != nil {
			return r, fmt.Errorf("message %d of %s: %w", m.sequence, b.stream, err)
		}
		r.Key = key
	}
	if m.deletion {
		r.Value = nil
	}
	return r, nil
}

func shorten(key string) string {
	if len(key) > 200 {
		return key[:200] + "..."
	}
	return key
}
