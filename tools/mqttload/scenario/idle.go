package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tools/mqttload/wire"
)

// Idle opens connections that then do nothing, and weighs what each costs the
// broker in resident memory.
type Idle struct {
	Name        string
	Connections int
	Subscribe   bool          // one QoS 1 subscription each, to a topic of its own
	Settle      time.Duration // from the last connection to the weighing
}

// opening bounds how many connections are between dial and SUBACK at once.
const opening = 64

// Run opens the connections, weighs and closes them.
func (d Idle) Run(ctx context.Context, t *Target) (Result, error) {
	if t.PID == 0 && t.PIDs == nil {
		return Result{}, errors.New("idle connections are weighed by the broker's process id, and none was given")
	}
	loop, err := wire.NewLoop()
	if err != nil {
		return Result{}, err
	}
	defer loop.Close()
	run := &idleRun{Idle: d, target: t, loop: loop}
	// One that came and went, so that what the first client costs is not counted.
	if err := run.open(ctx, 1); err != nil {
		return Result{}, err
	}
	result := Result{Scenario: d.Name, Target: t.Name}
	if result.RSSBefore, err = t.resident(); err != nil {
		return Result{}, err
	}
	began := loop.Clock()
	if err := run.open(ctx, d.Connections); err != nil {
		return Result{}, err
	}
	result.Seconds = float64(loop.Clock()-began) / 1e9
	settled := loop.Clock() + int64(d.Settle)
	for loop.Clock() < settled && run.err == nil {
		if err := loop.Turn(settled); err != nil {
			return Result{}, err
		}
	}
	if run.err != nil {
		return Result{}, run.err
	}
	if result.RSSAfter, err = t.resident(); err != nil {
		return Result{}, err
	}
	result.PerConnection = float64(result.RSSAfter-result.RSSBefore) / float64(d.Connections)
	return result, nil
}

type idleRun struct {
	Idle
	target         *Target
	loop           *wire.Loop
	dialled, ready int
	err            error
}

// open opens n more connections and waits until they stand.
func (r *idleRun) open(ctx context.Context, n int) error {
	goal := r.ready + n
	limit := connectTimeout + time.Duration(n)*2*time.Millisecond
	return await(ctx, r.loop, limit, fmt.Sprintf("%d connections to stand", n), func() error { return r.err }, func() bool {
		for r.dialled < goal && r.dialled-r.ready < opening && r.err == nil {
			if _, err := r.loop.Dial(r.target.other(r.dialled), &sleeper{run: r, number: r.dialled}); err != nil {
				r.err = err
			}
			r.dialled++
		}
		return r.ready == goal
	})
}

// sleeper is one idle client.
type sleeper struct {
	run    *idleRun
	number int
}

func (s *sleeper) Up(c *wire.Conn) {
	c.Queue(append(c.Buffer(), s.run.target.connect(fmt.Sprintf("idle-%d", s.number), false)...))
}

func (s *sleeper) Packet(c *wire.Conn, h mqtt.Header, body []byte) {
	t := s.run.target
	switch h.Type {
	case mqtt.CONNACK:
		var ack mqtt.Connack
		if err := ack.Decode(t.version(), h, body); err != nil {
			s.run.err = err
		} else if ack.Code != 0 {
			s.run.err = fmt.Errorf("CONNECT of idle-%d refused: %v", s.number, ack.Code)
		}
		if s.run.Subscribe {
			c.Queue(append(c.Buffer(), t.subscribe(t.filter(s.number), 1)...))
			return
		}
		s.run.ready++
	case mqtt.SUBACK:
		s.run.ready++
	}
}

func (s *sleeper) Down(_ *wire.Conn, err error) {
	if err != nil && s.run.err == nil {
		s.run.err = fmt.Errorf("connection of idle-%d ended: %w", s.number, err)
	}
}
