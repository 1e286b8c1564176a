package jetstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"maestrohub.io/uns/broker/state"
)

// errGone: somebody deleted a stream under the store.
var errGone = errors.New("deleted while this replica runs; restart all replicas, which makes it again, or restore it from a backup while they are stopped")

// goneFor is how long a stream must have been missing, or another one in its place, to be
// gone for good: a JetStream that has just started may not know all of its streams, and a
// server that was away may speak of one that was deleted meanwhile.
const goneFor = 10 * time.Second

// askFor bounds how long a stream is waited for to say its stamp.
const askFor = 30 * time.Second

// openedStreams are the streams that a store has opened.
type openedStreams struct {
	mu     sync.Mutex // below; taken last
	all    []*openedStream
	next   int // the one whose turn it is to be asked for its stamp
	asking bool
}

// openedStream is what is known of one of them. A stamp (stampKey) is given to a stream at
// its creation and never later, so one without is another than one with: what a replica of
// an older release has made, and a replica of this one again. The other way round nothing
// is known: an operator may have written other metadata over it.
//
// When a stream was made tells nothing: servers that have restored it from a backup each
// name another time, so that it would be taken for another one whenever its leader moves.
// The stamp is part of the configuration, on which all servers agree, and comes back with it.
type openedStream struct {
	name    string
	stamp   string    // of when it was opened
	missing time.Time // since when it is not listed; zero: it is
	other   time.Time // since when another one answers in its place; zero: it does
	doubt   bool      // it is asked before others
	gone    bool      // for good
}

func (o *openedStreams) add(name, stamp string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, &openedStream{name: name, stamp: stamp})
}

// listed takes in whether a listing has the stream.
func (o *openedStream) listed(there bool, now time.Time) {
	o.doubt = o.doubt || !there
	switch {
	case o.gone:
	case there && (o.missing.IsZero() || now.Sub(o.missing) < goneFor):
		o.missing = time.Time{}
	case o.missing.IsZero():
		o.missing = now
	default:
		o.gone = now.Sub(o.missing) >= goneFor
	}
}

// answered takes in the stamp of the stream that goes by its name.
func (o *openedStream) answered(stamp string, now time.Time) {
	o.doubt = stamp != o.stamp && stamp != ""
	switch {
	case !o.doubt:
		o.other = time.Time{}
	case o.other.IsZero():
		o.other = now
	default:
		o.gone = o.gone || now.Sub(o.other) >= goneFor
	}
}

func (o *openedStream) whole() bool { return !o.gone && o.missing.IsZero() && o.other.IsZero() }

// whole fails while a stream is missing that this store has opened, or is another one.
// After goneFor of that it stays gone for this store: whoever made it again began its
// sequences anew, and what this replica knows of the old one fits it no more.
//
// A stream that is made again at once is missing in no listing: one of them is asked for its
// stamp each time, and nobody waits for the answer.
func (s *Store) whole(ctx context.Context) error {
	s.askOne()
	there, err := s.streamNames(ctx)
	if err != nil {
		return err
	}
	o := &s.opened
	o.mu.Lock()
	defer o.mu.Unlock()
	var missing []string
	for _, stream := range o.all {
		if stream.listed(there[stream.name], time.Now()); !stream.whole() {
			missing = append(missing, stream.name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return fmt.Errorf("%w: %s %w", state.ErrUnavailable, strings.Join(missing, " and "), errGone)
}

// askOne asks one stream for its stamp, unless another is being asked: one whose leader does
// not answer is nobody's concern but its users'.
func (s *Store) askOne() {
	o := &s.opened
	name, ok := o.ask()
	if !ok {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), askFor)
		defer cancel()
		_, _ = s.shared.info(ctx, name) // no answer: its next turn comes
		o.mu.Lock()
		defer o.mu.Unlock()
		o.asking = false
	}()
}

// ask is the stream to be asked: one in doubt, else each in its turn.
func (o *openedStreams) ask() (name string, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.asking || len(o.all) == 0 {
		return "", false
	}
	o.asking = true
	for _, stream := range o.all {
		if stream.doubt && !stream.gone {
			stream.doubt = false // if it does not answer, others are not kept from their turn
			return stream.name, true
		}
	}
	o.next = (o.next + 1) % len(o.all)
	return o.all[o.next].name, true
}

// answered takes in what a stream's leader said, whoever asked it.
func (o *openedStreams) answered(info streamInfo) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, stream := range o.all {
		if stream.name == info.Config.Name {
			stream.answered(info.stamp(), time.Now())
		}
	}
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
