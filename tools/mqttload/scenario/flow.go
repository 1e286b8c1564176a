package scenario

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"maestrohub.io/uns/tools/mqttload/wire"
)

// Flow publishes values and, with subscribers, receives them: every subscriber
// receives every value. Publisher i publishes to topic i.
type Flow struct {
	Name        string
	Publishers  int
	Subscribers int
	QoS         byte
	// Persistent: the subscribers' sessions are persistent. They are ended afterwards.
	Persistent bool
	// Beside: the first subscriber is where the publishers are and the others elsewhere,
	// and their latencies are told apart: what a value's way to another address adds.
	Beside bool
	// Window is how many values of a publisher may be on their way: unacknowledged,
	// or not yet with every subscriber. It also bounds a paced run.
	Window int
	// Rate is how many values all publishers together are to send in a second, by a
	// schedule that waits for nothing. 0: as many as the window lets through.
	Rate     float64
	Payload  int // bytes
	Warmup   time.Duration
	Duration time.Duration
}

const (
	connectTimeout = 20 * time.Second
	stallAfter     = 5 * time.Second
	drainTime      = 3 * time.Second
)

// Run runs the flow once against the target.
func (f Flow) Run(ctx context.Context, t *Target) (Result, error) {
	loop, err := wire.NewLoop()
	if err != nil {
		return Result{}, err
	}
	defer loop.Close()
	r := &flowRun{Flow: f, target: t, loop: loop, deliveries: newHistogram(), elsewhere: newHistogram()}
	if err := r.connect(ctx); err != nil {
		return Result{}, fmt.Errorf("%s against %s: %w", f.Name, t.Name, err)
	}
	return r.run(ctx)
}

// flowRun is one run of a Flow.
type flowRun struct {
	Flow
	target      *Target
	loop        *wire.Loop
	publishers  []*publisher
	subscribers []*subscriber
	deliveries  *hdrhistogram.Histogram
	elsewhere   *hdrhistogram.Histogram // with Beside, those of the other subscribers

	next, interval int64 // of the schedule, nanoseconds
	turn           int   // whose turn it is to publish
	moved          int64 // sent + acked + delivered when it last changed
	movedAt        int64
}

func (r *flowRun) connect(ctx context.Context) error {
	filter := r.target.filter(0)
	if r.Publishers > 1 {
		filter = r.target.filterAll()
	}
	for i := range r.Subscribers {
		s := &subscriber{target: r.target, loop: r.loop, id: fmt.Sprintf("load-sub-%d", i), filter: filter, qos: r.QoS, persistent: r.Persistent,
			last: make([]uint32, r.Publishers), delivered: make([]int64, r.Publishers), latencies: r.deliveries}
		address := r.target.other(i)
		switch {
		case r.Beside && i == 0:
			address = r.target.Address
		case r.Beside:
			address, s.latencies = r.target.other(i-1), r.elsewhere
		}
		var err error
		if s.conn, err = r.loop.Dial(address, s); err != nil {
			return err
		}
		r.subscribers = append(r.subscribers, s)
	}
	for i := range r.Publishers {
		p, err := newPublisher(r.target, r.loop, i, r.target.publishTopic(i), r.QoS, r.Window, r.Payload)
		if err != nil {
			return err
		}
		r.publishers = append(r.publishers, p)
	}
	return await(ctx, r.loop, connectTimeout, "every client to be connected", r.failure, func() bool {
		for _, s := range r.subscribers {
			if !s.ready {
				return false
			}
		}
		for _, p := range r.publishers {
			if !p.ready {
				return false
			}
		}
		return true
	})
}

// failure returns the first thing that went wrong on any connection.
func (r *flowRun) failure() error {
	for _, s := range r.subscribers {
		if s.err != nil {
			return s.err
		}
	}
	for _, p := range r.publishers {
		if p.err != nil {
			return p.err
		}
	}
	return nil
}

func (r *flowRun) run(ctx context.Context) (Result, error) {
	start := r.loop.Clock()
	if r.Rate > 0 {
		r.interval = int64(float64(time.Second) / r.Rate)
		r.next = start
	}
	r.movedAt = start
	warm, err := r.until(ctx, start+int64(r.Warmup))
	if err != nil {
		return Result{}, err
	}
	before, err := r.counts()
	if err != nil {
		return Result{}, err
	}
	r.deliveries.Reset()
	r.elsewhere.Reset()
	for _, p := range r.publishers {
		p.latencies.Reset()
	}
	stalled := warm == stall
	if !stalled && warm == ran {
		end, err := r.until(ctx, before.at+int64(r.Duration))
		if err != nil {
			return Result{}, err
		}
		stalled = end == stall
	}
	after, err := r.counts()
	if err != nil {
		return Result{}, err
	}
	result := r.result(before, after)
	result.Stalled = stalled
	failed := r.failure()
	if failed == nil {
		// What was acknowledged in the run must still arrive.
		failed = await(ctx, r.loop, drainTime, "what was sent to arrive", r.failure, func() bool { return !r.pending() })
		if errors.Is(failed, errTimeout) {
			failed = nil // shows as missing
		}
	}
	if failed != nil {
		result.Failure = failed.Error()
	}
	r.losses(&result)
	if r.Persistent {
		if err := endSessions(ctx, r.target, r.loop, idsOf(r.subscribers)); err != nil && result.Failure == "" {
			result.Failure = err.Error()
		}
	}
	return result, nil
}

