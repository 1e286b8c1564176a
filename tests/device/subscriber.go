package device

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"maestrohub.io/uns/broker/mqtt"
)

// Subscriber takes values and remembers them in the order they came.
type Subscriber struct {
	Device
	Filter string
	QoS    byte
	Loss   int // packets between two losses, at most; 0: none
	// Pings: after so long without a packet the subscriber asks with a PINGREQ whether
	// the broker is there, and takes the connection for lost after twice as long again.
	// 0: it waits for ever, as one whose network is never cut may.
	Pings time.Duration
	// Number reads the number out of a payload. nil: the payload is the number.
	Number func(payload []byte) (int, error)
	// Changed has room for one signal: subscribed, or a value came.
	Changed chan struct{}

	// held are the QoS 2 identifiers received and not released.
	held       map[uint16]bool
	subscribed bool

	received map[string][]Arrival // by topic name; guarded by mu
}

// Arrival is a value that came.
type Arrival struct {
	Number int
	At     time.Time
}

// Run receives until ctx ends; from calm on it loses no connection on purpose.
func (s *Subscriber) Run(ctx context.Context, calm <-chan struct{}) error {
	for {
		if ctx.Err() != nil {
			return s.close()
		}
		err := s.connect(ctx, uint16(1+s.Random.IntN(40)))
		if err == nil {
			err = s.subscribe()
		}
		if err == nil {
			select {
			case <-calm:
			default:
				if s.Loss > 0 {
					s.loseWithin(s.Loss)
				}
			}
			conn := s.nc
			// Who waits in read hears of the end within a second, or so at once.
			stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Now()) })
			err = s.receive(ctx, calm)
			stop()
		}
		if ctx.Err() != nil {
			return s.close()
		}
		if err != nil && !errors.Is(err, errLost) {
			return fmt.Errorf("%s: %w", s.ID, err)
		}
	}
}

// Received returns the numbers that came on a name, in their order.
func (s *Subscriber) Received(name string) []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	numbers := make([]int, len(s.received[name]))
	for i, a := range s.received[name] {
		numbers[i] = a.Number
	}
	return numbers
}

// Arrivals returns what came on a name, in its order.
func (s *Subscriber) Arrivals(name string) []Arrival {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Arrival(nil), s.received[name]...)
}

// subscribe makes the one subscription, once in the life of a session.
func (s *Subscriber) subscribe() error {
	if s.subscribed && !s.Clean {
		return nil
	}
	if s.held == nil || s.Clean {
		s.held = make(map[uint16]bool)
	}
	p := mqtt.Subscribe{PacketID: 1, Filters: []mqtt.Subscription{{Filter: s.Filter, QoS: s.QoS}}}
	s.out = p.Append(s.out, s.Version)
	if err := s.flush(); err != nil {
		return err
	}
	for {
		h, body, err := s.read(time.Now().Add(patience))
		if err != nil {
			return s.lost(err)
		}
		if h.Type != mqtt.SUBACK {
			if err := s.take(h, body); err != nil {
				return err
			}
			continue
		}
		var a mqtt.Suback
		if err := a.Decode(s.Version, h, body); err != nil {
			return err
		}
		if a.Codes[0] != mqtt.ReasonCode(s.QoS) {
			if s.Roams {
				s.happened("refused", a.Codes[0])
				_ = s.nc.Close()
				return errLost
			}
			return fmt.Errorf("SUBACK %v", a.Codes[0])
		}
		first := !s.subscribed
		s.subscribed = true
		if first {
			s.signal()
		}
		// Values may come before the SUBACK; their acknowledgments must not wait for the
		// next packet, which may never come.
		return s.flush()
	}
}

func (s *Subscriber) signal() {
	select {
	case s.Changed <- struct{}{}:
	default:
	}
}

func (s *Subscriber) receive(ctx context.Context, calm <-chan struct{}) error {
	last, asked := time.Now(), false
	for {
		h, body, err := s.read(time.Now().Add(time.Second))
		if quiet := time.Since(last); s.Pings > 0 && errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() == nil {
			switch {
			case quiet > 3*s.Pings:
				s.happened("lost", 0)
				_ = s.nc.Close()
				return fmt.Errorf("%w: no answer to a PINGREQ for %v", errLost, 2*s.Pings)
			case quiet > s.Pings && !asked:
				asked = true
				s.out = mqtt.AppendPingreq(s.out)
				if err := s.flush(); err != nil {
					return err
				}
			}
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, os.ErrDeadlineExceeded) && (s.Roams || time.Since(last) < patience):
			continue // quiet is no failure of a broker that is being harmed
		case err != nil:
			if s.Roams {
				s.happened("lost", 0)
			}
			return s.lost(err)
		}
		last, asked = time.Now(), false
		select {
		case <-calm:
			s.left = -1
		default:
		}
		if err := s.take(h, body); err != nil {
			return err
		}
		if err := s.step(); err != nil {
			if s.Random.IntN(2) == 0 {
				_ = s.flush() // half of the time the last acknowledgments still leave
			}
			return err
		}
		if s.in.Buffered() == 0 || s.Random.IntN(8) == 0 {
			if err := s.flush(); err != nil {
				return err
			}
		}
	}
}

func (s *Subscriber) take(h mqtt.Header, body []byte) error {
	switch h.Type {
	case mqtt.PUBLISH:
		var p mqtt.Publish
		if err := p.Decode(s.Version, h, body); err != nil {
			return err
		}
		read := s.Number
		if read == nil {
			read = func(payload []byte) (int, error) { return strconv.Atoi(string(payload)) }
		}
		number, err := read(p.Payload)
		if err != nil {
			return err
		}
		switch p.QoS {
		case 1:
			s.note(string(p.Topic), number)
			s.out = mqtt.AppendAck(s.out, s.Version, mqtt.PUBACK, p.PacketID, mqtt.Success)
		case 2:
			if !s.held[p.PacketID] {
				s.held[p.PacketID] = true
				s.note(string(p.Topic), number)
			}
			s.out = mqtt.AppendAck(s.out, s.Version, mqtt.PUBREC, p.PacketID, mqtt.Success)
		default:
			return fmt.Errorf("%s %d came at QoS 0", p.Topic, number)
		}
	case mqtt.PUBREL:
		var a mqtt.Ack
		if err := a.Decode(s.Version, h, body); err != nil {
			return err
		}
		delete(s.held, a.PacketID)
		s.out = mqtt.AppendAck(s.out, s.Version, mqtt.PUBCOMP, a.PacketID, mqtt.Success)
	case mqtt.PINGRESP:
	case mqtt.DISCONNECT:
		return s.disconnected(h, body)
	default:
		return fmt.Errorf("unexpected %v", h.Type)
	}
	return nil
}

func (s *Subscriber) note(topic string, number int) {
	s.mu.Lock()
	if s.received == nil {
		s.received = map[string][]Arrival{}
	}
	s.received[topic] = append(s.received[topic], Arrival{number, time.Now()})
	s.mu.Unlock()
	s.signal()
}
