package ingest

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"

	"maestrohub.io/uns/broker/value"
)

func (r *rig) held() float64 {
	var m dto.Metric
	if err := r.metrics.SessionLogAppendsHeld.Write(&m); err != nil {
		r.t.Fatal(err)
	}
	return m.GetGauge().GetValue()
}

func TestWhileTheIndexIsNotFreshTheLogGetsEverything(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, others := newLinkedRig(t, nil)
		others.unsure.Store(true)
		others.hasLog.Store(true)
		d := &device{}
		start := time.Now()
		r.publish(d, "a", "1", 1)
		r.publish(d, "a", "2", 0) // its live copy has QoS 1
		r.publish(d, "a", "3", 2)
		synctest.Wait()
		r.expect(d, "0:ok 1:ok 2:ok")
		elapsed(t, start, 0)
		others.unsure.Store(false)
		r.publish(d, "a", "4", 1)
		synctest.Wait()
		if got := r.log.bodies(); got != "1 2 3" {
			t.Errorf("log has %q, want 1 2 3", got)
		}
	})
}

func TestWithoutALogAValueIsHeldUntilTheIndexIsFresh(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, others := newLinkedRig(t, nil)
		others.unsure.Store(true)
		d, zero := &device{}, &device{}
		r.publish(d, "a", "1", 1)
		r.publish(d, "a", "2", 2)
		r.publish(zero, "a", "3", 0)
		later(5 * time.Second)
		r.expect(d, "")
		r.expect(zero, "0:ok")
		r.expectLive("1 2 3")
		if got := r.held(); got != 2 {
			t.Errorf("%v held, want 2", got)
		}
		others.unsure.Store(false)
		later(freshAgain)
		r.expect(d, "0:ok 1:ok")
		if got := r.held(); got != 0 {
			t.Errorf("%v held, want none", got)
		}
		if r.log.openedAs != "" {
			t.Error("a log was made for what nobody wants")
		}
	})
}

func TestAHeldValueFoundWantedIsAppendedFirst(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, others := newLinkedRig(t, nil)
		others.unsure.Store(true)
		d := &device{}
		r.publish(d, "a", "1", 1)
		later(time.Second)
		others.want(everything) // the change whose absence could not be proven
		later(freshAgain)
		r.expect(d, "0:ok")
		if got := r.log.bodies(); got != "1" {
			t.Errorf("log has %q, want 1", got)
		}
	})
}

func TestAHeldValueGoesToALogThatIsMadeMeanwhile(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, others := newLinkedRig(t, nil)
		others.unsure.Store(true)
		d := &device{}
		r.publish(d, "a", "1", 1)
		later(time.Second)
		others.hasLog.Store(true)
		r.publish(d, "a", "2", 1)
		later(freshAgain)
		r.expect(d, "0:ok 1:ok")
		if got := r.log.bodies(); got != "1 2" {
			t.Errorf("log has %q, want 1 2", got)
		}
	})
}

func TestAnIndexThatStaysUnfreshRefusesWhatItHolds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, others := newLinkedRig(t, nil)
		others.unsure.Store(true)
		d, two := &device{}, &device{}
		start := time.Now()
		r.publish(d, "a", "1", 1)
		r.publish(two, "a", "2", 2) // its copy has left: refused, it would be forwarded twice
		for d.said() == "" {
			later(10 * time.Millisecond)
		}
		elapsed(t, start, 10*time.Second)
		r.expect(d, "0:log_timeout")
		r.expect(two, "")
		if fmt.Sprint(two.unresolved) != "[0]" {
			t.Errorf("unresolved %v, want [0]", two.unresolved)
		}
		later(time.Minute)
		others.unsure.Store(false)
		later(time.Second)
		r.expect(two, "0:ok")
		if got := r.held(); got != 0 {
			t.Errorf("%v held, want none", got)
		}
	})
}

func TestFreshnessIsAskedWhenTheOutcomeIsGiven(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, others := newLinkedRig(t, nil)
		others.hasLog.Store(true)
		others.send = func(batch []*value.Value, arrived func()) bool {
			return string(batch[0].Body) == "1" && after(time.Second)(batch, arrived)
		}
		d, other := &device{}, &device{}
		r.publish(d, "a", "1", 1) // matched while fresh
		synctest.Wait()
		others.unsure.Store(true)
		r.publish(other, "a", "2", 1)
		synctest.Wait()
		r.expect(other, "0:ok")
		later(time.Second)
		r.expect(d, "0:ok")
		if got := r.log.bodies(); got != "1 2" {
			t.Errorf("log has %q, want 1 2: acknowledged when nothing was proven, in the lane's order", got)
		}
	})
}
