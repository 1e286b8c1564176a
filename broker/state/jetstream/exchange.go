package jetstream

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"maestrohub.io/uns/broker/state"
)

// verdict is what an answer means for the attempt it answers.
type verdict uint8

const (
	settled verdict = iota // the exchange is over
	refused                // this attempt did nothing; try again
	unknown                // this attempt may still do something; try again
)

// dedupe is how long the server knows a message id; retryFor is how long a
// write is sent again, well within it.
const (
	dedupe   = 2 * time.Minute
	retryFor = 90 * time.Second
)

// exchange sends a request until an answer settles it or ctx is done: again
// after a reconnect, after an answer that settles nothing, and when an answer is
// overdue. Answers to every attempt count. build must give a request that may
// arrive several times, in any order, long after.
//
// The error is ErrUnknown if an attempt has no definite answer, else
// ErrUnavailable; both wrap why the waiting ended.
func (c *connection) exchange(ctx context.Context, build func(reply string) []*nats.Msg, judge func(m *nats.Msg) verdict) error {
	return c.trade(ctx, build, judge, false)
}

// trade is exchange; once: without sending again, failing at once if it cannot
// be sent now.
func (c *connection) trade(ctx context.Context, build func(reply string) []*nats.Msg, judge func(m *nats.Msg) verdict, once bool) error {
	if err := c.closed(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	type answer struct {
		attempt int
		msg     *nats.Msg
	}
	answers := make(chan answer, 16)
	token := c.await(func(attempt int, m *nats.Msg) {
		select {
		case answers <- answer{attempt, m}:
		default: // as if it had been lost
		}
	})
	defer c.forget(token)
	var (
		open    = map[int]time.Time{} // sent, no definite answer yet
		started = time.Now()
		over    = time.NewTimer(retryFor)
		timer   = time.NewTimer(0)
		attempt = -1
		last    error // why the last attempt did nothing
		sending = true
	)
	defer over.Stop()
	defer timer.Stop()
	give := func(why error) error {
		if last != nil {
			why = fmt.Errorf("%w (last answer: %w)", why, last)
		}
		if len(open) > 0 {
			return fmt.Errorf("%w after %v: %w", state.ErrUnknown, time.Since(started).Round(time.Millisecond), why)
		}
		if errors.Is(why, state.ErrClosed) {
			return why
		}
		return fmt.Errorf("%w: %w", state.ErrUnavailable, why)
	}
	<-timer.C
	for {
		up, changed := c.status()
		if once && (!up && attempt < 0 || sending && attempt >= 0) {
			return give(errNotSent)
		}
		if up && sending {
			sending = false
			attempt++
			switch err := c.post(ctx, build(c.reply(token, attempt))); {
			case err == nil:
				open[attempt] = time.Now()
				timer.Reset(c.overdue(attempt))
			case errors.Is(err, errNotSent):
				last, sending = err, true
				timer.Reset(pause(attempt))
			case errors.Is(err, errCancelled):
			case errors.Is(err, nats.ErrMaxPayload), errors.Is(err, nats.ErrBadSubject):
				return err
			default:
				open[attempt], last = time.Now(), err
				timer.Reset(c.overdue(attempt))
			}
		}
		select {
		case a := <-answers:
			if at, ok := open[a.attempt]; ok {
				c.roundTrip.add(time.Since(at))
			}
			v := refused
			if !noResponders(a.msg) {
				v = judge(a.msg)
			} else {
				last = nats.ErrNoResponders
			}
			if v == settled {
				return nil
			}
			if v == refused {
				delete(open, a.attempt)
			}
			if once {
				return give(errors.New("not taken"))
			}
			if a.attempt == attempt {
				timer.Reset(pause(attempt))
			}
		case <-timer.C:
			sending = !once
		case <-changed:
			// What was sent may be gone with the connection.
			sending = !once
		case <-ctx.Done():
			return give(ctx.Err())
		case <-over.C:
			return give(fmt.Errorf("no definite answer within %v", retryFor))
		case <-c.closing:
			return give(state.ErrClosed)
		}
	}
}

var (
	errCancelled = errors.New("not sent, nobody waits for it any more")
	errMaybeSent = errors.New("perhaps sent, nobody waits for it any more")
)

// post hands messages to the sender and waits until they are written to the
// client library.
func (c *connection) post(ctx context.Context, msgs []*nats.Msg) error {
	p := &parcel{msgs: msgs, sent: make(chan error, 1)}
	select {
	case c.out <- p:
	case <-ctx.Done():
		return errCancelled
	case <-c.closing:
		return errCancelled
	}
	select {
	case err := <-p.sent:
		return err
	case <-ctx.Done():
	case <-c.closing:
	}
	p.cancelled.Store(true)
	return errMaybeSent
}

// overdue is how long an answer is waited for before the request is sent again.
func (c *connection) overdue(attempt int) time.Duration {
	return c.roundTrip.overdue(attempt, 500*time.Millisecond, 2*time.Second)
}

// pause is how long to wait after an answer that settled nothing.
func pause(attempt int) time.Duration {
	return min(4*time.Millisecond<<min(attempt, 10), 250*time.Millisecond)
}

func noResponders(m *nats.Msg) bool {
	return len(m.Data) == 0 && m.Header.Get("Status") == "503"
}

// newID returns a random name that is a subject's token.
func newID() string {
	random := make([]byte, 10)
	rand.Read(random)
	return base32.HexEncoding.EncodeToString(random)
}
