package simulation

import (
	"context"
	"errors"
	"time"
)

// sleeper is a subscriber at QoS 2 that receives a value, says nothing of it, and goes
// away for so long that the session log has dropped the value when it is back.
type sleeper struct {
	subscriber
	awake []*stay
}

func (s *sleeper) run(ctx context.Context) {
	s.arrivals, s.held = map[string][]arrival{}, map[uint16]bool{}
	for ctx.Err() == nil {
		ack, err := s.connect(ctx, uint16(3+s.r.IntN(10)), nil)
		if err != nil {
			return
		}
		if !ack.SessionPresent {
			s.held = map[uint16]bool{}
		}
		here := &stay{node: s.at, from: time.Now(), arrivals: map[string][]arrival{}}
		if s.subscribed.IsZero() {
			if here, err = s.subscribe(ctx); err != nil {
				continue
			}
		}
		s.awake = append(s.awake, here)
		err = s.until(ctx, time.Now().Add(15*time.Second+time.Duration(s.r.Int64N(int64(15*time.Second)))), here)
		here.to = time.Now()
		if err != nil && !errors.Is(err, errLost) {
			return
		}
		s.w.trace.say("%s sleeps, with %d deliveries open", s.id, len(s.held))
		s.drop()
		if sleep(ctx, 50*time.Second+time.Duration(s.r.Int64N(int64(40*time.Second)))) != nil {
			return
		}
	}
}

// until receives until a time, and then one more PUBLISH at QoS 2 that it does not answer.
func (s *sleeper) until(ctx context.Context, end time.Time, here *stay) error {
	for {
		if err := s.flush(); err != nil {
			return err
		}
		before := len(s.held)
		h, body, err := s.read(ctx, time.Now().Add(20*time.Second))
		if errors.Is(err, errQuiet) {
			continue
		}
		if err != nil {
			return err
		}
		if err := s.take(h, body, here); err != nil {
			return err
		}
		if time.Now().After(end) && len(s.held) > before {
			s.out = s.out[:0]
			return nil
		}
	}
}

// checkSleepers: what was acknowledged while one was awake has come, whatever the log
// dropped while it was not.
func (w *world) checkSleepers() {
	for _, s := range w.sleepers {
		for _, here := range s.awake {
			if here.to.IsZero() {
				continue
			}
			for _, p := range w.publishers {
				came := map[int]bool{}
				for _, topic := range p.topics {
					for _, a := range here.arrivals[data+topic] {
						came[a.number] = true
					}
				}
				missing := missing{w: w, s: &s.subscriber, p: p}
				for _, v := range p.sent {
					if v.toldAfter(here.from) && v.acked.Before(here.to.Add(-5*time.Second)) {
						w.counted.Delivered++
						if !came[v.number] {
							missing.add(v)
						}
					}
				}
				missing.report("were acknowledged and did not come to a device that was away")
			}
		}
	}
}
