package mesh

import (
	"bytes"
	"fmt"
	"time"
)

const (
	// flightBytes bounds what is written and not acknowledged.
	flightBytes = 4 << 20
	// entryBytes is what a frame costs beside its bytes.
	entryBytes = 64
)

// entry is one numbered frame that waits to be acknowledged.
type entry struct {
	number uint64
	frame  []byte // may be shared between peers, never changed; nil: taken back
	part   bool   // frame is part of a larger buffer
	kind   kind
	share  uint64        // the call a share frame belongs to
	at     time.Duration // when it was given to us
	wait   *waiter       // told when it is acknowledged, dropped or not waited for any more; may be nil
}

func (e *entry) cost() int { return len(e.frame) + entryBytes }

// outbox holds the numbered frames of one pair from the moment they are sent until they are
// acknowledged. It belongs to the pair, not to a link: after a link is lost, resume says what arrived.
//
// Invariants:
//
//  1. Numbers increase by one with each push. kept and fresh are in the order of their numbers, all of
//     kept before all of fresh.
//  2. A frame that was once given out by next is in kept until it is acknowledged. Nothing in kept is
//     ever dropped, so what is counted as lost was never on a wire.
//  3. What other replicas wait for (answers, questions) is never dropped: an overflow moves it to kept.
//  4. wire is the number the other end of this link has counted to, once it has read what was given out.
type outbox struct {
	limit int

	kept    fifo[entry]
	fresh   fifo[entry]
	written int // entries of kept given out on this link

	last   uint64 // number of the last push
	acked  uint64
	wire   uint64
	flown  uint64 // the highest number ever given out
	bytes  int    // cost of kept and fresh
	flight int    // cost of kept[:written]
	waits  int    // entries with a waiter
}

// evicted is what an overflow dropped.
type evicted struct {
	values int
	shares []uint64
	waits  []*waiter
}

// push numbers a frame, and drops the oldest droppable ones if there are too many bytes.
func (o *outbox) push(e entry, out *evicted) {
	o.last++
	e.number = o.last
	o.bytes += e.cost()
	if e.wait != nil {
		o.waits++
	}
	o.fresh.push(e)
	for o.bytes > o.limit && o.fresh.len() > 0 {
		e := o.fresh.pop()
		switch {
		case e.frame == nil:
			o.bytes -= e.cost()
		case e.kind == kindValue:
			o.drop(&e, out)
			out.values++
		case e.kind == kindShare:
			o.drop(&e, out)
			out.shares = append(out.shares, e.share)
		default:
			o.kept.push(e)
		}
	}
}

func (o *outbox) drop(e *entry, out *evicted) {
	o.bytes -= e.cost()
	if e.wait != nil {
		o.waits--
		out.waits = append(out.waits, e.wait)
	}
}

// next returns the next frame to write on this link, and whether a skip to the number before it has to
// be written first. ok is false if there is none, or too much is in flight.
func (o *outbox) next() (frame []byte, number uint64, skip, ok bool) {
	var e *entry
	for e == nil {
		switch {
		case o.written < o.kept.len():
			e = o.kept.at(o.written)
		case o.fresh.len() == 0:
			return nil, 0, false, false
		case o.fresh.at(0).frame == nil:
			o.bytes -= o.fresh.at(0).cost()
			o.fresh.pop()
			continue
		default:
			e = o.fresh.at(0)
		}
	}
	if o.flight > 0 && o.flight+e.cost() > flightBytes {
		return nil, 0, false, false
	}
	if o.written == o.kept.len() {
		o.kept.push(o.fresh.pop())
		e = o.kept.at(o.written)
	}
	o.written++
	o.flight += e.cost()
	skip = e.number != o.wire+1
	o.wire = e.number
	o.flown = max(o.flown, e.number)
	return e.frame, e.number, skip, true
}

// ack takes in that the other end has handled everything up to a number, and appends the waiters that
// this tells.
func (o *outbox) ack(n uint64, waits []*waiter) ([]*waiter, error) {
	if n < o.acked || n > o.wire {
		return waits, fmt.Errorf("acknowledgment of frame %d, want %d to %d", n, o.acked, o.wire)
	}
	o.acked = n
	for o.kept.len() > 0 && o.kept.at(0).number <= n {
		e := o.kept.pop()
		o.bytes -= e.cost()
		if o.written > 0 {
			o.written--
			o.flight -= e.cost()
		}
		if e.wait != nil {
			o.waits--
			waits = append(waits, e.wait)
		}
	}
	return waits, nil
}

// resume begins a link whose other end has handled everything up to a number.
func (o *outbox) resume(n uint64, waits []*waiter) ([]*waiter, error) {
	if n < o.acked || n > o.flown {
		return waits, fmt.Errorf("the other end says it has handled frame %d, want %d to %d", n, o.acked, o.flown)
	}
	o.written, o.flight, o.wire = 0, 0, o.flown
	waits, err := o.ack(n, waits)
	o.wire = n
	return waits, err
}

// oldest returns when the oldest frame that is not acknowledged was given to us.
func (o *outbox) oldest() (at time.Duration, ok bool) {
	for o.kept.len() == 0 && o.fresh.len() > 0 && o.fresh.at(0).frame == nil {
		o.bytes -= o.fresh.at(0).cost()
		o.fresh.pop()
	}
	switch {
	case o.kept.len() > 0:
		return o.kept.at(0).at, true
	case o.fresh.len() > 0:
		return o.fresh.at(0).at, true
	}
	return 0, false
}

// unwait forgets all waiters and returns them: the peer is not waited for.
func (o *outbox) unwait(waits []*waiter) []*waiter {
	if o.waits == 0 {
		return waits
	}
	o.waits = 0
	for _, q := range []*fifo[entry]{&o.kept, &o.fresh} {
		for i := range q.len() {
			if e := q.at(i); e.wait != nil {
				waits = append(waits, e.wait)
				e.wait = nil
			}
		}
	}
	return waits
}

// own copies every frame that is part of a larger buffer: what is kept for long must not cost more than is
// counted.
func (o *outbox) own() {
	for _, q := range []*fifo[entry]{&o.kept, &o.fresh} {
		for i := range q.len() {
			q.at(i).own()
		}
	}
}

func (e *entry) own() {
	if e.part {
		e.frame, e.part = bytes.Clone(e.frame), false
	}
}

// takeBack removes the share frames that were never on a wire and returns their calls.
func (o *outbox) takeBack() (shares []uint64) {
	for i := range o.fresh.len() {
		if e := o.fresh.at(i); e.kind == kindShare && e.frame != nil {
			o.bytes -= len(e.frame)
			e.frame = nil
			shares = append(shares, e.share)
		}
	}
	return shares
}
