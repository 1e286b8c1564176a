package jetstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"maestrohub.io/uns/broker/state"
)

// errGone: somebody deleted a stream under the store.
var errGone = errors.New("deleted while this replica runs; restart all replicas, which makes it again, or restore it from a backup while they are stopped")

// goneFor is how long a stream must have been missing to be gone for good: a JetStream
// that has just started may not know all of its streams.
const goneFor = 10 * time.Second

// whole fails while a stream is missing that this store has opened. One that was
// missing for goneFor stays gone for this store: whoever made it again began its
// sequences anew, and what this replica knows of the old one fits it no more.
func (s *Store) whole(ctx context.Context) error {
	s.mu.Lock()
	var opened []string
	for _, b := range s.buckets {
		opened = append(opened, b.stream)
	}
	for _, l := range s.logs {
		opened = append(opened, l.stream)
	}
	s.mu.Unlock()
	there := map[string]bool{}
	for offset := 0; ; {
		var page struct {
			Total   int      `json:"total"`
			Streams []string `json:"streams"`
		}
		if err := s.shared.request(ctx, "$JS.API.STREAM.NAMES", map[string]int{"offset": offset}, &page); err != nil {
			return fmt.Errorf("list the streams: %w", err)
		}
		for _, name := range page.Streams {
			there[name] = true
		}
		if offset += len(page.Streams); len(page.Streams) == 0 || offset >= page.Total {
			break
		}
	}
	var missing []string
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range opened {
		since, known := s.gone[name]
		switch {
		case there[name] && time.Since(since) < goneFor:
			delete(s.gone, name)
		case there[name] && !known:
		case !known:
			if s.gone == nil {
				s.gone = map[string]time.Time{}
			}
			s.gone[name] = time.Now()
			missing = append(missing, name)
		default:
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return fmt.Errorf("%w: %s %w", state.ErrUnavailable, strings.Join(missing, " and "), errGone)
}

// present answers who asks which replicas there are.
func (c *connection) present(replica string) error {
	_, err := c.nc.Subscribe(state.PresenceSubject, func(m *nats.Msg) { _ = m.Respond([]byte(replica)) })
	if err != nil {
		return fmt.Errorf("subscribe to %s: %w", state.PresenceSubject, err)
	}
	return nil
}
