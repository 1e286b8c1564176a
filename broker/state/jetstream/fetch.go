package jetstream

import (
	"cmp"
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
	for {
		msgs, more, err = c.pageOnce(ctx, stream, request)
		if err == nil || !errors.Is(err, errAgain) {
			return msgs, more, err
		}
		if err := c.rest(ctx, 50*time.Millisecond); err != nil {
			return nil, false, fmt.Errorf("read %s: %w: %w", stream, state.ErrUnavailable, err)
		}
	}
}

// errAgain: the answer broke off, or nobody was there to give one.
var errAgain = errors.New("no answer")

func (c *connection) pageOnce(ctx context.Context, stream string, request []byte) ([]message, bool, error) {
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
	progress := make(chan struct{}, 1)
	done := make(chan struct{})
	token := c.await(func(_ int, m *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		select {
		case <-done:
			return
		default:
		}
		status := m.Header.Get("Status")
		switch {
		case status == "":
			got, err := readMessage(m)
			if err == nil {
				msgs = append(msgs, got)
				select {
				case progress <- struct{}{}:
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
	wait := c.overdue(2)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-done:
			mu.Lock()
			defer mu.Unlock()
			return msgs, more, fail
		case <-progress:
			timer.Reset(wait)
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
}

// rest pauses, or returns why there is nothing to wait for.
func (c *connection) rest(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.closing:
		return state.ErrClosed
	}
}

// request asks the JetStream API, sending again until there is an answer. An
// error of JetStream's that is worth no further try comes back as *apiError.
func (c *connection) request(ctx context.Context, subject string, body, into any) error {
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return err
		}
	}
	var fail error
	err := c.exchange(ctx, func(reply string) []*nats.Msg {
		return []*nats.Msg{{Subject: subject, Reply: reply, Data: data}}
	}, func(m *nats.Msg) verdict {
		var e struct {
			Error *apiError `json:"error"`
		}
		switch err := json.Unmarshal(m.Data, &e); {
		case err != nil:
			fail = fmt.Errorf("answer of %s: %w", subject, err)
			return settled
		case e.Error != nil && e.Error.Status >= 500 && !e.Error.quota():
			return refused // no leader just now
		case e.Error != nil:
			fail = e.Error
		default:
			fail = json.Unmarshal(m.Data, into)
		}
		return settled
	})
	switch {
	case errors.Is(err, state.ErrUnknown):
		// A read, or a change of the streams, which is asked for again.
		return fmt.Errorf("%w: no answer of %s: %w", state.ErrUnavailable, subject, cmp.Or(c.closed(), ctx.Err(), context.DeadlineExceeded))
	case err != nil:
		return err
	}
	return fail
}

// get reads one message from the stream's leader: by subject the last one, by
// sequence that one, or the next at or after the sequence that matches a filter.
// ErrNotFound if there is none.
func (c *connection) get(ctx context.Context, stream string, request getRequest) (message, error) {
	var answer struct {
		Message struct {
			Subject  string    `json:"subject"`
			Sequence uint64    `json:"seq"`
			Header   []byte    `json:"hdrs"`
			Data     []byte    `json:"data"`
			Time     time.Time `json:"time"`
		} `json:"message"`
	}
	if err := c.request(ctx, "$JS.API.STREAM.MSG.GET."+stream, request, &answer); err != nil {
		if isCode(err, codeMessageNotFound) {
			return message{}, state.ErrNotFound
		}
		return message{}, fmt.Errorf("read %s: %w", stream, err)
	}
	m := message{subject: answer.Message.Subject, sequence: answer.Message.Sequence, time: answer.Message.Time, data: answer.Message.Data}
	if len(answer.Message.Header) > 0 {
		h, err := nats.DecodeHeadersMsg(answer.Message.Header)
		if err != nil {
			return message{}, fmt.Errorf("read %s: message %d: %w", stream, m.sequence, err)
		}
		m.deletion = deletes(h)
	}
	return m, nil
}
