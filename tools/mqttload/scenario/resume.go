package scenario

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	"maestrohub.io/uns/tools/mqttload/wire"
)

// Resume lets persistent sessions subscribe and leave, publishes values for each
// of them, and then measures from their first CONNECT until all have everything
// that was kept, in order.
type Resume struct {
	Name     string
	Sessions int
	Values   int // for each session
	QoS      byte
	Payload  int // bytes
	Window   int // of each publisher; 0: 20
}

const resumeLimit = 2 * time.Minute

// Run runs it once against the target.
func (r Resume) Run(ctx context.Context, t *Target) (Result, error) {
	loop, err := wire.NewLoop()
	if err != nil {
		return Result{}, err
	}
	defer loop.Close()
	sessions, err := r.connect(t, loop, true)
	if err != nil {
		return Result{}, err
	}
	failure := func() error { return firstError(sessions) }
	if err := await(ctx, loop, connectTimeout, "every session to subscribe", failure, func() bool { return allReady(sessions) }); err != nil {
		return Result{}, err
	}
	for _, s := range sessions {
		s.conn.Queue(append(s.conn.Buffer(), t.disconnect()...))
		s.conn.Flush()
		s.conn.Close()
	}
	if err := r.publish(ctx, t, loop); err != nil {
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
	if sessions, err = r.connect(t, loop, false); err != nil {
		return Result{}, err
	}
	goal := int64(r.Sessions) * int64(r.Values)
	arrived := func() (n int64) {
		for _, s := range sessions {
			n += s.total
		}
		return n
	}
	last, lastAt := int64(0), began
	waited := await(ctx, loop, resumeLimit, "everything kept to arrive", func() error {
		if n := arrived(); n != last {
			last, lastAt = n, loop.Clock()
		} else if loop.Clock()-lastAt > int64(stallAfter) {
			return fmt.Errorf("%d of %d values came, then none for %s", n, goal, stallAfter)
		}
		return firstError(sessions)
	}, func() bool { return arrived() == goal })
	result := Result{Scenario: r.Name, Target: t.Name, Seconds: float64(loop.Clock()-began) / 1e9, Delivered: arrived()}
	result.DeliverRate = float64(result.Delivered) / result.Seconds
	for _, s := range sessions {
		result.Repeated += s.repeated
		result.OutOfOrder += s.unordered
	}
	result.Missing = goal - result.Delivered
	if waited != nil {
		result.Failure = waited.Error()
	}
	if end, err := t.cpu(); err == nil && result.Delivered > 0 {
		result.CPUSeconds = end - cpu
		result.CPUPerValue = result.CPUSeconds * 1e6 / float64(result.Delivered)
	}
	if end, err := cpuSeconds(os.Getpid()); err == nil {
		result.LoadCPUSeconds = end - load
	}
	if err := endSessions(ctx, t, loop, idsOf(sessions)); err != nil && result.Failure == "" {
		result.Failure = err.Error()
	}
	return result, nil
}

// connect opens the sessions; first also subscribes each to a topic of its own.
func (r Resume) connect(t *Target, loop *wire.Loop, first bool) ([]*subscriber, error) {
	sessions := make([]*subscriber, r.Sessions)
	for i := range sessions {
		s := &subscriber{target: t, loop: loop, id: fmt.Sprintf("resume-%d", i), persistent: true, qos: r.QoS,
			last: make([]uint32, r.Sessions), delivered: make([]int64, r.Sessions)}
		if first {
			s.filter = t.filter(i)
		}
		var err error
		at := t.Address // where they leave; they come back elsewhere, if there is such a place
		if !first {
			at = t.other(i)
		}
		if s.conn, err = loop.Dial(at, s); err != nil {
			return nil, err
		}
		sessions[i] = s
	}
	return sessions, nil
}

// publish sends the values for each session on its topic and waits for the last
// acknowledgment. One connection per session's topic keeps the order checkable.
func (r Resume) publish(ctx context.Context, t *Target, loop *wire.Loop) error {
	publishers := make([]*publisher, r.Sessions)
	for i := range publishers {
		var err error
		// A window of its own each, small: all of them together are the load.
		if publishers[i], err = newPublisher(t, loop, i, t.publishTopic(i), max(r.QoS, 1), cmp.Or(r.Window, 20), r.Payload); err != nil {
			return err
		}
	}
	failed := func() error {
		for _, p := range publishers {
			if p.err != nil {
				return p.err
			}
		}
		return nil
	}
	err := await(ctx, loop, resumeLimit, "every value to be acknowledged", failed, func() bool {
		done := true
		for _, p := range publishers {
			for p.ready && p.sent < int64(r.Values) && p.room() {
				p.send(loop.Clock())
			}
			done = done && p.acked == int64(r.Values)
		}
		return done
	})
	for _, p := range publishers {
		if err == nil && p.refused > 0 {
			err = fmt.Errorf("%d values of %s were refused", p.refused, p.id)
		}
		p.conn.Queue(append(p.conn.Buffer(), t.disconnect()...))
		p.conn.Flush()
		p.conn.Close()
	}
	return err
}

func allReady(sessions []*subscriber) bool {
	for _, s := range sessions {
		if !s.ready {
			return false
		}
	}
	return true
}

func firstError(sessions []*subscriber) error {
	for _, s := range sessions {
		if s.err != nil {
			return s.err
		}
	}
	return nil
}
