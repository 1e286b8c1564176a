package jetstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"maestrohub.io/uns/broker/state"
)

// writer appends to one log, for this handle of it alone: one batch is in flight
// at a time, and what waits meanwhile becomes the next one.
//
// Every batch is written under the writer's own subject, conditional on the
// sequence of the batch before. So a batch that is sent again lands once, a late
// arrival of an earlier one is refused, and if an answer was lost the refusal of
// the next attempt names where the batch landed. A batch is resolved before the
// next is sent, however long that takes.
//
// An abandoned batch is followed by a fence, a frame without records under the
// same condition: once it landed the batch cannot, and if it conflicts the batch
// had.
//
// Only the first batch, and one after the log has dropped the writer's last, has
// no such sequence. They carry a message id as well.
type writer struct {
	log     *log
	subject string

	mu      sync.Mutex // below
	queue   []*pending
	taken   []*pending // the batch being written; nil once abandoned
	stop    context.CancelFunc
	running bool

	// The running goroutine's.
	last uint64 // sequence of the writer's last message; 0: none
}

// pending is one Append. It belongs to the writer once taken.
type pending struct {
	records [][]byte
	bytes   int
	done    chan struct{}
	first   uint64
	err     error
}

// groupBytes bounds what several Appends are joined to.
const groupBytes = 256 << 10

func newWriter(l *log, subject string) *writer { return &writer{log: l, subject: subject} }

// append queues a batch and waits for its outcome.
func (w *writer) append(ctx context.Context, records [][]byte) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	p := &pending{records: make([][]byte, len(records)), done: make(chan struct{})}
	for _, r := range records {
		p.bytes += len(r) + frameOverhead
	}
	// One copy of all, whose pieces are the records.
	own := make([]byte, 0, p.bytes)
	for i, r := range records {
		n := len(own)
		own = append(own, r...)
		p.records[i] = own[n:len(own):len(own)]
	}
	w.mu.Lock()
	w.queue = append(w.queue, p)
	if !w.running {
		w.running = true
		go w.run()
	}
	w.mu.Unlock()
	select {
	case <-p.done:
		return p.first, p.err
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-p.done:
		return p.first, p.err
	default:
	}
	for i, q := range w.queue {
		if q == p {
			w.queue = slices.Delete(w.queue, i, i+1)
			return 0, fmt.Errorf("%w: the batch before it has no answer yet: %w", state.ErrUnavailable, ctx.Err())
		}
	}
	return 0, fmt.Errorf("%w: %w", state.ErrUnknown, ctx.Err())
}

var errAbandoned = errors.New("abandoned")

func (w *writer) abandon() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.queue {
		p.err = fmt.Errorf("%w: %w", state.ErrUnavailable, errAbandoned)
		close(p.done)
	}
	for _, p := range w.taken {
		p.err = fmt.Errorf("%w: %w", state.ErrUnknown, errAbandoned)
		close(p.done)
	}
	w.queue, w.taken = nil, nil
	if w.stop != nil {
		w.stop()
	}
}

// run writes what is queued and ends when nothing is.
func (w *writer) run() {
	for {
		records, ctx := w.take()
		if records == nil {
			return
		}
		first, err := w.write(ctx, w.frames(records))
		w.mu.Lock()
		abandoned := ctx.Err() != nil && err != nil
		w.stop()
		batch := w.taken
		w.taken, w.stop = nil, nil
		for _, p := range batch {
			p.err = err
			if err == nil {
				p.first = first
				first += uint64(len(p.records))
			}
			close(p.done)
		}
		w.mu.Unlock()
		if abandoned {
			// What was sent must not land after what comes next. An
			// error here means that the store was closed.
			_, _ = w.write(context.Background(), [][]byte{appendFrame(nil, 0, 0, nil)})
		}
	}
}

