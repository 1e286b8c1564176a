package fleet

import (
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/device"
)

// subscriber makes a listener to all values.
func (f *Fleet) subscriber(qos byte) *device.Subscriber {
	s := &device.Subscriber{Filter: f.o.Data + f.o.Name + "/#", QoS: qos, Pings: f.o.Pings, Changed: make(chan struct{}, 1)}
	if f.o.Timestamps {
		s.Number = readEnvelope
	}
	return s
}

// further makes the devices that only some fleets have.
func (f *Fleet) further() {
	if f.o.Live {
		for i, k := range kinds[:2] {
			s := f.subscriber(k.qos)
			f.configure(&s.Device, fmt.Sprintf("%s-live-%d", f.o.Name, i), 2*len(kinds)+i, i, k.version)
			s.Clean = true
			f.Live = append(f.Live, s)
		}
	}
	if !f.o.Wills {
		return
	}
	f.Witness = &device.Subscriber{Filter: f.o.Data + f.willTopic("#"), QoS: 1, Pings: f.o.Pings, Changed: make(chan struct{}, 1)}
	f.configure(&f.Witness.Device, f.o.Name+"-witness", 3*len(kinds), 1, mqtt.V5)
	f.Witness.Will = nil
	f.Leaver = f.subscriber(1)
	f.Leaver.Filter = f.o.Data + f.o.Name + "-leaver/#"
	f.configure(&f.Leaver.Device, f.o.Name+"-leaver", 3*len(kinds)+1, 0, mqtt.V5)
	f.leaving.dial = f.o.Dial
	f.Leaver.Dial = f.leaving.open
}

// listeners are all who subscribe.
func (f *Fleet) listeners() []*device.Subscriber {
	all := append(f.Subscribers[:len(f.Subscribers):len(f.Subscribers)], f.Live...)
	if f.Witness != nil {
		all = append(all, f.Witness, f.Leaver)
	}
	return all
}

func (f *Fleet) willTopic(device string) string { return f.o.Name + "-wills/" + device }

// Leave has the Leaver connect no more: once its connection ends, by whatever is done to
// the broker or by CutOff, it stays away.
func (f *Fleet) Leave() { f.leaving.leave() }

// CutOff ends the connection of the Leaver, if it still has one, without a word to the
// broker.
func (f *Fleet) CutOff() { f.leaving.cut() }

// Wills are the wills that were sent, by the client identifier of their device.
func (f *Fleet) Wills() map[string][]device.Arrival {
	wills := map[string][]device.Arrival{}
	if f.Witness == nil {
		return wills
	}
	for _, d := range f.Devices() {
		if a := f.Witness.Arrivals(f.o.Data + f.willTopic(d.ID)); len(a) > 0 {
			wills[d.ID] = a
		}
	}
	return wills
}

// leaving is a network that can go away for good.
type leaving struct {
	dial func(address string) (net.Conn, error)

	mu   sync.Mutex
	gone bool
	conn net.Conn
}

func (l *leaving) open(address string) (net.Conn, error) {
	dial := l.dial
	if dial == nil {
		dial = func(address string) (net.Conn, error) { return net.DialTimeout("tcp", address, 10*time.Second) }
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone {
		return nil, net.ErrClosed
	}
	c, err := dial(address)
	l.conn = c
	return c, err
}

func (l *leaving) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone = true
}

func (l *leaving) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		_ = l.conn.Close()
	}
}

// envelope makes payloads with the time each number was first sent at.
func (f *Fleet) envelope() func(number int) []byte {
	var mu sync.Mutex
	first := map[int]int64{}
	return func(number int) []byte {
		mu.Lock()
		defer mu.Unlock()
		at, sent := first[number]
		if !sent {
			at = time.Now().UnixMilli()
			first[number] = at
			delete(first, number-1000) // long acknowledged
		}
		return []byte(`{"value":` + strconv.Itoa(number) + `,"timestamp":` + strconv.FormatInt(at, 10) + `}`)
	}
}

// readEnvelope reads the number out of a live copy.
func readEnvelope(payload []byte) (int, error) {
	if n, err := strconv.Atoi(string(payload)); err == nil {
		return n, nil
	}
	var e struct{ Value int }
	if err := json.Unmarshal(payload, &e); err != nil {
		return 0, fmt.Errorf("payload %q: %w", payload, err)
	}
	return e.Value, nil
}
