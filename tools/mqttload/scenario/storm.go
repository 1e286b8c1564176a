package scenario

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"maestrohub.io/uns/tools/mqttload/wire"
)

// Storm cuts the connections of many clients in one instant and lets all of them come
// back at once, as after a switch was restarted, and measures from the cut to each
// CONNACK. With several addresses, clients come back to wherever the balancer would
// put them, as a rule another one than before.
type Storm struct {
	Name    string
	Clients int
	// Persistent: with sessions that are kept, of one QoS 1 subscription each. Otherwise
	// clean, without one: devices that only publish.
	Persistent bool
}

const (
	// perSession is what the slowest broker measured takes to make or end a session.
	perSession   = 200 * time.Millisecond
	stormLimit   = 2 * time.Minute
	reconnectGap = 100 * time.Millisecond // from an attempt that failed to the next
)

// Run runs the storm once against the target.
func (s Storm) Run(ctx context.Context, t *Target) (Result, error) {
	loop, err := wire.NewLoop()
	if err != nil {
		return Result{}, err
	}
	defer loop.Close()
	run := &stormRun{Storm: s, target: t, loop: loop, connects: newHistogram()}
	for i := range s.Clients {
		run.clients = append(run.clients, &stranded{run: run, number: i})
	}
	if err := run.gather(ctx); err != nil {
		return Result{}, err
	}
	cpu, err := t.cpu()
	if err != nil {
		return Result{}, err
	}
	load, err := cpuSeconds(os.Getpid())
	if err != nil {
		return Result{}, err
	}
	began := loop.Clock()
	waited := run.weather(ctx, began)
	result := Result{Scenario: s.Name, Target: t.Name, Seconds: float64(loop.Clock()-began) / 1e9,
		Cycles: int64(run.ready), Connect: latency(run.connects), Retries: run.retries}
	result.CycleRate = float64(run.ready) / result.Seconds
	if waited != nil {
		result.Failure = waited.Error()
	}
	if end, err := t.cpu(); err == nil && run.ready > 0 {
		result.CPUSeconds = end - cpu
		result.CPUPerValue = result.CPUSeconds * 1e6 / float64(run.ready)
	}
	if end, err := cpuSeconds(os.Getpid()); err == nil {
		result.LoadCPUSeconds = end - load
	}
	if err := run.leave(ctx); err != nil && result.Failure == "" {
		result.Failure = err.Error()
	}
	return result, nil
}

type stormRun struct {
	Storm
	target   *Target
	loop     *wire.Loop
	clients  []*stranded
	ready    int
	retries  int64
	cutAt    int64 // 0: not yet
	leaving  bool
	connects *hdrhistogram.Histogram
	err      error
}

// gather connects the clients, as many at once as opening says.
func (r *stormRun) gather(ctx context.Context) error {
	dialled := 0
	limit := connectTimeout + time.Duration(r.Clients)*perSession
	return await(ctx, r.loop, limit, fmt.Sprintf("%d clients to be connected", r.Clients), func() error { return r.err }, func() bool {
		for dialled < r.Clients && dialled-r.ready < opening && r.err == nil {
			c := r.clients[dialled]
			c.dial(r.target.other(c.number))
			dialled++
		}
		return r.ready == r.Clients
	})
}

// weather cuts every connection and waits until all clients are back.
func (r *stormRun) weather(ctx context.Context, now int64) error {
	r.cutAt, r.ready = now, 0
	for _, c := range r.clients {
		c.ready = false
		c.conn.Close()
	}
	for _, c := range r.clients {
		c.back()
	}
	return await(ctx, r.loop, stormLimit, fmt.Sprintf("%d clients to be back", r.Clients), func() error { return r.err }, func() bool {
		now := r.loop.Clock()
		for _, c := range r.clients {
			if c.again > 0 && now >= c.again {
				c.back()
			}
		}
		return r.ready == r.Clients
	})
}

// leave disconnects the clients and ends what sessions they have.
func (r *stormRun) leave(ctx context.Context) error {
	r.leaving = true
	var ids []string
	for _, c := range r.clients {
		ids = append(ids, c.id())
		if c.ready {
			c.conn.Queue(append(c.conn.Buffer(), r.target.disconnect()...))
			c.conn.Flush()
		}
		c.conn.Close()
	}
	if !r.Persistent {
		return nil
	}
	return endSessions(ctx, r.target, r.loop, ids)
}
