package simulation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"maestrohub.io/uns/broker/mqtt"
)

// willing is a device with a Last Will, another one for each connection.
type willing struct {
	device
	delay uint32 // of its will, seconds
	asked int    // CONNECTs it has sent
	lives []*lived
}

// lived is one connection with a will.
type lived struct {
	number  int // of its CONNECT: one before it may have been taken, and its CONNACK lost
	node    *node
	from    time.Time // the CONNACK was read
	to      time.Time // the connection ended for the device
	how     string    // "properly", "dropped", "lost", "left open"
	back    time.Time // the next CONNACK was read; zero: never
	calling time.Time // the next CONNECT left; zero: never
}

// run connects, stays, goes in one way or another, and is back sooner or later, or not
// at all.
func (d *willing) run(ctx context.Context) {
	will := func() *mqtt.Will {
		d.asked++
		return &mqtt.Will{Topic: inbox + "w/" + d.id, Payload: fmt.Append(nil, d.asked), QoS: 1, Delay: d.delay}
	}
	var last *lived
	for ctx.Err() == nil {
		_, err := d.connect(ctx, 10, will)
		if err != nil {
			// Its CONNECT may have been taken all the same, and then its next will counts.
			if last != nil && !d.went.Before(last.to) {
				last.calling = d.went
			}
			return
		}
		if last != nil {
			last.back, last.calling = d.answered, d.went
		}
		l := &lived{number: d.asked, node: d.at, from: d.answered}
		last = l
		d.lives = append(d.lives, l)
		until := time.Now().Add(time.Second + time.Duration(d.r.Int64N(int64(90*time.Second))))
		err = d.stay(ctx, until)
		l.to, l.how = time.Now(), "lost"
		if ctx.Err() != nil && err == nil {
			l.how = "dropped"
			d.drop()
			return
		}
		away := time.Duration(d.r.Int64N(int64(60 * time.Second)))
		if errors.Is(err, errQuiet) {
			switch d.r.IntN(6) {
			case 0, 1:
				d.disconnect()
				l.how = "properly"
			case 2:
				l.how, away = "left open", 0
			default:
				d.drop()
				l.how = "dropped"
			}
		} else if d.r.IntN(2) == 0 {
			away = 0 // as a device does that loses its connection
		}
		d.w.trace.say("%s: the connection of CONNECT %d at %s ended: %s; it is away for %v", d.id, l.number, l.node.name, l.how, away)
		if d.r.IntN(12) == 0 && l.how != "left open" {
			return // for good
		}
		if sleep(ctx, away) != nil {
			return
		}
	}
}

// stay keeps the connection alive until a time, when it returns errQuiet.
func (d *willing) stay(ctx context.Context, until time.Time) error {
	for {
		deadline := time.Now().Add(20 * time.Second)
		if until.Before(deadline) {
			deadline = until
		}
		h, body, err := d.read(ctx, deadline)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errQuiet) && !time.Now().Before(until):
			return errQuiet
		case errors.Is(err, errQuiet):
			d.out = mqtt.AppendPingreq(d.out)
			if err := d.flush(); err != nil {
				return err
			}
		case err != nil:
			return err
		case h.Type == mqtt.DISCONNECT:
			return d.serverClosed(h, body)
		}
	}
}
