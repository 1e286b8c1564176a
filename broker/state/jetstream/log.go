package jetstream

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"maestrohub.io/uns/broker/state"
)

// What the server finds out by asking, and would do without in silence.
var (
	_ state.Sizer   = (*log)(nil)
	_ state.Spanner = (*log)(nil)
	_ state.Knower  = (*log)(nil)
	_ state.Skipper = (*log)(nil)
	_ state.Joiner  = (*log)(nil)
)

// log implements state.Log.
type log struct {
	store  *Store
	conn   *connection
	stream string
	writer *writer
	ring   *ring
	pages  *pages
	feed   *feed
	// known is the highest message sequence this replica has seen: a read that
	// ends before it is stale.
	known atomic.Uint64
	// perMessage is about how many records a message has had lately, times 16.
	perMessage atomic.Int64
}

func newLog(s *Store, workspaceID string) *log {
	l := &log{store: s, conn: s.shared, stream: state.LogStream + workspaceID}
	l.ring = newRing(s.options.RingBytes)
	l.pages = newPages(s.options.PageBytes)
	l.writer = newWriter(l, logPrefix+workspaceID+"."+newID())
	l.feed = &feed{
		conn: s.shared, stream: l.stream, subject: tailPrefix + workspaceID + ".>", every: 2 * time.Second,
		begin: l.ring.reset, deliver: l.follow, lost: l.lost,
	}
	return l
}

func (l *log) seen(message uint64) {
	for {
		k := l.known.Load()
		if message <= k || l.known.CompareAndSwap(k, message) {
			return
		}
	}
}

// Append implements state.Log.
func (l *log) Append(ctx context.Context, records [][]byte) (uint64, error) {
	if len(records) == 0 || len(records) > state.MaxAppend {
		return 0, fmt.Errorf("append of %d records: a batch has 1 to %d", len(records), state.MaxAppend)
	}
	if err := l.conn.closed(); err != nil {
		return 0, fmt.Errorf("append to %s: %w", l.stream, err)
	}
	most := l.conn.maxPayload() - headerRoom - 2*frameOverhead
	for i, r := range records {
		if max := l.store.options.LogMaxBytes - headerRoom; max > 0 && int64(len(r)) > max {
			return 0, fmt.Errorf("append to %s: %w: record %d has %d bytes, the log at most %d", l.stream, state.ErrQuota, i, len(r), max)
		}
		if most > 0 && int64(len(r)) > most {
			return 0, fmt.Errorf("append to %s: %w: record %d has %d bytes, NATS takes at most %d", l.stream, state.ErrQuota, i, len(r), most)
		}
	}
	first, err := l.writer.append(ctx, records)
	if err != nil {
		return 0, fmt.Errorf("append to %s: %w", l.stream, err)
	}
	return first, nil
}

// Read implements state.Log. It reads from memory what was read or followed lately,
// and the rest from whichever copy is near, but not less than this replica has seen
// already.
func (l *log) Read(ctx context.Context, from uint64, most int, dst []state.Entry) ([]state.Entry, error) {
	begin, end := len(dst), len(dst)+most
	least := l.known.Load()
	next := messageOf(from)
	for try := 0; ; {
		dst = l.remembered(from, &next, end, dst)
		if len(dst) >= end || len(dst) > begin && next > least {
			return dst, nil
		}
		msgs, more, err := l.readStretch(ctx, next, end-len(dst))
		if err != nil {
			return dst[:begin], err
		}
		for _, m := range msgs {
			next = m.sequence + 1
			dst = appendFrom(dst, m.entries, from, end)
		}
		if len(dst) >= end {
			return dst, nil
		}
		if more {
			continue
		}
		if next > least {
			return dst, nil
		}
		_, err = l.conn.get(ctx, l.stream, getRequest{Sequence: next, Next: ">"})
		if errors.Is(err, state.ErrNotFound) {
			return dst, nil
		}
		if err != nil {
			return dst[:begin], err
		}
		try++
		if err := l.conn.rest(ctx, min(time.Millisecond<<min(try, 8), 100*time.Millisecond)); err != nil {
			return dst[:begin], fmt.Errorf("read %s: %w: %w", l.stream, state.ErrUnavailable, err)
		}
	}
}

// decoded is a message of a log.
type decoded struct {
	sequence uint64
	entries  []state.Entry
}

// readStretch reads messages from one on, for about as many entries as are wanted; of
// several readers at one place only one asks the store, and the others find in memory
// what it got: nothing and true tell them to look there. A reader of one entry asks
// for itself and keeps nothing.
func (l *log) readStretch(ctx context.Context, next uint64, entries int) (read []decoded, more bool, err error) {
	wanted := l.messagesFor(entries)
	if entries > 1 {
		leave := l.pages.enter(ctx, next)
		if leave == nil {
			if _, there := l.pages.get(next); there {
				return nil, true, nil
			}
			if ctx.Err() != nil {
				return nil, false, fmt.Errorf("read %s: %w: %w", l.stream, state.ErrUnavailable, ctx.Err())
			}
		} else {
			defer leave()
			// Up to the end of the stretch, for whoever comes after.
			wanted = max(wanted, int(stretchMessages-next%stretchMessages))
		}
	}
	msgs, more, err := l.conn.page(ctx, l.stream, "", next, wanted)
	if err != nil {
		return nil, false, err
	}
	read = make([]decoded, 0, len(msgs))
	for _, m := range msgs {
		got, err := decodeFrame(nil, m)
		if err != nil {
			l.store.options.Logger.Error("broker cluster: a message of the session log is left out", "stream", l.stream, "error", err)
		}
		l.note(len(got))
		if entries > 1 && err == nil {
			l.pages.put(m.sequence, got, len(m.data))
		}
		read = append(read, decoded{m.sequence, got})
	}
	return read, more, nil
}

