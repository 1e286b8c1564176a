package device

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strconv"
	"time"

	"maestrohub.io/uns/broker/mqtt"
)

// Publisher sends the numbers from 1 on, in order, and knows which are
// acknowledged.
type Publisher struct {
	Device
	Name   string // the name it publishes to
	QoS    byte
	Count  int // how many numbers; 0: until Run's ctx ends
	Window int
	Loss   int           // packets between two losses, at most; 0: none
	Every  time.Duration // between two new numbers; 0: as fast as the window allows
	// Payload makes the payload of a number, the same each time it is sent. nil: the number.
	Payload func(number int) []byte

	next    int
	flights []*flight // in sending order
	again   []*flight // refused, to be sent when nothing is in flight
	due     time.Time

	begun    map[int]time.Time // guarded by mu
	acked    map[int]time.Time // guarded by mu
	repeated map[int]bool      // sent again without a PUBREC; guarded by mu
	refused  int               // guarded by mu
}

// flight is a value that is not acknowledged to the end.
type flight struct {
	id       uint16
	number   int
	released bool
	sent     bool
}

// Run publishes until Count numbers are acknowledged. With Count 0 the end of ctx
// ends the sending of new numbers, and what is open is still settled; otherwise
// it is an error.
func (p *Publisher) Run(ctx context.Context) error {
	p.mu.Lock()
	p.next = 1
	p.begun, p.acked, p.repeated = map[int]time.Time{}, map[int]time.Time{}, map[int]bool{}
	p.mu.Unlock()
	settling := ctx
	if p.Count == 0 {
		var cancel context.CancelFunc
		settling, cancel = context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		context.AfterFunc(ctx, func() { time.AfterFunc(2*time.Minute, cancel) })
	}
	for p.more(ctx) || p.open() {
		if err := p.connect(settling, 65535); err != nil {
			return fmt.Errorf("%s: %w", p.ID, err)
		}
		if p.Loss > 0 {
			p.loseWithin(p.Loss)
		}
		err := p.publishSome(ctx)
		if err != nil && !errors.Is(err, errLost) {
			return fmt.Errorf("%s: %w", p.ID, err)
		}
		if p.Count > 0 && ctx.Err() != nil {
			return fmt.Errorf("%s: %w with %d of %d acknowledged", p.ID, ctx.Err(), p.next-1-len(p.flights)-len(p.again), p.Count)
		}
	}
	return p.close()
}

// more reports whether there are new numbers to send.
func (p *Publisher) more(ctx context.Context) bool {
	if p.Count > 0 {
		return p.next <= p.Count
	}
	return ctx.Err() == nil
}

func (p *Publisher) open() bool { return len(p.flights)+len(p.again) > 0 }

// Sent returns the highest number sent so far.
func (p *Publisher) Sent() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(p.next-1, 0) // 0 before Run
}

// Begun returns when each number was sent for the first time.
func (p *Publisher) Begun() map[int]time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.begun)
}

// Acked returns when each number was acknowledged: at its PUBACK or PUBREC.
func (p *Publisher) Acked() map[int]time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.acked)
}

// Refused returns how many publishes were refused and sent again.
func (p *Publisher) Refused() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refused
}

func (p *Publisher) put(f *flight, dup bool) {
	if f.released {
		p.out = mqtt.AppendAck(p.out, p.Version, mqtt.PUBREL, f.id, mqtt.Success)
		return
	}
	p.mu.Lock()
	if f.sent {
		p.repeated[f.number] = true
	} else if _, before := p.begun[f.number]; !before { // one that was refused is sent anew
		p.begun[f.number] = time.Now()
	}
	p.mu.Unlock()
	f.sent = true
	packet := mqtt.Publish{Topic: []byte(p.Name), QoS: p.QoS, Dup: dup, PacketID: f.id, Payload: p.payload(f.number)}
	p.out = packet.Append(p.out, p.Version)
}

