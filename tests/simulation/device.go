package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"maestrohub.io/uns/broker/mqtt"
)

// device is one MQTT client with its half of the session state, which outlives its
// connections. It is used by one goroutine.
type device struct {
	w       *world
	host    *host
	id      string
	version mqtt.Version
	clean   bool
	expiry  uint32 // of the session in seconds, MQTT 5
	r       *rand.Rand

	nc       *socket
	at       *node // nc's replica
	in       []byte
	stamp    time.Time // when the last bytes of in were written
	out      []byte
	conns    int  // connections that were accepted
	tried    bool // a CONNECT left that may have made the session
	made     bool // the session is known to be there
	lastEnd  time.Time
	answered time.Time    // when the CONNACK was read
	heard    time.Time    // when something last came
	went     time.Time    // when its CONNECT left
	moved    bool         // it goes elsewhere and leaves nc open
	where    func() *node // it connects to; nil: to any
	user     string       // the API client it is of; "": that of most
	calls    []call
	// olds are connections it left open, to be taken over.
	olds []*old
}

// old is a connection that its device left open when it connected anew.
type old struct {
	device string
	node   *node
	nc     *socket
	taken  time.Time // when the next one's CONNACK was read; zero: not yet
	ended  time.Time // when the broker closed it; zero: not yet
}

// errLost is a connection that is over.
var errLost = errors.New("connection lost")

// errOnPurpose is a connection that its device gives up.
var errOnPurpose = fmt.Errorf("%w on purpose", errLost)

// patience bounds the wait for an answer that has to come.
const patience = 40 * time.Second

// connect opens a connection to some replica, again and again until it is accepted.
func (d *device) connect(ctx context.Context, receiveMaximum uint16, will func() *mqtt.Will) (mqtt.Connack, error) {
	for failures := 0; ; failures++ {
		ack, err := d.try(ctx, receiveMaximum, will)
		if err == nil {
			return ack, nil
		}
		pause := time.Duration(100+d.r.IntN(400)) * time.Millisecond << min(failures, 3)
		if sleep(ctx, pause) != nil {
			return ack, fmt.Errorf("%s does not get in: %w", d.id, err)
		}
	}
}

// call is a CONNECT a device has sent, answered or not.
type call struct {
	to *node
	at time.Time
}

// takenLate is how long after it was sent a CONNECT may still be taken that its device has
// given up: connectBudget, and as long as it may have been held on its way.
const takenLate = 50 * time.Second

// takenApart reports whether a replica may have lost the device within a time to another
// that was not linked with it, and took a CONNECT from before.
func (d *device) takenApart(n *node, from, to time.Time) bool {
	return slices.ContainsFunc(d.calls, func(c call) bool {
		return c.at.After(from.Add(-takenLate)) && c.at.Before(to) && d.w.apart(n, c.to, from, to)
	})
}

// sleep waits, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *device) try(ctx context.Context, receiveMaximum uint16, will func() *mqtt.Will) (ack mqtt.Connack, err error) {
	if d.nc != nil {
		d.lastEnd = time.Now()
		if !d.moved && d.r.IntN(2) == 0 {
			_ = d.nc.Close()
		} else {
			d.leave()
		}
		d.nc, d.moved = nil, false
	}
	n := d.w.nodes[d.r.IntN(len(d.w.nodes))]
	if d.where != nil {
		n = d.where()
	}
	bound, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	nc, err := d.w.network.dial(bound, d.host, n.name+":mqtt")
	if err != nil {
		return ack, err
	}
	d.at, d.in, d.out = n, nil, nil
	defer func() {
		if err != nil {
			_ = nc.Close()
			d.nc = nil
		}
	}()
	expiry := d.expiry
	if d.clean {
		expiry = 0
	}
	d.went, d.heard = time.Now(), time.Now()
	d.calls = append(d.calls, call{n, d.went})
	d.nc = nc
	p := mqtt.Connect{Version: d.version, ClientID: d.id, CleanStart: d.clean, KeepAlive: 60, SessionExpiry: expiry, ReceiveMaximum: receiveMaximum,
		Username: cmp.Or(d.user, user), HasUsername: true, Password: []byte(secret), HasPassword: true, RequestProblemInformation: true}
	if will != nil {
		p.Will = will()
	}
	d.out = p.Append(d.out, d.version)
	if err := d.flush(); err != nil {
		return ack, err
	}
	tried := d.tried
	d.tried = true
	h, body, err := d.read(ctx, time.Now().Add(patience))
	if err != nil {
		return ack, err
	}
	if err := ack.Decode(d.version, h, body); err != nil {
		return ack, d.w.fail("%s: CONNACK: %v", d.id, err)
	}
	if ack.Code != mqtt.Success {
		d.w.trace.say("%s is refused by %s: %v %s", d.id, n.name, ack.Code, ack.ReasonString)
		return ack, fmt.Errorf("CONNACK %v", ack.Code)
	}
	switch {
	case d.clean && ack.SessionPresent:
		return ack, d.w.fail("%s: a clean start finds a session at %s", d.id, n.name)
	case !d.clean && d.made && !ack.SessionPresent:
		return ack, d.w.fail("%s: its session is not there any more at %s, last connected %s", d.id, n.name, d.w.trace.since(d.lastEnd))
	case !d.clean && !d.made && !tried && ack.SessionPresent:
		return ack, d.w.fail("%s: a session is present that nobody made", d.id)
	}
	d.made = true
	d.conns++
	d.answered = time.Now()
	for _, o := range d.olds {
		if o.taken.IsZero() {
			o.taken = d.answered
		}
	}
	d.w.trace.say("%s is connected to %s (connection %d, session present %v)", d.id, n.name, d.conns, ack.SessionPresent)
	return ack, nil
}