// remembered appends the entries of the messages from next on that are in memory, up
// to a length of dst, and moves next behind them.
func (l *log) remembered(from uint64, next *uint64, most int, dst []state.Entry) []state.Entry {
	for len(dst) < most {
		entries, ok := l.ring.message(*next)
		if !ok {
			entries, ok = l.pages.get(*next)
		}
		if !ok {
			break
		}
		*next++
		dst = appendFrom(dst, entries, from, most)
	}
	return dst
}

// appendFrom appends the entries at or after from, up to a length of dst.
func appendFrom(dst, entries []state.Entry, from uint64, most int) []state.Entry {
	for _, e := range entries {
		if e.Sequence >= from && len(dst) < most {
			dst = append(dst, e)
		}
	}
	return dst
}

// ReadOver implements state.Skipper: a message that has an entry has those around it,
// and a request costs about as much as so many entries.
func (l *log) ReadOver() int { return 256 }

// Joined implements state.Joiner: the message with the first of the two places is in
// memory, so it has nothing after it, and the other is in the next one.
func (l *log) Joined(from, first uint64) bool {
	m := messageOf(from)
	if messageOf(first) != m+1 {
		return false
	}
	_, there := l.ring.message(m)
	if !there {
		_, there = l.pages.get(m)
	}
	return there
}

// Known implements state.Knower. Of a batch in several messages, which lands as a
// whole, the first one known makes all of it known.
func (l *log) Known() uint64 { return firstSequence(l.known.Load() + 1) }

// Bounds implements state.Log. It asks the leader.
func (l *log) Bounds(ctx context.Context) (first, last uint64, err error) {
	info, err := l.conn.there(ctx, l.stream)
	if err != nil {
		return 0, 0, fmt.Errorf("bounds of %s: %w", l.stream, err)
	}
	l.seen(info.State.Last)
	last = info.State.Last * sequenceStride
	if info.State.Messages == 0 {
		return last + 1, last, nil
	}
	oldest, err := l.entriesAt(ctx, info.State.First)
	if err != nil {
		return 0, 0, err
	}
	newest := oldest
	if info.State.Last != info.State.First {
		if newest, err = l.entriesAt(ctx, info.State.Last); err != nil {
			return 0, 0, err
		}
	}
	// A fence at an end has no entry: the bounds then lie around it.
	first, last = firstSequence(info.State.First), firstSequence(info.State.Last)-1
	if len(oldest) > 0 {
		first = oldest[0].Sequence
	}
	if len(newest) > 0 {
		last = newest[len(newest)-1].Sequence
	}
	return first, max(last, first-1), nil
}

// Size implements state.Sizer. It asks the leader.
func (l *log) Size(ctx context.Context) (int64, error) {
	info, err := l.conn.there(ctx, l.stream)
	if err != nil {
		return 0, fmt.Errorf("size of %s: %w", l.stream, err)
	}
	return info.State.Bytes, nil
}

// entriesAt reads the message with a sequence, or the next there is, from the
// leader.
func (l *log) entriesAt(ctx context.Context, sequence uint64) ([]state.Entry, error) {
	m, err := l.conn.get(ctx, l.stream, getRequest{Sequence: sequence, Next: ">"})
	if errors.Is(err, state.ErrNotFound) {
		return nil, nil // dropped meanwhile
	}
	var entries []state.Entry
	if err == nil {
		entries, err = decodeFrame(nil, m)
	}
	if err != nil {
		return nil, fmt.Errorf("bounds of %s: %w", l.stream, err)
	}
	return entries, nil
}

// Span implements state.Spanner: about how many entries there are, or were,
// from one sequence up to another. Messages are counted exactly, entries by how
// many a message has had lately.
func (l *log) Span(from, to uint64) uint64 {
	if to <= from {
		return 0
	}
	messages := messageOf(to) - messageOf(from)
	if messages == 0 {
		return to - from
	}
	return messages * uint64(max(l.perMessage.Load(), 16)) / 16
}

// Abandon gives up the batch whose outcome is open and what waits behind it,
// as a replica does that no longer may act: nothing of it is sent again, and
// before the next batch a fence is written that keeps it from landing later.
// Appends that wait return: ErrUnknown if they may have landed.
func (l *log) Abandon() { l.writer.abandon() }

// follow takes in a message of the feed.
func (l *log) follow(m message) {
	l.seen(m.sequence)
	entries, err := decodeFrame(nil, m)
	if err != nil {
		l.store.options.Logger.Error("broker cluster: a message of the session log is left out", "stream", l.stream, "error", err)
	}
	l.note(len(entries))
	l.ring.add(m.sequence, entries, len(m.data))
}

// lost takes in that the stream does not have messages that were expected. From
// the first one on it was made anew: what was known of the one before is void.
func (l *log) lost(from, to uint64) {
	if from == 1 {
		l.known.Store(0)
		l.pages.forget()
	}
	l.ring.reset(to)
}

// note takes in how many records a message had; messagesFor is how many messages
// to ask for to get so many records, a few more than are likely to be needed.
func (l *log) note(records int) {
	if records == 0 {
		return
	}
	mean := l.perMessage.Load()
	l.perMessage.Store(mean + (16*int64(records)-mean)/16)
}

func (l *log) messagesFor(records int) int {
	mean := max(l.perMessage.Load(), 16)
	return min(int(int64(records)*16*9/8/mean)+2, pageMessages)
}