func (p *Publisher) payload(number int) []byte {
	if p.Payload != nil {
		return p.Payload(number)
	}
	return strconv.AppendInt(nil, int64(number), 10)
}

// publishSome resends what is open, then sends on, until all is acknowledged or
// the connection is lost.
func (p *Publisher) publishSome(ctx context.Context) error {
	for _, f := range p.flights {
		p.put(f, true)
	}
	for p.more(ctx) || p.open() {
		if err := p.sendNew(ctx); err != nil {
			return err
		}
		if err := p.flush(); err != nil {
			return err
		}
		deadline := time.Now().Add(patience)
		// For the next number; while refused ones wait there is none, and due is past.
		waiting := p.Every > 0 && len(p.flights) < p.Window && len(p.again) == 0 && p.more(ctx)
		if waiting {
			deadline = p.due
		}
		h, body, err := p.read(deadline)
		if waiting && errors.Is(err, os.ErrDeadlineExceeded) {
			continue
		}
		if err != nil {
			if p.Roams {
				p.happened("lost", 0)
			}
			return p.lost(err)
		}
		if err := p.step(); err != nil {
			return err
		}
		if err := p.acknowledged(h, body); err != nil {
			return err
		}
	}
	return nil
}

// sendNew fills the window.
func (p *Publisher) sendNew(ctx context.Context) error {
	if len(p.flights) == 0 && len(p.again) > 0 {
		p.flights, p.again = p.again, nil
		for _, f := range p.flights {
			p.put(f, false)
		}
	}
	for len(p.again) == 0 && len(p.flights) < p.Window && p.more(ctx) {
		if p.Every > 0 {
			if now := time.Now(); now.Before(p.due) {
				return nil
			} else if p.due = p.due.Add(p.Every); p.due.Before(now) {
				p.due = now.Add(p.Every) // does not catch up
			}
		}
		f := &flight{id: p.freeID(), number: p.next}
		p.mu.Lock()
		p.next++
		p.mu.Unlock()
		p.flights = append(p.flights, f)
		p.put(f, false)
		if err := p.step(); err != nil {
			return errors.Join(p.flush(), err) // sent, and never heard of again
		}
	}
	return nil
}

func (p *Publisher) freeID() uint16 {
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

func (p *Publisher) acknowledged(h mqtt.Header, body []byte) error {
	if h.Type == mqtt.DISCONNECT && p.Roams {
		return p.disconnected(h, body)
	}
	var a mqtt.Ack
	if err := a.Decode(p.Version, h, body); err != nil {
		return err
	}
	refusal := a.Code >= 0x80 && (a.Type != mqtt.PUBCOMP || a.Code != mqtt.PacketIdentifierNotFound)
	if refusal && !p.Roams {
		return fmt.Errorf("%v of id %d: %v %s", a.Type, a.PacketID, a.Code, a.ReasonString)
	}
	for i, f := range p.flights {
		if f.id != a.PacketID {
			continue
		}
		if refusal {
			p.flights = append(p.flights[:i], p.flights[i+1:]...)
			p.again = append(p.again, f)
			p.mu.Lock()
			p.refused++
			p.mu.Unlock()
			p.happened("was refused a value ("+a.ReasonString+") by", a.Code)
			return nil
		}
		p.note(f.number)
		if a.Type == mqtt.PUBREC {
			f.released = true
			p.put(f, false)
			return nil
		}
		p.flights = append(p.flights[:i], p.flights[i+1:]...)
		return nil
	}
	if a.Type == mqtt.PUBREC || a.Type == mqtt.PUBCOMP {
		return nil // a second PUBREC for a PUBREL sent twice
	}
	return fmt.Errorf("%v of id %d, which is not in use", a.Type, a.PacketID)
}

func (p *Publisher) note(number int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.acked[number]; !known {
		p.acked[number] = time.Now()
	}
}