// take makes the next batch of what is queued; nil: nothing is, and the writer
// no longer runs. The context ends when the batch is abandoned.
func (w *writer) take() ([][]byte, context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	group, count, bytes := 0, 0, 0
	for _, p := range w.queue {
		if group > 0 && (count+len(p.records) > state.MaxAppend || bytes+p.bytes > groupBytes) {
			break
		}
		group, count, bytes = group+1, count+len(p.records), bytes+p.bytes
	}
	if group == 0 {
		w.running, w.queue = false, nil
		return nil, nil
	}
	w.taken = slices.Clone(w.queue[:group])
	w.queue = slices.Delete(w.queue, 0, group)
	records := make([][]byte, 0, count)
	for _, p := range w.taken {
		records = append(records, p.records...)
	}
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	return records, ctx
}

// write sees one batch through and returns the sequence of its first record.
// Errors: it is not there and never will be, except for ErrUnknown, after which
// it will not come any more either unless ctx ended it.
func (w *writer) write(ctx context.Context, frames [][]byte) (uint64, error) {
	c := w.log.conn
	b := &attempts{frames: frames, id: c.messageID()}
	for {
		var r written
		err := c.exchange(ctx, func(reply string) []*nats.Msg { return w.messages(b, reply) }, judgeWrite(&r, int64(w.last)))
		switch {
		case err == nil && r.sequence > 0, r.conflict && r.current > w.last:
			// Nobody else writes here: a conflict is an attempt that landed.
			landed := max(r.sequence, r.current)
			w.last = landed
			w.log.seen(landed)
			return firstSequence(landed - uint64(len(b.frames)) + 1), nil
		case r.conflict && r.current == 0:
			// The log has dropped the writer's last batch, and if an attempt
			// had no answer, perhaps this one too.
			w.last = 0
			if b.sent > 1 {
				return 0, fmt.Errorf("%w: the log has dropped all that was written", state.ErrUnknown)
			}
			b.sent = 0
			continue
		case r.conflict:
			// A leader that was deposed knows less. The true one will answer.
		case r.err != nil && b.sent == 1:
			return 0, r.err
		case r.err != nil:
			// Refused, but an attempt before it may still land, and must be
			// known of before the next batch goes.
		case c.closed() != nil, ctx.Err() != nil:
			return 0, err
		case !errors.Is(err, state.ErrUnknown) && !errors.Is(err, state.ErrUnavailable):
			return 0, err
		}
		if over := c.rest(ctx, 100*time.Millisecond); over != nil {
			return 0, fmt.Errorf("%w: %w", state.ErrUnknown, over)
		}
	}
}

// attempts are the sendings of one batch.
type attempts struct {
	frames [][]byte
	id     string
	sent   int
}

// messages makes what one attempt sends.
func (w *writer) messages(b *attempts, reply string) []*nats.Msg {
	b.sent++
	expected := []string{strconv.FormatUint(w.last, 10)}
	if len(b.frames) == 1 {
		h := nats.Header{headerExpectedSequence: expected}
		if w.last == 0 {
			h[headerMessageID] = []string{b.id}
		}
		return []*nats.Msg{{Subject: w.subject, Reply: reply, Header: h, Data: b.frames[0]}}
	}
	msgs := make([]*nats.Msg, len(b.frames))
	batch := newID()
	for i, f := range b.frames {
		h := nats.Header{headerBatch: {batch}, headerBatchSequence: {strconv.Itoa(i + 1)}}
		msgs[i] = &nats.Msg{Subject: w.subject, Header: h, Data: f}
	}
	msgs[0].Header[headerExpectedSequence] = expected
	last := msgs[len(msgs)-1]
	last.Header[headerBatchCommit] = []string{"1"}
	last.Reply = reply
	return msgs
}

// frames splits a batch into messages of a size that NATS takes.
func (w *writer) frames(records [][]byte) [][]byte {
	most := int(w.log.conn.maxPayload()) - headerRoom
	if most <= 0 {
		most = 1<<20 - headerRoom
	}
	var frames [][]byte
	for at := 0; at < len(records); {
		end, size := at, frameOverhead
		for end < len(records) && (end == at || size+len(records[end])+frameOverhead <= most) {
			size += len(records[end]) + frameOverhead
			end++
		}
		frames = append(frames, appendFrame(make([]byte, 0, size), len(frames), at, records[at:end]))
		at = end
	}
	return frames
}
