package sessions

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"time"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/mqtttest"
)

// device is one MQTT client with its session state, which outlives connections.
type device struct {
	id, user string
	version  mqtt.Version
	// addresses are the replicas' it may connect to.
	addresses []string
	random    *rand.Rand

	nc  net.Conn
	in  *bufio.Reader
	out []byte
	// left counts the packets until the connection is lost; negative: never.
	left int
	// fresh: no session of this device is there yet. clean: there never is one.
	fresh, clean bool
	refused      int // CONNECTs
}

// errLost is a connection the device itself gave up.
var errLost = errors.New("connection lost on purpose")

// connect opens a connection and resumes the session. It leaves an old connection
// to the broker, to be taken over, half of the time.
func (d *device) connect(receiveMaximum uint16) error {
	for {
		err := d.connectOnce(receiveMaximum)
		if !errors.Is(err, errUnavailable) {
			return err
		}
		d.refused++ // a device that is told so tries again
	}
}

// errUnavailable is a CONNECT refused because the session could not be taken up in
// time.
var errUnavailable = errors.New("server unavailable")

func (d *device) connectOnce(receiveMaximum uint16) error {
	if d.nc != nil && d.random.IntN(2) == 0 {
		_ = d.nc.Close()
	}
	nc, err := net.Dial("tcp", d.addresses[d.random.IntN(len(d.addresses))])
	if err != nil {
		return err
	}
	d.nc, d.in, d.out = nc, bufio.NewReader(nc), nil
	d.left = -1
	p := mqtt.Connect{ClientID: d.id, CleanStart: d.clean, KeepAlive: 60, SessionExpiry: 600, ReceiveMaximum: receiveMaximum,
		Username: d.user, HasUsername: true, Password: []byte(mqtttest.Secret(d.user)), HasPassword: true, RequestProblemInformation: true}
	if d.clean {
		p.SessionExpiry = 0
	}
	d.out = p.Append(d.out, d.version)
	if err := d.flush(); err != nil {
		return err
	}
	h, body, err := d.read()
	if err != nil {
		return err
	}
	var ack mqtt.Connack
	if err := ack.Decode(d.version, h, body); err != nil {
		return err
	}
	if ack.Code == mqtt.ServerUnavailable {
		return errUnavailable
	}
	if ack.Code != mqtt.Success {
		return fmt.Errorf("CONNACK %v", ack.Code)
	}
	if ack.SessionPresent == d.fresh {
		return fmt.Errorf("%s: session present %v, expected %v", d.id, ack.SessionPresent, !d.fresh)
	}
	d.fresh = d.clean
	return nil
}

// loseWithin has the connection lost after up to n more packets.
func (d *device) loseWithin(n int) { d.left = 1 + d.random.IntN(n) }

// step counts a packet sent or received.
func (d *device) step() error {
	if d.left > 0 {
		d.left--
	}
	if d.left == 0 {
		return errLost
	}
	return nil
}

func (d *device) flush() error {
	_, err := d.nc.Write(d.out)
	d.out = d.out[:0]
	return err
}

// read returns the next packet.
func (d *device) read() (mqtt.Header, []byte, error) {
	_ = d.nc.SetReadDeadline(time.Now().Add(30 * time.Second))
	for {
		buffered, _ := d.in.Peek(d.in.Buffered())
		h, ok, err := mqtt.ParseHeader(buffered)
		if err != nil {
			return h, nil, err
		}
		if !ok {
			if _, err := d.in.Peek(len(buffered) + 1); err != nil {
				return h, nil, err
			}
			continue
		}
		packet := make([]byte, h.Size+h.Remaining)
		if _, err := io.ReadFull(d.in, packet); err != nil {
			return h, nil, err
		}
		return h, packet[h.Size:], nil
	}
}

// publisher sends the numbers from 1 to count, in order, and knows which are
// acknowledged.
type publisher struct {
	device
	topic  string
	qos    byte
	count  int
	window int
	loss   int // packets between two losses, at most; 0: none

	next    int
	flights []*flight // in sending order
}

// flight is a value that is not acknowledged to the end.
type flight struct {
	id       uint16
	number   int
	released bool
}

func (p *publisher) run() error {
	p.next = 1
	for p.next <= p.count || len(p.flights) > 0 {
		if err := p.connect(65535); err != nil {
			return fmt.Errorf("%s: %w", p.id, err)
		}
		if p.loss > 0 {
			p.loseWithin(p.loss)
		}
		err := p.publishSome()
		if err != nil && !errors.Is(err, errLost) {
			return fmt.Errorf("%s: %w", p.id, err)
		}
	}
	return p.nc.Close()
}

func (p *publisher) put(f *flight, dup bool) {
	if f.released {
		p.out = mqtt.AppendAck(p.out, p.version, mqtt.PUBREL, f.id, mqtt.Success)
		return
	}
	packet := mqtt.Publish{Topic: []byte(mqtttest.Inbox(p.user, p.topic)), QoS: p.qos, Dup: dup, PacketID: f.id, Payload: strconv.AppendInt(nil, int64(f.number), 10)}
	p.out = packet.Append(p.out, p.version)
}

