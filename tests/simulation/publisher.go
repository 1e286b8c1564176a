package simulation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"maestrohub.io/uns/broker/mqtt"
)

// publisher sends the numbers from 1 on, in order, over its topics in turn, each until it
// is acknowledged to the end. A value that is refused is sent again once nothing else is
// in flight, so that its order stays.
type publisher struct {
	device
	qos    byte
	topics []string
	window int
	every  time.Duration
	timed  bool
	loss   time.Duration    // between two losses of the connection, at most
	most   int              // values it sends; 0: as many as there is time for
	begins func(number int) // is told before each value; nil: nobody

	next    int
	sent    []*sending // by number - 1
	flights []*flight  // in sending order
	again   []*flight
	due     time.Time
	lossAt  time.Time
}

// sending is what is known of a value.
type sending struct {
	number int
	topic  string
	qos    byte
	first  time.Time // when it was first written
	conn   int       // over which connection
	// strayed: it was refused, and sent again over another connection, behind what had
	// been sent after it.
	strayed bool
	acked   time.Time // when the broker wrote its acknowledgment; zero: it is not
	by      *node     // that acknowledged it
	body    string
	// repeats are the times it was sent again without a PUBREC.
	repeats []repeat
	// refusals are those its device heard of.
	refusals []refusal
}

// refusal is a PUBACK or PUBREC of 0x80 or above, over a connection.
type refusal struct {
	conn int
	at   time.Time
}

// repeat is a PUBLISH at QoS 2 that was sent again.
type repeat struct {
	conn    int       // over which it was sent before
	from    *node     // where that was
	since   time.Time // when it was first sent there
	to      *node
	until   time.Time // when the new connection was accepted
	present bool
}

// flight is a value that is not acknowledged to the end.
type flight struct {
	id       uint16
	s        *sending
	released bool
	written  bool
	refused  int       // over which connection it was refused last
	at       *node     // where it was last sent
	since    time.Time // when it was first sent there
}

// run publishes until ctx ends and what is open is settled, within settle.
func (p *publisher) run(ctx, settle context.Context) {
	p.next = 1
	for !p.enough(ctx) || len(p.flights)+len(p.again) > 0 {
		ack, err := p.connect(settle, 65535, nil)
		if err != nil {
			p.w.violate("%s could not settle %d values: %v", p.id, len(p.flights)+len(p.again), err)
			return
		}
		p.lossAt = time.Now().Add(p.loss/10 + time.Duration(p.r.Int64N(int64(p.loss))))
		err = p.some(ctx, settle, ack.SessionPresent)
		if err != nil {
			p.w.trace.say("%s leaves %s: %v", p.id, p.at.name, err)
		}
		if settle.Err() != nil {
			p.w.violate("%s could not settle %d values", p.id, len(p.flights)+len(p.again))
			return
		}
		if err != nil && !errors.Is(err, errLost) {
			p.w.violate("%s: %v", p.id, err)
			return
		}
	}
	p.disconnect()
}

// some sends again what is open, then goes on, until all is settled or the connection is
// over.
func (p *publisher) some(ctx, settle context.Context, present bool) error {
	if !present {
		// The broker knows nothing of what was in flight: an identifier that was released is
		// done with, for the message was acknowledged.
		kept := p.flights[:0]
		for _, f := range p.flights {
			if !f.released {
				kept = append(kept, f)
			}
		}
		p.flights = kept
	}
	for _, f := range p.flights {
		p.put(f, true, present)
	}
	for !p.enough(ctx) || len(p.flights)+len(p.again) > 0 {
		p.fill(ctx)
		if err := p.flush(); err != nil {
			return err
		}
		deadline := time.Now().Add(patience)
		wait := !p.enough(ctx) && len(p.flights) < p.window && len(p.again) == 0
		if wait {
			deadline = p.due
		}
		if ctx.Err() == nil && p.lossAt.Before(deadline) {
			deadline = p.lossAt
		}
		h, body, err := p.read(settle, deadline)
		switch {
		case errors.Is(err, errQuiet) && ctx.Err() == nil && !time.Now().Before(p.lossAt):
			return errOnPurpose
		case errors.Is(err, errQuiet) && wait:
			continue
		case errors.Is(err, errQuiet):
			p.w.trace.say("%s hears nothing from %s", p.id, p.at.name)
			return errLost
		case err != nil:
			return err
		}
		if err := p.take(h, body); err != nil {
			return err
		}
	}
	return nil
}

