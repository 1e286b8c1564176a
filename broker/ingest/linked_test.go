package ingest

import (
	"testing"
	"testing/synctest"
	"time"

	"maestrohub.io/uns/broker/topic"
	"maestrohub.io/uns/broker/value"
)

// after calls arrived once d has passed.
func after(d time.Duration) func([]*value.Value, func()) bool {
	return func(_ []*value.Value, arrived func()) bool {
		time.AfterFunc(d, arrived)
		return true
	}
}

func TestAnAcknowledgmentWaitsUntilOtherReplicasHaveTheValue(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, others := newLinkedRig(t, nil)
		others.send = after(time.Second)
		d, zero := &device{}, &device{}
		start := time.Now()
		r.publish(d, "a", "1", 1)
		r.publish(zero, "a", "2", 0)
		r.publish(d, "a", "3", 2)
		synctest.Wait()
		r.expectLive("1 2 3")
		r.expect(d, "")
		r.expect(zero, "0:ok") // it is not acknowledged
		for len(d.said()) == 0 {
			later(time.Millisecond)
		}
		r.expect(d, "0:ok 1:ok")
		elapsed(t, start, time.Second)
	})
}

func TestReplicasAndStoresAreWaitedForAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, others := newLinkedRig(t, nil)
		others.want(everything)
		others.send = after(time.Second)
		r.log.behave = func(int) error { time.Sleep(time.Second); return nil }
		r.log.put = r.log.behave
		d := &device{}
		start := time.Now()
		r.publish(d, "kept/a", "1", 1)
		for len(d.said()) == 0 {
			later(time.Millisecond)
		}
		r.expect(d, "0:ok")
		elapsed(t, start, time.Second)
	})
}

func TestWhatNoOtherReplicaWantsWaitsForNothing(t *testing.T) {
	for name, send := range map[string]func([]*value.Value, func()) bool{
		"nothing left":           nil,
		"arrived before the end": func(_ []*value.Value, arrived func()) bool { arrived(); return true },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r, others := newLinkedRig(t, nil)
				others.send = send
				d := &device{}
				start := time.Now()
				r.publish(d, "a", "1", 1)
				synctest.Wait()
				r.expect(d, "0:ok")
				elapsed(t, start, 0)
			})
		})
	}
}

func TestAReplicaThatTakesItsTimeHoldsOnlyItsBatch(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, others := newLinkedRig(t, nil)
		others.send = func(batch []*value.Value, arrived func()) bool {
			return string(batch[0].Body) == "1" && after(3*time.Second)(batch, arrived)
		}
		d, other := &device{}, &device{}
		r.publish(d, "a", "1", 1)
		synctest.Wait()
		r.publish(d, "a", "2", 1) // behind 1: outcomes of one connection keep their order
		r.publish(other, "a", "3", 1)
		synctest.Wait()
		r.expect(d, "")
		r.expect(other, "0:ok")
		r.expectLive("1 2 3")
		later(3 * time.Second)
		r.expect(d, "0:ok 1:ok")
		if l := r.lane("acme"); l.count != 0 || l.used != 0 {
			t.Errorf("lane still counts %d values and %d bytes", l.count, l.used)
		}
	})
}

func TestAlertsAndErrorsCrossAndHoldNoOutcome(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, others := newLinkedRig(t, nil)
		others.send = func(batch []*value.Value, arrived func()) bool {
			if !topic.Reserved(batch[0].Topic) {
				arrived()
			}
			return true // of alerts and errors nothing is heard
		}
		d := &device{}
		r.publish(d, "temp/a", "900", 1)
		r.publish(d, "temp/a", "90", 1)
		synctest.Wait()
		r.expect(d, "0:range 1:ok")
		if a, e := len(r.audience.notices("_alerts")), len(r.audience.notices("_errors")); a != 1 || e != 1 {
			t.Errorf("%d alerts and %d errors, want one of each", a, e)
		}
	})
}

func TestAnIndexThatMovesWhileAReplicaIsWaitedForIsNoticed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, others := newLinkedRig(t, nil)
		others.send = after(time.Second)
		d := &device{}
		r.publish(d, "a", "1", 1)
		synctest.Wait()
		others.want(everything)
		later(2 * time.Second)
		r.expect(d, "0:ok")
		if got := r.log.bodies(); got != "1" {
			t.Errorf("log has %q, want 1", got)
		}
	})
}
