package ingest

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"

	"maestrohub.io/uns/broker/value"
)

func (r *rig) liveDropped() float64 {
	r.t.Helper()
	var m dto.Metric
	if err := r.metrics.LiveMirrorDropped.Write(&m); err != nil {
		r.t.Fatal(err)
	}
	return m.GetCounter().GetValue()
}

// A stored value of QoS 2 sends its live copy once the log has it. Refused for the
// log's sake before it was in an append, it has none: history has what subscribers missed.
func TestAStoredValueThatIsRefusedForTheLogsSakeCountsAsALiveCopyDropped(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var broken atomic.Bool
		broken.Store(true)
		r := newRig(t, nil)
		r.audience.want(everything)
		r.log.behave = func(int) error {
			if broken.Load() {
				return errBroken
			}
			return nil
		}
		d := &device{}
		r.publish(d, "a", "1", 2) // in the append that fails, and so unresolved
		synctest.Wait()
		r.publish(d, "a", "2", 2) // behind it
		later(r.o.AppendWait + time.Second)
		broken.Store(false)
		later(time.Minute)
		r.expectLive("1")
		if got := r.liveDropped(); got != 1 {
			t.Errorf("%v live copies dropped, want 1: what is in an append may yet land", got)
		}
	})
}

// A fence ends what is stored and not sent. A device of QoS 1 has no acknowledgment
// and sends again; one of QoS 0 does not.
func TestAFenceDropsTheLiveCopyOfAValueThatNobodySendsAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var over atomic.Bool
		r := newRig(t, func(o *Options) { o.MayAct = func() bool { return !over.Load() } })
		r.historian.set(func(int, []*value.Value) error {
			over.Store(true) // between the write and all that follows
			return nil
		})
		d, zero := &device{}, &device{}
		r.publish(zero, "a", "1", 0)
		r.publish(d, "a", "2", 1)
		synctest.Wait()
		r.expectLive("")
		if got := r.liveDropped(); got != 1 {
			t.Errorf("%v live copies dropped, want that of QoS 0", got)
		}
	})
}