// enough reports whether no new value is to be sent.
func (p *publisher) enough(ctx context.Context) bool {
	return ctx.Err() != nil || p.most > 0 && p.next > p.most
}

// fill fills the window.
func (p *publisher) fill(ctx context.Context) {
	if len(p.flights) == 0 && len(p.again) > 0 {
		p.flights, p.again = p.again, nil
		for _, f := range p.flights {
			f.written = false // it was refused: not taken
			f.s.strayed = f.s.strayed || f.refused != p.conns
			p.put(f, false, true)
		}
	}
	for len(p.again) == 0 && len(p.flights) < p.window && !p.enough(ctx) {
		now := time.Now()
		if now.Before(p.due) {
			return
		}
		if p.begins != nil {
			p.begins(p.next)
		}
		p.due = now.Add(p.every/2 + time.Duration(p.r.Int64N(int64(p.every))))
		s := &sending{number: p.next, topic: p.topics[p.r.IntN(len(p.topics))], qos: p.qos, first: now, conn: p.conns}
		s.body = fmt.Sprint(s.number)
		if p.timed {
			s.body = fmt.Sprintf(`{"timestamp":%q,"value":%d}`, now.UTC().Format(time.RFC3339Nano), s.number)
		}
		p.next++
		p.sent = append(p.sent, s)
		f := &flight{s: s}
		if p.qos > 0 {
			f.id = p.free()
			p.flights = append(p.flights, f)
		}
		p.put(f, false, true)
	}
}

// free returns an identifier that is not in use.
func (p *publisher) free() uint16 {
	for id := uint16(1); ; id++ {
		used := false
		for _, f := range p.flights {
			used = used || f.id == id
		}
		if !used {
			return id
		}
	}
}

func (p *publisher) put(f *flight, dup, present bool) {
	if f.released {
		p.out = mqtt.AppendAck(p.out, p.version, mqtt.PUBREL, f.id, mqtt.Success)
		return
	}
	if f.written {
		f.s.repeats = append(f.s.repeats, repeat{conn: p.conns - 1, from: f.at, since: f.since, to: p.at, until: p.answered, present: present})
	}
	if !f.written || f.at != p.at || dup {
		f.at, f.since = p.at, time.Now()
	}
	f.written = true
	m := mqtt.Publish{Topic: []byte(inbox + f.s.topic), QoS: p.qos, Dup: dup, PacketID: f.id, Payload: []byte(f.s.body)}
	p.out = m.Append(p.out, p.version)
}

// take takes an acknowledgment.
func (p *publisher) take(h mqtt.Header, body []byte) error {
	switch h.Type {
	case mqtt.DISCONNECT:
		return p.serverClosed(h, body)
	case mqtt.PUBACK, mqtt.PUBREC, mqtt.PUBCOMP:
	default:
		return p.w.fail("%s: unexpected %v", p.id, h.Type)
	}
	var a mqtt.Ack
	if err := a.Decode(p.version, h, body); err != nil {
		return p.w.fail("%s: %v", p.id, err)
	}
	for i, f := range p.flights {
		if f.id != a.PacketID {
			continue
		}
		if a.Code >= 0x80 && (a.Type != mqtt.PUBCOMP || a.Code != mqtt.PacketIdentifierNotFound) {
			p.w.trace.say("%s: %s %d is refused by %s: %v %s", p.id, f.s.topic, f.s.number, p.at.name, a.Code, a.ReasonString)
			p.flights = append(p.flights[:i:i], p.flights[i+1:]...)
			f.refused = p.conns
			f.s.refusals = append(f.s.refusals, refusal{p.conns, time.Now()})
			p.again = append(p.again, f)
			return nil
		}
		if f.s.acked.IsZero() && a.Type != mqtt.PUBCOMP {
			f.s.acked, f.s.by = p.stamp, p.at
		}
		if a.Type == mqtt.PUBREC {
			f.released = true
			p.put(f, false, true)
			return nil
		}
		p.flights = append(p.flights[:i:i], p.flights[i+1:]...)
		return nil
	}
	return nil // a PUBREC or PUBCOMP for a PUBREL sent twice
}