// publishSome resends what is open, then sends on, until all is acknowledged or
// the connection is lost.
func (p *publisher) publishSome() error {
	for _, f := range p.flights {
		p.put(f, true)
	}
	for p.next <= p.count || len(p.flights) > 0 {
		for len(p.flights) < p.window && p.next <= p.count {
			f := &flight{id: p.freeID(), number: p.next}
			p.next++
			p.flights = append(p.flights, f)
			p.put(f, false)
			if err := p.step(); err != nil {
				return errors.Join(p.flush(), err) // sent, and never heard of again
			}
		}
		if err := p.flush(); err != nil {
			return err
		}
		h, body, err := p.read()
		if err != nil {
			return err
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

func (p *publisher) freeID() uint16 {
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

func (p *publisher) acknowledged(h mqtt.Header, body []byte) error {
	var a mqtt.Ack
	if err := a.Decode(p.version, h, body); err != nil {
		return err
	}
	if a.Code != mqtt.Success && (a.Type != mqtt.PUBCOMP || a.Code != mqtt.PacketIdentifierNotFound) {
		return fmt.Errorf("%v of id %d: %v %s", a.Type, a.PacketID, a.Code, a.ReasonString)
	}
	for i, f := range p.flights {
		if f.id != a.PacketID {
			continue
		}
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

// subscriber takes values and remembers them in the order they came.
type subscriber struct {
	device
	filter string
	qos    byte
	loss   int

	// held are the QoS 2 identifiers received and not released.
	held map[uint16]bool

	mu       sync.Mutex
	received map[string][]int // by topic name
	total    int
	changed  chan struct{}
}

// run receives until stop is closed; from calm on it loses no connection.
func (s *subscriber) run(stop, calm <-chan struct{}) error {
	for {
		select {
		case <-stop:
			return s.nc.Close()
		default:
		}
		if err := s.connect(uint16(1 + s.random.IntN(40))); err != nil {
			return fmt.Errorf("%s: %w", s.id, err)
		}
		if err := s.subscribe(); err != nil {
			return fmt.Errorf("%s: %w", s.id, err)
		}
		select {
		case <-calm:
		default:
			s.loseWithin(s.loss)
		}
		ended := make(chan struct{})
		go func() { // a calm subscriber waits in read until the end of the run
			select {
			case <-stop:
				_ = s.nc.SetReadDeadline(time.Now())
			case <-ended:
			}
		}()
		err := s.receive(calm)
		close(ended)
		select {
		case <-stop:
			return s.nc.Close()
		default:
		}
		if err != nil && !errors.Is(err, errLost) {
			return fmt.Errorf("%s: %w", s.id, err)
		}
	}
}

// subscribe makes the one subscription, once in the life of a session.
func (s *subscriber) subscribe() error {
	if s.held != nil && !s.clean {
		return nil
	}
	first := s.held == nil
	s.held = make(map[uint16]bool)
	p := mqtt.Subscribe{PacketID: 1, Filters: []mqtt.Subscription{{Filter: s.filter, QoS: s.qos}}}
	s.out = p.Append(s.out, s.version)
	if err := s.flush(); err != nil {
		return err
	}
	h, body, err := s.read()
	if err != nil {
		return err
	}
	var a mqtt.Suback
	if err := a.Decode(s.version, h, body); err != nil {
		return err
	}
	if a.Codes[0] != mqtt.ReasonCode(s.qos) {
		return fmt.Errorf("SUBACK %v", a.Codes[0])
	}
	if first {
		s.changed <- struct{}{}
	}
	return nil
}

func (s *subscriber) receive(calm <-chan struct{}) error {
	for {
		h, body, err := s.read()
		if err != nil {
			return err
		}
		select {
		case <-calm:
			s.left = -1
		default:
		}
		if err := s.take(h, body); err != nil {
			return err
		}
		if err := s.step(); err != nil {
			if s.random.IntN(2) == 0 {
				_ = s.flush() // half of the time the last acknowledgments still leave
			}
			return err
		}
		if s.in.Buffered() == 0 || s.random.IntN(8) == 0 {
			if err := s.flush(); err != nil {
				return err
			}
		}
	}
}

func (s *subscriber) take(h mqtt.Header, body []byte) error {
	switch h.Type {
	case mqtt.PUBLISH:
		var p mqtt.Publish
		if err := p.Decode(s.version, h, body); err != nil {
			return err
		}
		number, err := strconv.Atoi(string(p.Payload))
		if err != nil {
			return err
		}
		switch p.QoS {
		case 1:
			s.note(string(p.Topic), number)
			s.out = mqtt.AppendAck(s.out, s.version, mqtt.PUBACK, p.PacketID, mqtt.Success)
		case 2:
			if !s.held[p.PacketID] {
				s.held[p.PacketID] = true
				s.note(string(p.Topic), number)
			}
			s.out = mqtt.AppendAck(s.out, s.version, mqtt.PUBREC, p.PacketID, mqtt.Success)
		default:
			return fmt.Errorf("%s %d came at QoS 0", p.Topic, number)
		}
	case mqtt.PUBREL:
		var a mqtt.Ack
		if err := a.Decode(s.version, h, body); err != nil {
			return err
		}
		delete(s.held, a.PacketID)
		s.out = mqtt.AppendAck(s.out, s.version, mqtt.PUBCOMP, a.PacketID, mqtt.Success)
	case mqtt.DISCONNECT:
		return errLost
	default:
		return fmt.Errorf("unexpected %v", h.Type)
	}
	return nil
}

func (s *subscriber) note(topic string, number int) {
	s.mu.Lock()
	s.received[topic] = append(s.received[topic], number)
	s.total++
	s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default:
	}
}
