package mesh

import (
	"errors"
	"fmt"

	"maestrohub.io/uns/broker/value"
)

const (
	// readBytes is the buffer a link reads into; a larger frame gets one of its own.
	readBytes = 64 << 10
	// batchValues bounds one Handler.Values call, and with it how long nothing is acknowledged.
	batchValues = 512
)

// reader reads a link's frames and hands them on.
type reader struct {
	*link
	from    Peer
	frames  frames
	batch   []Received
	counted uint64 // numbered frames taken and not yet said to be handled, in batch or unreadable
	waits   []*waiter
}

// read returns why the link has ended.
func (l *link) read(rest frames) error {
	l.peer.mu.Lock()
	r := reader{link: l, from: l.peer.known, frames: rest}
	l.peer.mu.Unlock()
	r.from.Incarnation = l.pair.remote
	if err := r.take(); err != nil {
		return err
	}
	for {
		n, err := l.conn.Read(r.frames.space())
		if n > 0 {
			l.heard.Store(int64(l.peer.m.now()))
			r.frames.end += n
			select {
			case <-l.ended:
				return l.reason
			default:
			}
			if err := r.take(); err != nil {
				return err
			}
		}
		if err != nil {
			return fmt.Errorf("read: %w", plain(err))
		}
	}
}

// take handles every whole frame there is.
func (r *reader) take() error {
	for {
		k, payload, own, ok, err := r.frames.next()
		if ok {
			err = r.frame(k, payload, own)
		}
		if err != nil || !ok {
			r.deliver()
			return err
		}
	}
}

// frame handles one frame.
func (r *reader) frame(k kind, payload []byte, own bool) error {
	switch k {
	case kindValue:
		if len(payload) == 0 {
			return fmt.Errorf("%w: value: flags cut short", errFrame)
		}
		if v := r.decode(payload[1:], own); v != nil {
			r.batch = append(r.batch, Received{Value: v, Flags: Flags(payload[0])})
		}
		if r.counted++; r.counted >= batchValues {
			r.deliver()
		}
		return nil
	case kindAck:
		return r.ack(payload)
	}
	r.deliver()
	if k.numbered() {
		if err := r.question(k, payload, own); err != nil {
			return err
		}
		r.counted++
		r.deliver()
		return nil
	}
	return r.control(k, payload)
}

// decode reads a record, copied out of the read buffer: a value in a slow subscriber's queue then holds
// its own bytes and not the buffer of a hundred others. Nil if the record cannot be read.
func (r *reader) decode(record []byte, own bool) *value.Value {
	if !own {
		record = append(make([]byte, 0, len(record)), record...)
	}
	v, err := value.DecodeRecord(record)
	if err != nil {
		r.peer.unreadable.Add(1)
		if r.peer.m.said.anew(r.peer.id+"/unreadable", "") {
			r.peer.m.o.Logger.Error("mesh: a value of another replica cannot be read", "peer", r.peer.id, "error", err)
		}
		return nil
	}
	return v
}

// deliver gives the batch to the handler, and has it acknowledged.
func (r *reader) deliver() {
	if r.counted == 0 {
		return
	}
	if len(r.batch) > 0 {
		r.peer.m.o.Handler.Values(r.from, r.batch)
		r.peer.received.Add(uint64(len(r.batch)))
		clear(r.batch)
		r.batch = r.batch[:0]
	}
	r.peer.mu.Lock()
	r.pair.in.handled += r.counted
	r.ackDue = true
	r.peer.mu.Unlock()
	r.counted = 0
	r.wake()
}

func (r *reader) ack(payload []byte) error {
	n, err := decodeNumber("ack", payload)
	if err != nil {
		return err
	}
	r.peer.mu.Lock()
	if r.peer.link == r.link { // else the numbers are another link's
		r.waits, err = r.pair.out.ack(n, r.waits[:0])
	}
	r.peer.mu.Unlock()
	for _, w := range r.waits {
		w.arrive()
	}
	clear(r.waits)
	r.waits = r.waits[:0]
	r.wake() // there may be room in flight
	if err != nil {
		return fmt.Errorf("%w: %w", errFrame, err)
	}
	return nil
}

// control handles the frames without a number.
func (r *reader) control(k kind, payload []byte) (err error) {
	var n uint64
	switch k {
	case kindPing:
		if n, err = decodeNumber("ping", payload); err != nil {
			return err
		}
		r.peer.mu.Lock()
		err = r.pair.in.check(n)
		r.ackDue = true
		r.peer.mu.Unlock()
		r.wake()
	case kindSkip:
		if n, err = decodeNumber("skip", payload); err != nil {
			return err
		}
		r.peer.mu.Lock()
		err = r.pair.in.skip(n)
		r.peer.mu.Unlock()
	case kindApplied:
		a, err := decodeApplied(payload)
		if err != nil {
			return err
		}
		r.peer.m.o.Handler.Applied(r.from, a)
	case kindBye:
		reason, err := decodeBye(payload)
		if err != nil {
			return err
		}
		return byeError{reason}
	default:
		err = fmt.Errorf("kind %d", k)
	}
	if err != nil && !errors.Is(err, errFrame) {
		err = fmt.Errorf("%w: %w", errFrame, err)
	}
	return err
}
