package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"maestrohub.io/uns/broker/state"
)

// message is one message of a stream.
type message struct {
	subject  string
	sequence uint64
	time     time.Time
	deletion bool // a bucket's tombstone
	data     []byte
}

// Headers of messages, as the server and the nats command line know them.
const (
	headerOperation        = "KV-Operation"
	operationDelete        = "DEL"
	headerMessageID        = "Nats-Msg-Id"
	headerExpectedSequence = "Nats-Expected-Last-Subject-Sequence"
	headerTTL              = "Nats-TTL"
	headerBatch            = "Nats-Batch-Id"
	headerBatchSequence    = "Nats-Batch-Sequence"
	headerBatchCommit      = "Nats-Batch-Commit"
)

// readMessage takes a stream's message out of a republished one or of an answer
// to a direct get.
func readMessage(m *nats.Msg) (message, error) {
	sequence, err := strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
	if err != nil {
		return message{}, fmt.Errorf("message on %s without a sequence: %w", m.Subject, err)
	}
	at, err := time.Parse(time.RFC3339Nano, m.Header.Get("Nats-Time-Stamp"))
	if err != nil {
		return message{}, fmt.Errorf("message %d on %s: %w", sequence, m.Subject, err)
	}
	return message{
		subject: m.Header.Get("Nats-Subject"), sequence: sequence, time: at,
		deletion: deletes(m.Header), data: m.Data,
	}, nil
}

func deletes(h nats.Header) bool {
	op := h.Get(headerOperation)
	return op == operationDelete || op == "PURGE" // PURGE: made by the nats command line
}

// pageMessages and pageBytes bound one answer to a batch get.
const (
	pageMessages = 1000
	pageBytes    = 4 << 20
)

type getRequest struct {
	Sequence uint64 `json:"seq,omitempty"`
	Last     string `json:"last_by_subj,omitempty"`
	Next     string `json:"next_by_subj,omitempty"`
	Batch    int    `json:"batch,omitempty"`
	MaxBytes int    `json:"max_bytes,omitempty"`
}

// page reads messages from a sequence on, in order, from whichever copy of the
// stream is near: it may lag. more: there are further ones. filter may be empty.
func (c *connection) page(ctx context.Context, stream, filter string, from uint64, most int) (msgs []message, more bool, err error) {
	request, err := json.Marshal(getRequest{Sequence: max(from, 1), Next: filter, Batch: min(most, pageMessages), MaxBytes: pageBytes})
	if err != nil {
		return nil, false, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		msgs []message
		more bool
		err  error
	}
	answers, moved := make(chan answer), make(chan struct{}, 1)
	out := 0
	ask := func() {
		out++
		go func() {
			msgs, more, err := c.pageOnce(ctx, stream, request, moved)
			select {
			case answers <- answer{msgs, more, err}:
			case <-ctx.Done():
			}
		}()
	}
	ask()
	// Any server may be the one that is asked, a hung one too, which goes on being
	// asked for as long as the others take it for alive. So the request is sent again
	// soon, and the first whole answer counts, whichever attempt it is to.
	next := time.NewTimer(c.readTrip.overdue(0, leastPageWait, mostPageWait))
	defer next.Stop()
	for try := 1; ; {
		select {
		case a := <-answers:
			if out--; a.err == nil || !errors.Is(a.err, errAgain) {
				return a.msgs, a.more, a.err
			}
			if out > 0 {
				continue
			}
			try = 0 // there was no connection to ask over
			next.Reset(50 * time.Millisecond)
		case <-moved:
			next.Reset(stalledPage) // it is being answered
		case <-next.C:
			ask()
			next.Reset(c.readTrip.overdue(try, leastPageWait, mostPageWait))
			try++
		case <-ctx.Done():
			return nil, false, fmt.Errorf("read %s: %w: %w", stream, state.ErrUnavailable, ctx.Err())
		case <-c.closing:
			return nil, false, fmt.Errorf("read %s: %w", stream, state.ErrClosed)
		}
	}
}

// leastPageWait and mostPageWait bound the wait for a page before it is asked for once
// more, if round trips are short: every second or third attempt goes to the hung server.
// stalledPage is the same once it has begun to come.
const (
	leastPageWait = 60 * time.Millisecond
	mostPageWait  = 250 * time.Millisecond
	stalledPage   = 2 * time.Second
)

// errAgain: the answer broke off, or nobody was there to give one.
var errAgain = errors.New("no answer")

// pageAnswer bounds one attempt, of which a slow server may answer after the next.
const pageAnswer = 30 * time.Second

func (c *connection) pageOnce(ctx context.Context, stream string, request []byte, moved chan<- struct{}) ([]message, bool, error) {
	if err := c.closed(); err != nil {
		return nil, false, err
	}
	up, changed := c.status()
	if !up {
		return nil, false, errAgain
	}
	var (
		mu   sync.Mutex
		msgs []message
		more bool
		fail error
	)
	done := make(chan struct{})
	asked, first := time.Now(), true
	token := c.await(func(_ int, m *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		select {
		case <-done:
			return
		default:
		}
		if first {
			first = false
			c.readTrip.add(time.Since(asked))
		}
		status := m.Header.Get("Status")
		switch {
		case status == "":
			got, err := readMessage(m)
			if err == nil {
				msgs = append(msgs, got)
				select {
				case moved <- struct{}{}:
				default:
				}
				return
			}
			fail = err
		case status == "204":
			more = m.Header.Get("Nats-Num-Pending") != "0"
		case status == "404":
		case status == "503":
			fail = errAgain
		default:
			fail = fmt.Errorf("JetStream: %s %s", status, m.Header.Get("Description"))
		}
		close(done)
	})
	defer c.forget(token)
	m := &nats.Msg{Subject: "$JS.API.DIRECT.GET." + stream, Reply: c.reply(token, 0), Data: request}
	if err := c.post(ctx, []*nats.Msg{m}); err != nil {
		return nil, false, errAgain
	}
	timer := time.NewTimer(pageAnswer)
	defer timer.Stop()
	select {
	case <-done:
		mu.Lock()
		defer mu.Unlock()
		return msgs, more, fail
	case <-timer.C:
		return nil, false, errAgain
	case <-changed:
		return nil, false, errAgain
	case <-ctx.Done():
		return nil, false, errAgain
	case <-c.closing:
		return nil, false, state.ErrClosed
	}
}
