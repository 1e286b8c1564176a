package simulation

import (
	"context"
	"errors"
	"strconv"
	"time"

	"maestrohub.io/uns/broker/mqtt"
)

// subscriber takes values and remembers them in the order they came.
type subscriber struct {
	device
	qos    byte
	filter string
	loss   time.Duration // between two losses of the connection, at most
	// after is when it first connects: subscriptions come while things happen.
	after time.Duration
	// fickle is for how long, at most, it stays subscribed, and then not; 0: for ever.
	fickle time.Duration

	held       map[uint16]bool // identifiers of QoS 2 received and not released
	subscribed time.Time       // when the SUBACK was read; zero: it was not
	late       bool            // the SUBACK did not wait for everything (subscribeWait)
	stays      []*stay         // connections with a subscription, of a clean session
	arrivals   map[string][]arrival
	lossAt     time.Time
	spans      []*span
	turn       time.Time // when a fickle one changes its mind
	asking     time.Time // when the SUBSCRIBE was first written that is not answered; zero: none
}

// span is a subscription of a fickle subscriber.
type span struct {
	asked, from time.Time // SUBSCRIBE was first written, SUBACK was read
	late        bool
	to, over    time.Time // UNSUBSCRIBE was first written, UNSUBACK was read; zero: not yet
}

// stay is one connection of a clean session, from its SUBACK on.
type stay struct {
	node     *node
	asked    time.Time // when SUBSCRIBE was written
	answered time.Time // when the broker wrote the SUBACK
	from, to time.Time // the SUBACK was read, the connection is over
	by       bool      // ended by the device
	arrivals map[string][]arrival
}

// arrival is a value that came.
type arrival struct {
	number int
	at     time.Time
	sent   time.Time // when the broker wrote it
	qos    byte
	dup    bool
	node   *node
	conn   int
}

// run receives until ctx ends; from calm on it loses no connection on purpose.
func (s *subscriber) run(ctx, calm context.Context) {
	s.arrivals, s.held = map[string][]arrival{}, map[uint16]bool{}
	if sleep(ctx, s.after) != nil {
		return
	}
	for ctx.Err() == nil {
		ack, err := s.connect(ctx, uint16(1+s.r.IntN(20)), nil)
		if err != nil {
			if calm.Err() != nil && s.w.over() {
				s.w.violate("%v", err)
			}
			return
		}
		if !ack.SessionPresent {
			s.held = map[uint16]bool{}
		}
		s.lossAt = time.Now().Add(s.loss/10 + time.Duration(s.r.Int64N(int64(s.loss))))
		var here *stay
		if s.clean || s.subscribed.IsZero() {
			if here, err = s.subscribe(ctx); err == nil && s.clean {
				s.stays = append(s.stays, here)
			}
		}
		if err == nil {
			err = s.receive(ctx, calm, here)
		}
		if here != nil {
			here.to = time.Now()
		}
		if ctx.Err() == nil && err != nil && !errors.Is(err, errLost) {
			s.w.violate("%s: %v", s.id, err)
			return
		}
	}
	s.drop()
}

// subscribe makes the one subscription.
func (s *subscriber) subscribe(ctx context.Context) (*stay, error) {
	here := &stay{node: s.at, asked: time.Now(), arrivals: map[string][]arrival{}}
	if s.asking.IsZero() {
		s.asking = here.asked
	}
	p := mqtt.Subscribe{PacketID: 1, Filters: []mqtt.Subscription{{Filter: s.filter, QoS: s.qos}}}
	s.out = p.Append(s.out, s.version)
	for {
		if err := s.flush(); err != nil {
			return nil, err
		}
		h, body, err := s.read(ctx, time.Now().Add(patience))
		if err != nil {
			if errors.Is(err, errQuiet) {
				err = errLost
			}
			return nil, err
		}
		if h.Type != mqtt.SUBACK {
			if err := s.take(h, body, here); err != nil {
				return nil, err
			}
			continue
		}
		var a mqtt.Suback
		if err := a.Decode(s.version, h, body); err != nil {
			return nil, s.w.fail("%s: %v", s.id, err)
		}
		if a.Codes[0] != mqtt.ReasonCode(s.qos) {
			s.w.trace.say("%s: its subscription is refused by %s: %v", s.id, s.at.name, a.Codes[0])
			s.drop()
			return nil, errLost
		}
		s.subscribed = time.Now()
		here.answered, here.from = s.stamp, s.subscribed
		s.late = here.answered.Sub(here.asked) >= subscribeWait
		if s.fickle > 0 {
			s.spans = append(s.spans, &span{asked: s.asking, from: s.subscribed, late: s.late})
			s.asking = time.Time{}
			s.turn = time.Now().Add(s.fickle/4 + time.Duration(s.r.Int64N(int64(s.fickle*3/4))))
		}
		s.w.trace.say("%s is subscribed to %s at QoS %d by %s, after %v", s.id, s.filter, s.qos, s.at.name, here.answered.Sub(here.asked))
		return here, nil
	}
}

