package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
)

// Client speaks to the JetStream of the account that nc signed in to.
type Client struct {
	nc *nats.Conn
	// idle is how long NATS may send nothing before it is given up.
	idle time.Duration
	// say is told what happens, one line each.
	say func(format string, args ...any)
}

// NewClient returns a client that gives NATS up after it has been silent for idle (0:
// 30 s) and tells say what it does.
func NewClient(nc *nats.Conn, idle time.Duration, say func(format string, args ...any)) *Client {
	if idle == 0 {
		idle = 30 * time.Second
	}
	return &Client{nc: nc, idle: idle, say: say}
}

// apiError is an error of JetStream's.
type apiError struct {
	Status      int    `json:"code"`
	Code        int    `json:"err_code"`
	Description string `json:"description"`
}

func (e *apiError) Error() string { return fmt.Sprintf("%s (%d)", e.Description, e.Code) }

// Codes of JetStream's errors.
const (
	codeNoStream     = 10059
	codeNoMessage    = 10037
	codeStreamExists = 10058
)

func isCode(err error, code int) bool {
	var e *apiError
	return errors.As(err, &e) && e.Code == code
}

// request asks the JetStream API, again while no leader answers, for idle at most.
func (c *Client) request(ctx context.Context, subject string, body, into any) error {
	var data []byte // some requests must be empty
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return fmt.Errorf("%s: %w", subject, err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, c.idle)
	defer cancel()
	for {
		err := c.ask(ctx, subject, data, into)
		var e *apiError
		leaderless := errors.Is(err, nats.ErrNoResponders) || errors.As(err, &e) && e.Status == 503
		if err == nil || !leaderless {
			return err
		}
		if wait(ctx, 250*time.Millisecond) != nil {
			return fmt.Errorf("%w for %v; is JetStream on, and are most of its servers up?", err, c.idle)
		}
	}
}

func (c *Client) ask(ctx context.Context, subject string, data []byte, into any) error {
	m, err := c.nc.RequestWithContext(ctx, subject, data)
	if err != nil {
		return fmt.Errorf("ask NATS (%s): %w", subject, err)
	}
	return answer(m.Data, into)
}

// answer reads an answer of the JetStream API.
func answer(data []byte, into any) error {
	var e struct {
		Error *apiError `json:"error"`
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return fmt.Errorf("answer of NATS: %w", err)
	}
	if e.Error != nil {
		return e.Error
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("answer of NATS: %w", err)
	}
	return nil
}

// streams is the names of all streams of the account, sorted.
func (c *Client) streams(ctx context.Context) ([]string, error) {
	var names []string
	for {
		var page struct {
			Total   int      `json:"total"`
			Streams []string `json:"streams"`
		}
		if err := c.request(ctx, "$JS.API.STREAM.NAMES", map[string]int{"offset": len(names)}, &page); err != nil {
			return nil, fmt.Errorf("list streams: %w", err)
		}
		names = append(names, page.Streams...)
		if len(page.Streams) == 0 || len(names) >= page.Total {
			slices.Sort(names)
			return names, nil
		}
	}
}

// streamState is what JetStream says a stream holds.
type streamState struct {
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
	First    uint64 `json:"first_seq"`
	Last     uint64 `json:"last_seq"`
}

func (c *Client) state(ctx context.Context, stream string) (streamState, error) {
	var info struct {
		State streamState `json:"state"`
	}
	err := c.request(ctx, "$JS.API.STREAM.INFO."+stream, nil, &info)
	return info.State, err
}

func (c *Client) remove(ctx context.Context, stream string) error {
	if err := c.request(ctx, "$JS.API.STREAM.DELETE."+stream, nil, nil); err != nil && !isCode(err, codeNoStream) {
		return fmt.Errorf("delete stream %s: %w", stream, err)
	}
	return nil
}

// wait waits, or returns ctx's error.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
