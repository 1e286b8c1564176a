package scenario

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"maestrohub.io/uns/tools/mqttload/wire"
)

// Failover kills the process that devices publish to, at a pace and QoS 1, and follows
// them to wherever they can go on: how long no acknowledgment comes, how long nothing
// arrives at two subscribers (one beside the devices, one elsewhere if there is another
// address), and what was acknowledged and never arrived. All sessions are persistent; a
// third subscriber is away from before the first value until everyone is back, so its
// session has what the broker has kept of it all.
//
// Clients behave as good ones do: one that lost its connection tries the broker's
// addresses in turn, ten times a second; one that waits for an answer for giveUpAfter
// connects anew; a device sends again what was not acknowledged.
type Failover struct {
	Name    string
	Devices int
	Rate    float64       // values a second of all devices together
	Payload int           // bytes
	Warmup  time.Duration // before the kill
	Settle  time.Duration // after everyone is back
}

const (
	failoverLimit = 2 * time.Minute
	giveUpAfter   = 10 * time.Second
	// quiet is how long nothing has to arrive for what is missing to count as lost.
	quiet = 3 * time.Second
)

// Run runs it once against the target.
func (f Failover) Run(ctx context.Context, t *Target) (Result, error) {
	if t.Fail == nil {
		return Result{}, errors.New("a failover needs a broker whose process can be killed")
	}
	loop, err := wire.NewLoop()
	if err != nil {
		return Result{}, err
	}
	defer loop.Close()
	run := &failoverRun{Failover: f, target: t, loop: loop, interval: int64(float64(time.Second) / f.Rate)}
	if err := run.connect(ctx); err != nil {
		return Result{}, err
	}
	load, err := cpuSeconds(os.Getpid())
	if err != nil {
		return Result{}, err
	}
	began := loop.Clock()
	run.next = began
	if err := run.turn(ctx, f.Warmup, "", nil); err != nil {
		return Result{}, err
	}
	if err := run.steady(); err != nil {
		return Result{}, err
	}
	failed := run.outage(ctx)
	result := run.result(failed)
	result.Seconds = float64(loop.Clock()-began) / 1e9
	if end, err := cpuSeconds(os.Getpid()); err == nil {
		result.LoadCPUSeconds = end - load
	}
	if err := run.leave(ctx); err != nil && result.Failure == "" {
		result.Failure = err.Error()
	}
	return result, ctx.Err()
}

type failoverRun struct {
	Failover
	target    *Target
	loop      *wire.Loop
	devices   []*device
	followers []*follower
	away      *follower // subscribed, then left; among nobody's until it is back

	next, interval int64 // of the schedule; next 0: stopped
	whose          int   // turn it is to publish
	failedAt       int64 // 0: not yet
	retries        int64
	moved          int64 // when something was acknowledged or arrived
	leaving        bool
	err            error // of a client that can do nothing about it
}

func (r *failoverRun) connect(ctx context.Context) error {
	addresses := r.target.addresses()
	for i := range 3 {
		w := &follower{filter: r.target.filterAll(), seen: make([][]bool, r.Devices)}
		w.wanderer = wanderer{run: r, id: fmt.Sprintf("follower-%d", i), at: i % len(addresses), handler: w}
		r.followers = append(r.followers, w)
	}
	r.away = r.followers[2]
	r.away.at = 0
	for i := range r.Devices {
		d := &device{number: uint16(i), topic: r.target.publishTopic(i)}
		d.wanderer = wanderer{run: r, id: fmt.Sprintf("device-%d", i), handler: d}
		r.devices = append(r.devices, d)
	}
	for _, w := range r.wanderers() {
		w.dial()
	}
	err := r.turn(ctx, connectTimeout, "every client to be connected", func() bool {
		for _, w := range r.wanderers() {
			if !w.ready {
				return false
			}
		}
		return true
	})
	if err != nil {
		return err
	}
	r.followers = r.followers[:2]
	r.away.conn.Queue(append(r.away.conn.Buffer(), r.target.disconnect()...))
	r.away.conn.Flush()
	r.away.conn.Close()
	return nil
}

// wanderers are all clients, whatever they are.
func (r *failoverRun) wanderers() (all []*wanderer) {
	for _, f := range r.followers {
		all = append(all, &f.wanderer)
	}
	for _, d := range r.devices {
		all = append(all, &d.wanderer)
	}
	return all
}