func (s *subscriber) receive(ctx, calm context.Context, here *stay) error {
	for {
		if err := s.flush(); err != nil {
			return err
		}
		if err := s.changeMind(ctx, calm); err != nil {
			return err
		}
		deadline := time.Now().Add(20 * time.Second)
		if s.fickle > 0 && s.turn.Before(deadline) && calm.Err() == nil {
			deadline = s.turn
		}
		if calm.Err() == nil && s.lossAt.Before(deadline) {
			deadline = s.lossAt
		}
		h, body, err := s.read(ctx, deadline)
		switch {
		case errors.Is(err, errQuiet) && calm.Err() == nil && !time.Now().Before(s.lossAt):
			if here != nil {
				here.by = true
			}
			return errLost // on purpose
		case errors.Is(err, errQuiet):
			s.out = mqtt.AppendPingreq(s.out)
			continue
		case err != nil:
			return err
		}
		if err := s.take(h, body, here); err != nil {
			return err
		}
		if len(s.in) > 0 && s.r.IntN(8) != 0 {
			continue // acknowledge several at once
		}
	}
}

// changeMind unsubscribes, or subscribes anew, when its time has come; in the end it is
// subscribed.
func (s *subscriber) changeMind(ctx, calm context.Context) error {
	if s.fickle == 0 {
		return nil
	}
	last := s.spans[len(s.spans)-1]
	due := !time.Now().Before(s.turn)
	switch {
	case !last.over.IsZero() && (due || calm.Err() != nil):
		_, err := s.subscribe(ctx)
		return err
	case last.over.IsZero() && !last.to.IsZero(), last.to.IsZero() && due && calm.Err() == nil:
		if err := s.unsubscribe(ctx, last); err != nil {
			return err
		}
		s.turn = time.Now().Add(s.fickle/4 + time.Duration(s.r.Int64N(int64(s.fickle*3/4))))
	}
	return nil
}

// unsubscribe ends the subscription. Until it is answered, it is not known to have ended.
func (s *subscriber) unsubscribe(ctx context.Context, last *span) error {
	if last.to.IsZero() {
		last.to = time.Now()
	}
	p := mqtt.Unsubscribe{PacketID: 2, Filters: []string{s.filter}}
	s.out = p.Append(s.out, s.version)
	for {
		if err := s.flush(); err != nil {
			return err
		}
		h, body, err := s.read(ctx, time.Now().Add(patience))
		if errors.Is(err, errQuiet) {
			err = errLost
		}
		if err != nil {
			return err
		}
		if h.Type != mqtt.UNSUBACK {
			if err := s.take(h, body, nil); err != nil {
				return err
			}
			continue
		}
		last.over = time.Now()
		s.w.trace.say("%s is no longer subscribed, says %s", s.id, s.at.name)
		return nil
	}
}

func (s *subscriber) take(h mqtt.Header, body []byte, here *stay) error {
	switch h.Type {
	case mqtt.PINGRESP:
	case mqtt.PUBLISH:
		var p mqtt.Publish
		if err := p.Decode(s.version, h, body); err != nil {
			return s.w.fail("%s: %v", s.id, err)
		}
		number, err := numberOf(p.Payload)
		if err != nil {
			return s.w.fail("%s: %s came with %q", s.id, p.Topic, p.Payload)
		}
		a := arrival{number: number, at: time.Now(), sent: s.stamp, qos: p.QoS, dup: p.Dup, node: s.at, conn: s.conns}
		topic := string(p.Topic)
		switch {
		case p.Retain:
		case p.QoS == 2 && s.held[p.PacketID]:
		default:
			s.arrivals[topic] = append(s.arrivals[topic], a)
			if here != nil {
				here.arrivals[topic] = append(here.arrivals[topic], a)
			}
		}
		switch p.QoS {
		case 1:
			s.out = mqtt.AppendAck(s.out, s.version, mqtt.PUBACK, p.PacketID, mqtt.Success)
		case 2:
			s.held[p.PacketID] = true
			s.out = mqtt.AppendAck(s.out, s.version, mqtt.PUBREC, p.PacketID, mqtt.Success)
		}
	case mqtt.PUBREL:
		var a mqtt.Ack
		if err := a.Decode(s.version, h, body); err != nil {
			return s.w.fail("%s: %v", s.id, err)
		}
		delete(s.held, a.PacketID)
		s.out = mqtt.AppendAck(s.out, s.version, mqtt.PUBCOMP, a.PacketID, mqtt.Success)
	case mqtt.DISCONNECT:
		return s.serverClosed(h, body)
	default:
		return s.w.fail("%s: unexpected %v", s.id, h.Type)
	}
	return nil
}

// numberOf is the number in a payload, plain or in an envelope.
func numberOf(payload []byte) (int, error) {
	text := string(payload)
	if i := len(`{"timestamp":"`); len(text) > i && text[0] == '{' {
		for at := i; at < len(text); at++ {
			if text[at:min(at+8, len(text))] == `"value":` {
				text = text[at+8 : len(text)-1]
				break
			}
		}
	}
	return strconv.Atoi(text)
}
