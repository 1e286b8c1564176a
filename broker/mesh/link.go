package mesh

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

var (
	errStops    = errors.New("this replica stops")
	errEnded    = errors.New("one of the two lives is over")
	errReplaced = errors.New("a newer connection took its place")
	errSilent   = errors.New("nothing was heard for too long")
	errFenced   = errors.New("this replica may not act")
)

// byeError is the other end's reason for ending the link.
type byeError struct{ reason string }

func (e byeError) Error() string { return "ended by the other replica: " + e.reason }

// link is one connection of a pair.
type link struct {
	peer    *peer
	pair    *pair
	wire    *wire
	conn    *tls.Conn
	version uint64
	attempt uint64

	heard    atomic.Int64 // when the last byte came, as Mesh.now
	waking   chan struct{}
	finished chan struct{} // reader and writer have ended: everything that was read is handled

	// Under the peer's lock.
	ackDue, pingDue bool
	applied         *Applied // the last report written
	lost            bool

	ending   sync.Once
	ended    chan struct{} // reason and farewell are set
	reason   error
	farewell bool
	drained  chan struct{} // the reader has ended
}

func newLink(p *peer, pr *pair, w *wire, conn *tls.Conn, version, attempt uint64) *link {
	return &link{peer: p, pair: pr, wire: w, conn: conn, version: version, attempt: attempt,
		waking: make(chan struct{}, 1), ended: make(chan struct{}), drained: make(chan struct{}), finished: make(chan struct{})}
}

// farewellTime bounds the last write of a link, and the wait for the other end to close it.
const farewellTime = 250 * time.Millisecond

// end ends the link. With farewell, the writer says goodbye first. Only the first call counts. It does not block.
func (l *link) end(reason error, farewell bool) {
	l.ending.Do(func() {
		l.reason, l.farewell = reason, farewell
		if farewell {
			l.wire.SetWriteDeadline(time.Now().Add(farewellTime))
		} else {
			l.wire.Close()
		}
		close(l.ended)
	})
}

// final reports whether the link ended in a way after which it is of no use to wait for the next. Called
// after it has ended.
func (l *link) final() bool {
	var bye byeError
	return errors.Is(l.reason, errFrame) || errors.Is(l.reason, errSilent) || errors.Is(l.reason, errFenced) || errors.As(l.reason, &bye)
}

// run moves frames until the link ends; rest was read before.
func (l *link) run(rest frames) {
	var writer sync.WaitGroup
	writer.Go(func() {
		l.write()
		l.peer.lostLink(l) // also while the reader's Handler call has not returned
	})
	err := l.read(rest)
	l.end(err, errors.Is(err, errFrame))
	if l.farewell { // bytes that nobody reads would reset the connection, and the goodbye with it
		io.Copy(io.Discard, l.wire)
	}
	close(l.drained)
	writer.Wait()
	l.peer.finishedLink(l)
	close(l.finished)
}

func (l *link) wake() {
	select {
	case l.waking <- struct{}{}:
	default:
	}
}

const (
	// gatherBytes is how much one write takes together, one frame more or less.
	gatherBytes = 128 << 10
	// keptBytes is the largest buffer a link keeps.
	keptBytes = 2 * gatherBytes
)

// write writes what is due until the link ends.
func (l *link) write() {
	defer l.wire.Close()
	var buf []byte
	for {
		buf = l.gather(buf[:0])
		if len(buf) > 0 && !l.put(buf) {
			return
		}
		if cap(buf) > keptBytes {
			buf = nil
		}
		if len(buf) > 0 {
			select {
			case <-l.ended:
			default:
				continue // look again before waiting
			}
		}
		select {
		case <-l.waking:
		case <-l.ended:
			if l.farewell {
				l.goodbye(buf[:0])
			}
			return
		}
	}
}

// goodbye writes what is due with the reason after it, and gives the other end time to read it and to close.
func (l *link) goodbye(buf []byte) {
	if !l.put(appendBye(l.gather(buf), l.reason.Error())) {
		return
	}
	select {
	case <-l.drained:
	case <-time.After(farewellTime):
	}
}

// put writes frames, if this replica may act.
func (l *link) put(buf []byte) bool {
	if !l.peer.m.o.MayAct() {
		l.end(errFenced, false)
		return false
	}
	_, err := l.conn.Write(buf)
	if err == nil {
		err = l.wire.flush()
	}
	if err != nil {
		l.end(fmt.Errorf("write: %w", plain(err)), false)
	}
	return err == nil
}

// gather appends what is due to buf.
func (l *link) gather(buf []byte) []byte {
	l.peer.mu.Lock()
	defer l.peer.mu.Unlock()
	if l.peer.link != l || l.peer.pair != l.pair {
		return buf
	}
	if l.ackDue {
		l.ackDue = false
		buf = appendNumber(buf, kindAck, l.pair.in.handled)
	}
	if a := l.peer.m.applied.Load(); a != nil && a != l.applied {
		l.applied = a
		buf = appendApplied(buf, *a)
	}
	for len(buf) < gatherBytes {
		frame, number, skip, ok := l.pair.out.next()
		if !ok {
			break
		}
		if skip {
			buf = appendNumber(buf, kindSkip, number-1)
		}
		buf = append(buf, frame...)
	}
	if l.pingDue {
		l.pingDue = false
		buf = appendNumber(buf, kindPing, l.pair.out.wire)
	}
	return buf
}
