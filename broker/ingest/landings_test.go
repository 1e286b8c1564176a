package ingest

import (
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"

	"maestrohub.io/uns/broker/value"
)

func (r *rig) reordered() float64 {
	var m dto.Metric
	if err := r.metrics.SessionLogAppendsReordered.Write(&m); err != nil {
		r.t.Fatal(err)
	}
	return m.GetCounter().GetValue()
}

// A shared subscription may choose a clean member for one value of a topic and a
// persistent one for the next. If a persistent session then subscribes while the
// first still waits for its outcome, it lands behind the second.
func TestAValueThatLandsBehindALaterOneOfItsTopicIsCounted(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, others := newLinkedRig(t, nil)
		others.want(func(v *value.Value) bool { return string(v.Body) == "2" || string(v.Body) == "4" })
		others.send = func(batch []*value.Value, arrived func()) bool {
			return v1or3(batch[0]) && after(time.Second)(batch, arrived)
		}
		d, other := &device{}, &device{}
		r.publish(d, "a", "1", 1)
		synctest.Wait()
		r.publish(other, "a", "2", 1)
		synctest.Wait()
		r.publish(d, "b", "3", 1)
		synctest.Wait()
		r.publish(other, "c", "4", 1)
		synctest.Wait()
		r.expect(other, "0:ok 1:ok")
		others.want(everything)
		later(2 * time.Second)
		r.expect(d, "0:ok 1:ok")
		if got := r.log.bodies(); got != "2 4 1 3" {
			t.Errorf("log has %q, want 2 4 1 3", got)
		}
		if got := r.reordered(); got != 1 {
			t.Errorf("%v reordered, want 1: 3 is alone on its topic", got)
		}
		if n := len(r.lane("acme").step4.landings.last); n != 0 {
			t.Errorf("an idle lane remembers %d topics", n)
		}
	})
}

func v1or3(v *value.Value) bool { return string(v.Body) == "1" || string(v.Body) == "3" }

func TestLandingsForgetWhatCanNoLongerComeLate(t *testing.T) {
	var g landings
	for n := range uint64(10_000) {
		e := &entry{v: &value.Value{Topic: string(rune('a' + n))}, seq: n + 10, log: landed}
		if g.note([]*entry{e}, n) > 0 {
			t.Fatalf("entry %d counted as reordered", n)
		}
		if len(g.last) > firstPrune+1 {
			t.Fatalf("%d topics remembered, of which 10 matter", len(g.last))
		}
	}
}