// leave leaves the connection open and notes when the broker ends it.
func (d *device) leave() {
	o := &old{device: d.id, node: d.at, nc: d.nc}
	d.olds = append(d.olds, o)
	d.w.olds(o)
	d.w.tasks.Go(func() {
		buf := make([]byte, 4096)
		for {
			_ = o.nc.SetReadDeadline(time.Time{})
			if _, err := o.nc.Read(buf); err != nil {
				break
			}
		}
		if !d.w.ending.Load() {
			o.ended = time.Now()
		}
		_ = o.nc.Close()
	})
}

// flush writes what is to be written.
func (d *device) flush() error {
	if len(d.out) == 0 {
		return nil
	}
	_ = d.nc.SetWriteDeadline(time.Now().Add(patience))
	_, err := d.nc.Write(d.out)
	d.out = d.out[:0]
	if err != nil {
		return fmt.Errorf("%w: %w", errLost, err)
	}
	return nil
}

// errQuiet says that nothing came by the deadline.
var errQuiet = errors.New("nothing came")

// read returns the next packet, its body valid until the next call; d.stamp is when the
// broker wrote it.
func (d *device) read(ctx context.Context, deadline time.Time) (mqtt.Header, []byte, error) {
	for {
		h, ok, err := mqtt.ParseHeader(d.in)
		if err != nil {
			return h, nil, d.w.fail("%s: %v", d.id, err)
		}
		if ok && len(d.in) >= h.Size+h.Remaining {
			body := d.in[h.Size : h.Size+h.Remaining]
			d.in = d.in[h.Size+h.Remaining:]
			return h, body, nil
		}
		if ctx.Err() != nil {
			return h, nil, ctx.Err()
		}
		_ = d.nc.SetReadDeadline(deadline)
		nc := d.nc
		stop := context.AfterFunc(ctx, func() { _ = nc.SetReadDeadline(time.Now()) })
		buf := make([]byte, 16<<10)
		n, err := d.nc.Read(buf)
		stop()
		d.in = append(d.in[:len(d.in):len(d.in)], buf[:n]...)
		if n > 0 {
			d.stamp, d.heard = d.nc.Sent, time.Now()
			continue
		}
		if isTimeout(err) {
			if ctx.Err() != nil {
				return h, nil, ctx.Err()
			}
			if time.Since(d.heard) > 45*time.Second {
				return h, nil, fmt.Errorf("%w: nothing came for 45 s", errLost)
			}
			return h, nil, errQuiet
		}
		d.moved = errors.Is(err, errMoved)
		return h, nil, fmt.Errorf("%w: %w", errLost, err)
	}
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

// disconnect leaves properly.
func (d *device) disconnect() {
	if d.nc == nil {
		return
	}
	p := mqtt.Disconnect{}
	d.out = p.AppendLimited(d.out, d.version, 0)
	_ = d.flush()
	_ = d.nc.Close()
	d.lastEnd = time.Now()
	d.nc = nil
}

// drop loses the connection from this side, without a word.
func (d *device) drop() {
	if d.nc != nil {
		_ = d.nc.Close()
		d.lastEnd = time.Now()
		d.nc = nil
	}
}

// serverClosed notes a DISCONNECT of the broker.
func (d *device) serverClosed(h mqtt.Header, body []byte) error {
	var p mqtt.Disconnect
	if err := p.Decode(d.version, h, body); err != nil {
		return d.w.fail("%s: DISCONNECT: %v", d.id, err)
	}
	d.w.trace.say("%s is disconnected by %s: %v %s", d.id, d.at.name, p.Code, p.ReasonString)
	return errLost
}
