package jetstream

import (
	"context"
	"errors"
	"fmt"
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
// Only the first batch, and one after the log has dropped the writer's last, has
// no such sequence. They carry a message id as well.
type writer struct {
	log     *log
	subject string

	mu      sync.Mutex // below
	queue   []*pending
	running bool

	// The running goroutine's.
	last uint64 // sequence of the writer's last message; 0: none
}

// pending is one Append. It belongs to the writer once taken.
type pending struct {
	records [][]byte
	bytes   int
	taken   bool // guarded by writer.mu
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
	if p.taken {
		return 0, fmt.Errorf("%w: %w", state.ErrUnknown, ctx.Err())
	}
	for i, q := range w.queue {
		if q == p {
			w.queue = append(w.queue[:i], w.queue[i+1:]...)
			break
		}
	}
	return 0, fmt.Errorf("%w: the batch before it has no answer yet: %w", state.ErrUnavailable, ctx.Err())
}

// run writes what is queued and ends when nothing is.
func (w *writer) run() {
	for {
		w.mu.Lock()
		group, records, bytes := 0, 0, 0
		for _, p := range w.queue {
			if group > 0 && (records+len(p.records) > state.MaxAppend || bytes+p.bytes > groupBytes) {
				break
			}
			group, records, bytes = group+1, records+len(p.records), bytes+p.bytes
		}
		if group == 0 {
			w.running, w.queue = false, nil
			w.mu.Unlock()
			return
		}
		batch := w.queue[:group:group]
		w.queue = w.queue[group:]
		for _, p := range batch {
			p.taken = true
		}
		w.mu.Unlock()
		all := make([][]byte, 0, records)
		for _, p := range batch {
			all = append(all, p.records...)
		}
		first, err := w.write(all)
		for _, p := range batch {
			p.err = err
			if err == nil {
				p.first = first
				first += uint64(len(p.records))
			}
			close(p.done)
		}
	}
}

// write sees one batch through. Errors: it is not there and never will be,
// except for ErrUnknown, after which it will not come any more either.
func (w *writer) write(records [][]byte) (uint64, error) {
	c := w.log.conn
	b := &attempts{frames: w.frames(records), id: c.messageID()}
	for {
		var r written
		err := c.exchange(context.Background(), func(reply string) []*nats.Msg { return w.messages(b, reply) }, judgeWrite(&r, int64(w.last)))
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
		case c.closed() != nil:
			return 0, err
		case !errors.Is(err, state.ErrUnknown) && !errors.Is(err, state.ErrUnavailable):
			return 0, err
		}
		if closed := c.rest(context.Background(), 100*time.Millisecond); closed != nil {
			return 0, fmt.Errorf("%w: %w", state.ErrUnknown, closed)
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
