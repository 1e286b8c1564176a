package jetstream

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"maestrohub.io/uns/broker/state"
)

// feed follows a stream through its republished messages, one subscription for
// everybody in this process. A consumer would be blind for seconds, or for good,
// when the server that hosts it dies; republished messages come from the stream's
// leader itself. They come without a promise, so the feed
//
//   - checks that sequences follow one another, and reads what is missing,
//   - asks for what follows the last one when nothing came for a while, because
//     the loss of the last message shows in no gap,
//   - begins anew when the stream was deleted and made again.
type feed struct {
	conn    *connection
	stream  string
	subject string        // republished messages
	every   time.Duration // how often it asks when nothing comes
	// begin is told the first sequence that will be delivered; deliver is given
	// every message from there on in order; lost is told of sequences that
	// the stream no longer has, before the message after them. All run on the
	// feed's goroutine.
	begin   func(next uint64)
	deliver func(m message)
	lost    func(from, to uint64)
	// passed, if not nil, is told that given has moved.
	passed func()
	given  atomic.Uint64 // the last sequence that was delivered, or is no more
	hurry  chan struct{} // holds one token where somebody waits for what there is

	mu      sync.Mutex // below
	started chan struct{}
	ended   chan struct{} // closed when the last run has ended
	users   int
	stop    context.CancelFunc
	next    uint64 // the sequence expected

	filled time.Time // the goroutine's: when repeated messages were last accounted for
}

// feedBuffer is how many republished messages may wait while a gap is read.
const feedBuffer = 1 << 14

// retryScan is the pause after a listing that failed.
const retryScan = 100 * time.Millisecond

// use starts the feed if need be and waits until it follows. Every use is
// given back by release.
func (f *feed) use(ctx context.Context) error {
	f.mu.Lock()
	f.users++
	if f.stop == nil {
		run, stop := context.WithCancel(context.Background())
		f.stop = stop
		f.started = make(chan struct{})
		before, ended, started := f.ended, make(chan struct{}), f.started
		f.ended = ended
		go func() {
			defer close(ended)
			if before != nil {
				<-before // two at once would deliver in no order
			}
			f.run(run, started)
		}()
	}
	started := f.started
	f.mu.Unlock()
	select {
	case <-started:
		return nil
	case <-ctx.Done():
		f.release()
		return ctx.Err()
	case <-f.conn.closing:
		f.release()
		return state.ErrClosed
	}
}

func (f *feed) release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.users--; f.users == 0 {
		f.stop()
		f.stop = nil
	}
}

// run follows until ctx is done or the connection closed.
func (f *feed) run(ctx context.Context, started chan struct{}) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-f.conn.closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	msgs := make(chan *nats.Msg, feedBuffer)
	sub, err := f.conn.nc.ChanSubscribe(f.subject, msgs)
	if err != nil {
		return // the connection is closed
	}
	defer sub.Unsubscribe() // an error: closed
	var next uint64
	for {
		// From the last there is. What is written before the servers know of
		// the subscription is a gap.
		info, err := f.conn.info(ctx, f.stream)
		if err == nil {
			next = info.State.Last + 1
			break
		}
		if ctx.Err() != nil || f.conn.rest(ctx, 100*time.Millisecond) != nil {
			return
		}
	}
	f.advance(next)
	f.begin(next)
	f.gave(next - 1)
	close(started)
	quiet := time.NewTimer(f.every)
	defer quiet.Stop()
	_, changed := f.conn.status()
	for {
		select {
		case m := <-msgs:
			got, err := readMessage(m)
			if err != nil {
				continue // not the server's: whoever may publish here can do worse
			}
			switch {
			case got.sequence == next:
				next++
				f.advance(next)
				f.deliver(got)
				f.gave(got.sequence)
			case got.sequence > next:
				next = f.fill(ctx, next, got.sequence)
			default:
				next = f.repeated(ctx, next)
			}
		case <-f.hurry:
			quiet.Reset(soon)
			continue
		case <-quiet.C:
			next = f.fill(ctx, next, 0)
		case <-changed:
			_, changed = f.conn.status()
			next = f.fill(ctx, next, 0)
		case <-ctx.Done():
			return
		}
		if ctx.Err() != nil {
			return
		}
		quiet.Reset(f.every)
	}
}

func (f *feed) advance(next uint64) {
	f.mu.Lock()
	f.next = next
	f.mu.Unlock()
}

func (f *feed) gave(sequence uint64) {
	f.given.Store(sequence)
	if f.passed != nil {
		f.passed()
	}
}

// soon is how long a republished message may take that somebody waits for, before what
// there is is read.
const soon = 10 * time.Millisecond

// expect has the feed read a message that does not come by itself.
func (f *feed) expect(sequence uint64) {
	if f.given.Load() >= sequence {
		return
	}
	select {
	case f.hurry <- struct{}{}:
	default:
	}
}

// position is the sequence after the last message delivered or just being
// delivered: whoever asks and then reads up to it, and queues what is delivered
// from before it asked, misses nothing.
func (f *feed) position() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.next
}

// fill reads from next on what the stream has, at least up to seen, and
// delivers it; it returns the sequence then expected.
func (f *feed) fill(ctx context.Context, next, seen uint64) uint64 {
	for try := 0; ; {
		msgs, more, err := f.conn.page(ctx, f.stream, "", next, pageMessages)
		if err != nil {
			if f.conn.rest(ctx, 50*time.Millisecond) != nil || seen == 0 {
				return next
			}
			continue
		}
		for _, m := range msgs {
			if m.sequence > next {
				f.lost(next, m.sequence)
			}
			next = m.sequence + 1
			f.advance(next)
			f.deliver(m)
			f.gave(m.sequence)
			f.filled = time.Now()
		}
		if more {
			continue
		}
		if next > seen {
			return next
		}
		// This copy lags behind the leader that published seen, or seen is
		// gone again and with it all before.
		if try++; try%8 == 0 {
			if _, err := f.conn.get(ctx, f.stream, getRequest{Sequence: next, Next: ">"}); errors.Is(err, state.ErrNotFound) {
				f.lost(next, seen+1)
				f.advance(seen + 1)
				f.gave(seen)
				return seen + 1
			}
		}
		if f.conn.rest(ctx, min(time.Millisecond<<min(try, 6), 50*time.Millisecond)) != nil {
			return next
		}
	}
}

// repeated handles a sequence that was expected earlier: read already to fill a
// gap, or the stream was made anew and counts from 1 again, which its leader
// tells; it is not asked for every message.
func (f *feed) repeated(ctx context.Context, next uint64) uint64 {
	if time.Since(f.filled) < time.Second {
		return next
	}
	info, err := f.conn.info(ctx, f.stream)
	if err != nil {
		return next
	}
	f.filled = time.Now()
	if info.State.Last >= next-1 {
		return next
	}
	f.given.Store(0)
	f.lost(1, next)
	f.advance(1)
	return f.fill(ctx, 1, 0)
}