type ending int

const (
	ran ending = iota
	stall
	broke
)

// until turns the loop to the instant, publishing by schedule or window.
func (r *flowRun) until(ctx context.Context, end int64) (ending, error) {
	for {
		now := r.loop.Clock()
		if now >= end {
			return ran, nil
		}
		if ctx.Err() != nil {
			return broke, ctx.Err()
		}
		if r.failure() != nil {
			return broke, nil
		}
		wake := end
		if r.Rate > 0 {
			for r.next <= now {
				r.publishers[r.turn].publish(r.next)
				r.turn = (r.turn + 1) % len(r.publishers)
				r.next += r.interval
			}
			wake = min(wake, r.next)
			for _, p := range r.publishers {
				p.release()
			}
		} else {
			r.fill(now)
		}
		if moved := r.movement(); moved != r.moved {
			r.moved, r.movedAt = moved, now
		} else if now-r.movedAt > int64(stallAfter) {
			return stall, nil
		}
		if err := r.loop.Turn(min(wake, now+int64(100*time.Millisecond))); err != nil {
			return broke, err
		}
	}
}

// fill lets every publisher send what its window allows.
func (r *flowRun) fill(now int64) {
	for i, p := range r.publishers {
		room := int64(r.Window)
		if r.Subscribers > 0 {
			room -= p.sent - r.slowest(i)
		}
		for ; room > 0 && p.room(); room-- {
			p.send(now)
		}
	}
}

// slowest returns how many of a publisher's values the subscriber furthest behind
// has seen or missed.
func (r *flowRun) slowest(publisher int) int64 {
	n := int64(r.subscribers[0].last[publisher])
	for _, s := range r.subscribers[1:] {
		n = min(n, int64(s.last[publisher]))
	}
	return n
}

func (r *flowRun) movement() (n int64) {
	for _, p := range r.publishers {
		n += p.sent + p.acked
	}
	for _, s := range r.subscribers {
		n += s.total
	}
	return n
}

// pending says whether a value is unacknowledged or undelivered.
func (r *flowRun) pending() bool {
	for i, p := range r.publishers {
		if r.QoS > 0 && p.acked < p.sent {
			return true
		}
		if r.Subscribers > 0 && r.slowest(i) < p.sent {
			return true
		}
	}
	return false
}

// counts is a reading of every counter at one instant.
type counts struct {
	at                           int64
	sent, acked, refused, recved int64
	cpu, loadCPU                 float64
}

func (r *flowRun) counts() (c counts, err error) {
	for _, p := range r.publishers {
		c.sent += p.sent
		c.acked += p.acked
		c.refused += p.refused
	}
	for _, s := range r.subscribers {
		c.recved += s.total
	}
	if c.cpu, err = r.target.cpu(); err != nil {
		return c, err
	}
	c.loadCPU, err = cpuSeconds(os.Getpid())
	c.at = r.loop.Clock()
	return c, err
}

func (r *flowRun) result(before, after counts) Result {
	seconds := float64(after.at-before.at) / 1e9
	result := Result{
		Scenario: r.Name, Target: r.target.Name, Seconds: seconds,
		Sent: after.sent - before.sent, Acked: after.acked - before.acked,
		Delivered: after.recved - before.recved, Refused: after.refused - before.refused,
		CPUSeconds: after.cpu - before.cpu, LoadCPUSeconds: after.loadCPU - before.loadCPU,
		Delivery: latency(r.deliveries),
	}
	if len(r.target.Others) > 0 {
		result.Elsewhere = latency(r.elsewhere)
	}
	acks := newHistogram()
	for _, p := range r.publishers {
		acks.Merge(p.latencies)
	}
	result.Ack = latency(acks)
	if seconds > 0 {
		result.AckRate = float64(result.Acked) / seconds
		result.DeliverRate = float64(result.Delivered) / seconds
	}
	values := result.Delivered
	if values == 0 {
		values = result.Acked
	}
	if values > 0 {
		result.CPUPerValue = result.CPUSeconds * 1e6 / float64(values)
	}
	return result
}

// losses counts over the whole run what did not arrive as it should.
func (r *flowRun) losses(result *Result) {
	for _, s := range r.subscribers {
		result.Missing += s.missing
		result.Repeated += s.repeated
		result.OutOfOrder += s.unordered
		for i, p := range r.publishers {
			result.Missing += max(0, p.sent-int64(s.last[i]))
		}
	}
}
