package jetstream

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"maestrohub.io/uns/broker/state"
)

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