// turn publishes by the schedule and lets clients come back until done says so, for d at
// most; if done is nil, for d.
func (r *failoverRun) turn(ctx context.Context, d time.Duration, what string, done func() bool) error {
	for end := r.loop.Clock() + int64(d); ; {
		now := r.loop.Clock()
		for _, f := range r.followers {
			f.look(now)
		}
		for _, d := range r.devices {
			d.look(now)
		}
		for ; r.next > 0 && r.next <= now; r.next += r.interval {
			r.devices[r.whose].publish(r.next)
			r.whose = (r.whose + 1) % len(r.devices)
		}
		switch {
		case r.err != nil:
			return r.err
		case ctx.Err() != nil:
			return ctx.Err()
		case done != nil && done(), done == nil && now >= end:
			return nil
		case now >= end:
			return fmt.Errorf("waited %s for %s: %w", d, what, errTimeout)
		}
		wake := min(end, now+int64(reconnectGap))
		if r.next > 0 {
			wake = min(wake, r.next)
		}
		if err := r.loop.Turn(wake); err != nil {
			return err
		}
	}
}

// steady says what does not work before anything was broken.
func (r *failoverRun) steady() error {
	for _, d := range r.devices {
		if d.acked == 0 {
			return fmt.Errorf("nothing of %s was acknowledged before the kill", d.id)
		}
	}
	for _, f := range r.followers {
		if f.total == 0 {
			return fmt.Errorf("nothing reached %s before the kill", f.id)
		}
	}
	return nil
}

// outage kills, follows until everyone is back, and lets what is on its way arrive.
func (r *failoverRun) outage(ctx context.Context) error {
	done := make(chan error, 1)
	over := false
	r.failedAt = r.loop.Clock()
	go func() { done <- r.target.Fail(ctx) }()
	err := r.turn(ctx, failoverLimit, "devices and subscribers to go on", func() bool {
		if !over {
			select {
			case err := <-done:
				over = true
				if err != nil {
					r.err = err
				}
			default:
			}
		}
		return over && r.recovered()
	})
	if !over {
		err = errors.Join(err, <-done)
	}
	if err != nil {
		return err
	}
	if err := r.turn(ctx, r.Settle, "", nil); err != nil {
		return err
	}
	r.next = 0
	r.moved = r.loop.Clock()
	r.away.dial()
	present := r.followers
	r.followers = append(present, r.away)
	err = r.turn(ctx, failoverLimit, "what was sent to arrive", func() bool {
		return r.lost(r.followers) == 0 && r.unacknowledged() == 0 || r.loop.Clock()-r.moved > int64(quiet) && r.away.ready
	})
	r.followers = present
	return err
}

// recovered says whether every device has an acknowledgment of something it was to send
// after it had come back, and every follower has that or something later: it may have
// come back later than the device, to a broker that had forgotten it.
func (r *failoverRun) recovered() bool {
	for i, d := range r.devices {
		if d.proof == 0 {
			return false
		}
		for _, f := range r.followers {
			if f.latest(i) < d.proof {
				return false
			}
		}
	}
	return true
}

// lost counts what was acknowledged and is not with one of these followers.
func (r *failoverRun) lost(followers []*follower) (n int64) {
	for i, d := range r.devices {
		for s, acked := range d.done {
			for _, f := range followers {
				if acked && !f.has(i, uint32(s)) {
					n++
				}
			}
		}
	}
	return n
}

func (r *failoverRun) unacknowledged() (n int) {
	for _, d := range r.devices {
		n += len(d.open)
	}
	return n
}

func (r *failoverRun) result(failed error) Result {
	result := Result{Scenario: r.Name, Target: r.target.Name, Missing: r.lost(r.followers), Forgotten: r.lost([]*follower{r.away}), Retries: r.retries}
	now := r.loop.Clock()
	for _, d := range r.devices {
		result.Sent += int64(max(len(d.done)-1, 0)) // sequences count from 1
		result.Acked += d.acked
		result.AckGap = max(result.AckGap, float64(d.longest(now, failed != nil))/1e6)
	}
	for _, f := range r.followers {
		result.Delivered += f.total
		result.Repeated += f.repeated
		result.DeliveryGap = max(result.DeliveryGap, float64(f.longest(now, failed != nil))/1e6)
	}
	if failed != nil {
		result.Failure = failed.Error()
	}
	return result
}

// leave makes the broker whole and ends the sessions.
func (r *failoverRun) leave(ctx context.Context) error {
	r.leaving = true
	r.followers = append(r.followers, r.away)
	var ids []string
	for _, w := range r.wanderers() {
		ids = append(ids, w.id)
		w.again = 0
		w.conn.Close()
	}
	if r.target.Mend != nil {
		if err := r.target.Mend(ctx); err != nil {
			return err
		}
	}
	return endSessions(ctx, r.target, r.loop, ids)
}
