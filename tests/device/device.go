package device

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"maestrohub.io/uns/broker/mqtt"
)

// Device is one MQTT client with its session state, which outlives connections.
type Device struct {
	ID, User, Secret string
	Version          mqtt.Version
	// Address says where the next connection goes.
	Address func() string
	// Dial opens a connection to an address. nil: TCP.
	Dial   func(address string) (net.Conn, error)
	Random *rand.Rand
	// Fresh: no session of this device is there yet. Clean: there never is one.
	Fresh, Clean bool
	Roams        bool
	Will         *mqtt.Will
	// Expiry of the session in seconds, MQTT 5. 0: 600.
	Expiry uint32

	nc    net.Conn
	in    *bufio.Reader
	out   []byte
	tried bool // a CONNECT of a fresh device left and may have made its session
	// left counts the packets until the connection is lost; negative: never.
	left int

	mu     sync.Mutex
	events []Event
}

// Event is something that happened to a device's connection.
type Event struct {
	At      time.Time
	What    string // "connected", "refused", "lost"
	Address string
	Code    mqtt.ReasonCode // of the CONNACK or the DISCONNECT; 0 if none came
}

// errLost is a connection the device gave up, or one that roams lost.
var errLost = errors.New("connection lost")

// errUnavailable is a CONNECT refused for the server's sake.
var errUnavailable = errors.New("server unavailable")

// retry is how long a device waits before it connects again.
const retry = 100 * time.Millisecond

// patience bounds the wait for a packet that has to come.
const patience = 30 * time.Second

// Events returns what happened to the device's connections so far.
func (d *Device) Events() []Event {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]Event(nil), d.events...)
}

func (d *Device) happened(what string, code mqtt.ReasonCode) {
	address := ""
	if d.nc != nil {
		address = d.nc.RemoteAddr().String()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events = append(d.events, Event{time.Now(), what, address, code})
}

// connect opens a connection and resumes the session; one that is told that the
// server is unavailable tries again, a roaming one whatever happens. It leaves an old connection to the broker, to be taken over,
// half of the time.
func (d *Device) connect(ctx context.Context, receiveMaximum uint16) error {
	for {
		err := d.tryConnect(receiveMaximum)
		if err == nil || !errors.Is(err, errUnavailable) && (!d.Roams || !errors.Is(err, errLost)) {
			return err
		}
		timer := time.NewTimer(retry)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w; last: %w", ctx.Err(), err)
		}
	}
}

func (d *Device) tryConnect(receiveMaximum uint16) error {
	if d.nc != nil && d.Random.IntN(2) == 0 {
		_ = d.nc.Close()
	}
	dial := d.Dial
	if dial == nil {
		dial = func(address string) (net.Conn, error) { return net.DialTimeout("tcp", address, patience) }
	}
	nc, err := dial(d.Address())
	if err != nil {
		return d.lost(err)
	}
	d.nc, d.in, d.out = nc, bufio.NewReaderSize(nc, 64<<10), nil
	d.left = -1
	expiry := d.Expiry
	if expiry == 0 {
		expiry = 600
	}
	if d.Clean {
		expiry = 0
	}
	p := mqtt.Connect{Version: d.Version, ClientID: d.ID, CleanStart: d.Clean, KeepAlive: 600, SessionExpiry: expiry, ReceiveMaximum: receiveMaximum,
		Username: d.User, HasUsername: true, Password: []byte(d.Secret), HasPassword: true, RequestProblemInformation: true, Will: d.Will}
	d.out = p.Append(d.out, d.Version)
	if err := d.flush(); err != nil {
		return d.lost(err)
	}
	first := d.tried
	d.tried = true
	h, body, err := d.read(time.Now().Add(patience))
	if err != nil {
		return d.lost(err)
	}
	var ack mqtt.Connack
	if err := ack.Decode(d.Version, h, body); err != nil {
		return err
	}
	if unavailable(d.Version, ack.Code) {
		d.happened("refused", ack.Code)
		_ = d.nc.Close()
		return fmt.Errorf("%w: CONNACK %v", errUnavailable, ack.Code)
	}
	if ack.Code != mqtt.Success {
		return fmt.Errorf("CONNACK %v", ack.Code)
	}
	// A fresh device whose first CONNECT was not answered may have a session or not.
	if ack.SessionPresent == d.Fresh && (!d.Fresh || !first) {
		return fmt.Errorf("%s: session present %v, expected %v", d.ID, ack.SessionPresent, !d.Fresh)
	}
	d.Fresh = d.Clean
	d.happened("connected", 0)
	return nil
}

// unavailable reports whether a CONNECT was refused for the server's sake.
func unavailable(v mqtt.Version, code mqtt.ReasonCode) bool {
	switch code {
	case mqtt.ServerUnavailable, mqtt.ServerBusy, mqtt.ServerShuttingDown:
		return true
	}
	return v < mqtt.V5 && code == 3
}

// lost turns an error of the network into a lost connection where that is no
// failure.
func (d *Device) lost(err error) error {
	if d.Roams && err != nil && !errors.Is(err, errLost) {
		return fmt.Errorf("%w: %w", errLost, err)
	}
	return err
}

// loseWithin has the connection lost after up to n more packets.
func (d *Device) loseWithin(n int) { d.left = 1 + d.Random.IntN(n) }

// step counts a packet sent or received.
func (d *Device) step() error {
	if d.left > 0 {
		d.left--
	}
	if d.left == 0 {
		return errLost
	}
	return nil
}

func (d *Device) flush() error {
	_, err := d.nc.Write(d.out)
	d.out = d.out[:0]
	return d.lost(err)
}

// read returns the next packet, its body valid until the next call. A deadline
// that passes leaves the stream as it was.
func (d *Device) read(deadline time.Time) (mqtt.Header, []byte, error) {
	_ = d.nc.SetReadDeadline(deadline)
	for {
		buffered, _ := d.in.Peek(d.in.Buffered())
		h, ok, err := mqtt.ParseHeader(buffered)
		if err != nil {
			return h, nil, err
		}
		need := len(buffered) + 1
		if ok {
			need = h.Size + h.Remaining
		}
		packet, err := d.in.Peek(need)
		if err != nil {
			return h, nil, err
		}
		if ok {
			_, err := d.in.Discard(need) // of what is buffered: the bytes stay until the next read
			return h, packet[h.Size:], err
		}
	}
}

// disconnected notes the DISCONNECT that ends the connection.
func (d *Device) disconnected(h mqtt.Header, body []byte) error {
	var p mqtt.Disconnect
	if err := p.Decode(d.Version, h, body); err != nil {
		return err
	}
	d.happened("lost", p.Code)
	return errLost
}

// close ends the connection: without a DISCONNECT, unless the device has a will,
// which is for those that are lost.
func (d *Device) close() error {
	if d.nc == nil {
		return nil
	}
	if d.Will != nil {
		_ = d.nc.SetWriteDeadline(time.Now().Add(patience))
		_, _ = d.nc.Write((&mqtt.Disconnect{}).Append(nil, d.Version)) // to a connection that may be gone
	}
	if err := d.nc.Close(); err != nil && !d.Roams {
		return err
	}
	return nil
}
