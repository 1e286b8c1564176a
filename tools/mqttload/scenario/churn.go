package scenario

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tools/mqttload/wire"
)

// Churn connects, subscribes and disconnects, again and again, with a number of
// clients at once. A cycle counts when the broker has closed the connection after
// the DISCONNECT: a client that came back before would take over from itself.
type Churn struct {
	Name       string
	Clients    int  // at once; each keeps its client id
	Persistent bool // sessions that are kept and taken up again
	Bare       bool // without the subscription
	Warmup     time.Duration
	Duration   time.Duration
}

// Run runs the churn once against the target.
func (c Churn) Run(ctx context.Context, t *Target) (Result, error) {
	loop, err := wire.NewLoop()
	if err != nil {
		return Result{}, err
	}
	defer loop.Close()
	run := &churnRun{Churn: c, target: t, loop: loop, connects: newHistogram()}
	for i := range c.Clients {
		v := &visitor{run: run, id: fmt.Sprintf("churn-%d", i), topic: i}
		if err := v.dial(); err != nil {
			return Result{}, err
		}
	}
	if err := run.until(ctx, c.Warmup); err != nil {
		return Result{}, err
	}
	run.connects.Reset()
	cycles, at := run.cycles, loop.Clock()
	cpu, err := t.cpu()
	if err != nil {
		return Result{}, err
	}
	load, err := cpuSeconds(os.Getpid())
	if err != nil {
		return Result{}, err
	}
	if err := run.until(ctx, c.Duration); err != nil {
		return Result{}, err
	}
	result := Result{Scenario: c.Name, Target: t.Name, Seconds: float64(loop.Clock()-at) / 1e9,
		Cycles: run.cycles - cycles, Connect: latency(run.connects)}
	result.CycleRate = float64(result.Cycles) / result.Seconds
	if end, err := t.cpu(); err == nil && result.Cycles > 0 {
		result.CPUSeconds = end - cpu
		result.CPUPerValue = result.CPUSeconds * 1e6 / float64(result.Cycles)
	}
	if end, err := cpuSeconds(os.Getpid()); err == nil {
		result.LoadCPUSeconds = end - load
	}
	if run.err != nil {
		result.Failure = run.err.Error()
	}
	return result, nil
}

type churnRun struct {
	Churn
	target   *Target
	loop     *wire.Loop
	cycles   int64
	connects *hdrhistogram.Histogram // dial to CONNACK
	err      error
}

func (r *churnRun) until(ctx context.Context, d time.Duration) error {
	for end := r.loop.Clock() + int64(d); r.err == nil; {
		now := r.loop.Clock()
		if now >= end {
			break
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.loop.Turn(min(end, now+int64(100*time.Millisecond))); err != nil {
			return err
		}
	}
	return nil
}

// visitor is one client that comes and goes.
type visitor struct {
	run   *churnRun
	id    string
	topic int
	began int64
	// leaving: DISCONNECT is sent, the broker has not closed the connection yet.
	leaving bool
}

func (v *visitor) dial() error {
	v.began = v.run.loop.Clock()
	_, err := v.run.loop.Dial(v.run.target.other(v.topic), v)
	return err
}

func (v *visitor) Up(c *wire.Conn) {
	c.Queue(append(c.Buffer(), v.run.target.connect(v.id, v.run.Persistent)...))
}

func (v *visitor) Packet(c *wire.Conn, h mqtt.Header, body []byte) {
	t := v.run.target
	switch h.Type {
	case mqtt.CONNACK:
		var ack mqtt.Connack
		if err := ack.Decode(t.version(), h, body); err != nil {
			v.fail(err)
		} else if ack.Code != 0 {
			v.fail(fmt.Errorf("CONNECT of %s refused: %v", v.id, ack.Code))
		}
		record(v.run.connects, v.run.loop.Now-v.began)
		if v.run.Bare {
			v.leave(c)
			return
		}
		c.Queue(append(c.Buffer(), t.subscribe(t.filter(v.topic), 1)...))
	case mqtt.SUBACK:
		v.leave(c)
	}
}

func (v *visitor) leave(c *wire.Conn) {
	v.leaving = true
	c.Queue(append(c.Buffer(), v.run.target.disconnect()...))
	c.Finish()
}

func (v *visitor) fail(err error) {
	if v.run.err == nil {
		v.run.err = err
	}
}

func (v *visitor) Down(_ *wire.Conn, err error) {
	if !v.leaving {
		v.fail(fmt.Errorf("connection of %s ended: %w", v.id, err))
		return
	}
	v.leaving = false
	v.run.cycles++
	if err := v.dial(); err != nil {
		v.fail(err)
	}
}
