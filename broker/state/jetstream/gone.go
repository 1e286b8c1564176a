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

// openedStreams are the streams that a store has opened. Guarded by the store's lock.
type openedStreams struct{ all []*openedStream }

type openedStream struct {
	name    string
	missing time.Time // since when; zero: it is there
	gone    bool      // for good
}

func (o *openedStreams) add(name string) { o.all = append(o.all, &openedStream{name: name}) }

// whole fails while a stream is missing that this store has opened. One that was
// missing for goneFor stays gone for this store: whoever made it again began its
// sequences anew, and what this replica knows of the old one fits it no more.
//
// When a stream was made tells nothing: servers that have restored it from a backup each
// name another time, so that it would be taken for another one whenever its leader moves.
func (s *Store) whole(ctx context.Context) error {
	there, err := s.streamNames(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var missing []string
	for _, o := range s.opened.all {
		switch {
		case o.gone:
		case there[o.name] && (o.missing.IsZero() || time.Since(o.missing) < goneFor):
			o.missing = time.Time{}
		case o.missing.IsZero():
			o.missing = time.Now()
		default:
			o.gone = time.Since(o.missing) >= goneFor
		}
		if o.gone || !o.missing.IsZero() {
			missing = append(missing, o.name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return fmt.Errorf("%w: %s %w", state.ErrUnavailable, strings.Join(missing, " and "), errGone)
}

// streamNames are the account's streams.
func (s *Store) streamNames(ctx context.Context) (map[string]bool, error) {
	there := map[string]bool{}
	for offset := 0; ; {
		var page struct {
			Total   int      `json:"total"`
			Streams []string `json:"streams"`
		}
		if err := s.shared.request(ctx, "$JS.API.STREAM.NAMES", map[string]int{"offset": offset}, &page); err != nil {
			return nil, fmt.Errorf("list the streams: %w", err)
		}
		for _, name := range page.Streams {
			there[name] = true
		}
		if offset += len(page.Streams); len(page.Streams) == 0 || offset >= page.Total {
			return there, nil
		}
	}
}

// present answers who asks which replicas there are.
func (c *connection) present(replica string) error {
	_, err := c.nc.Subscribe(state.PresenceSubject, func(m *nats.Msg) { _ = m.Respond([]byte(replica)) })
	if err != nil {
		return fmt.Errorf("subscribe to %s: %w", state.PresenceSubject, err)
	}
	return nil
}
