package ingest

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/value"
)

func TestAWantedValueIsAcknowledgedOnceItIsInTheLog(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.audience.want(everything)
		r.log.behave = func(int) error { time.Sleep(time.Second); return nil }
		d := &device{}
		r.publish(d, "a", "1", 1)
		r.publish(d, "a", "2", 0)
		synctest.Wait()
		r.expect(d, "")
		r.expectLive("1 2") // QoS 0 and 1 do not wait for the log
		later(time.Second)
		r.expect(d, "0:ok 1:ok")
		later(time.Second)
		if got := r.log.bodies(); got != "1 2" {
			t.Errorf("log has %q, want 1 2: the live copy of QoS 0 has QoS 1", got)
		}
	})
}

func TestLiveCopiesLeaveInLaneOrderAndQoS2OnlyFromTheLog(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.audience.want(func(v *value.Value) bool { return v.Topic != "unwanted" })
		r.log.behave = func(int) error { time.Sleep(time.Second); return nil }
		d, other := &device{}, &device{}
		r.publish(d, "a", "1", 1)
		synctest.Wait()
		r.publish(d, "a", "2", 2)
		r.publish(other, "unwanted", "3", 1)
		r.publish(other, "unwanted", "4", 2)
		synctest.Wait()
		r.expectLive("1")
		later(time.Second)
		r.expectLive("1") // 2 is flying now
		r.expect(d, "0:ok")
		r.expect(other, "") // its live copy waits behind 2
		later(time.Second)
		r.expectLive("1 2 3 4")
		r.expect(d, "0:ok 1:ok")
		r.expect(other, "0:ok 1:ok")
	})
}

func TestTheLogDoesNotHoldWhatItDoesNotWant(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.audience.want(func(v *value.Value) bool { return v.Topic == "wanted" })
		r.log.behave = func(int) error { time.Sleep(time.Minute); return nil }
		d, other := &device{}, &device{}
		r.publish(d, "wanted", "1", 1)
		synctest.Wait()
		r.publish(d, "unwanted", "2", 1) // behind 1: outcomes of one connection keep their order
		r.publish(other, "unwanted", "3", 1)
		synctest.Wait()
		r.expect(d, "")
		r.expect(other, "0:ok")
		r.expectLive("1 2 3")
		later(time.Minute)
	})
}

func TestWantedIsDecidedAgainWhenTheOutcomeIsGiven(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, nil)
		d, other := &device{}, &device{}
		r.audience.want(func(v *value.Value) bool { return v.Topic == "first" })
		r.log.behave = func(int) error { time.Sleep(time.Second); return nil }
		r.publish(d, "first", "1", 1)
		synctest.Wait()
		r.publish(d, "late", "2", 1)      // matched, not wanted, held behind 1
		r.publish(other, "first", "3", 1) // waits for the next batch
		synctest.Wait()
		r.audience.want(everything)
		r.publish(other, "late", "4", 1)
		later(3 * time.Second)
		r.expect(d, "0:ok 1:ok")
		if got := r.log.bodies(); got != "1 2 3 4" {
			t.Errorf("log has %q, want 1 2 3 4: what is wanted at its outcome, in lane order", got)
		}
	})
}

func TestAnIndexThatMovesWhileOutcomesAreGivenIsNoticed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, nil)
		d := &device{on: func(slot uint64, _ Outcome) {
			if slot == 1 {
				r := r.audience
				r.want(everything) // a SUBACK between two outcomes of one batch
			}
		}}
		r.gathered(d, "0", "1", "2", "3")
		synctest.Wait()
		r.expect(d, "0:ok 1:ok 2:ok 3:ok")
		if got := r.log.bodies(); got != "2 3" {
			t.Errorf("log has %q, want 2 3, acknowledged after the subscription", got)
		}
		r.expectLive("0 1 2 3")
	})
}

func TestALogThatDoesNotTakeAValueInTimeRefusesIt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.audience.want(everything)
		r.log.behave = func(int) error { time.Sleep(15 * time.Second); return nil }
		d, old, other := &device{}, &device{}, &device{}
		r.publish(d, "a", "1", 1) // flies alone
		synctest.Wait()
		r.publish(d, "a", "2", 2) // cannot have left: refused
		r.publish(old, "b", "3", 1, ordered)
		later(9 * time.Second)
		r.publish(d, "a", "4", 1)            // falls with 2
		r.publish(d, "c", "5", 1)            // another topic: stays
		r.publish(old, "c", "6", 1, ordered) // its connection ends: falls with 3
		r.publish(other, "a", "7", 1)
		later(time.Second)
		r.expect(d, "0:log_timeout 1:log_timeout 2:log_timeout")
		r.expect(old, "0:log_timeout 1:log_timeout")
		r.publish(old, "z", "8", 1, ordered)
		r.expect(old, "0:log_timeout 1:log_timeout 2:log_timeout")
		r.expect(other, "")
		later(5 * time.Second)
		if got := r.log.bodies(); got != "1" {
			t.Errorf("log has %q, want 1, whose batch was out", got)
		}
		later(time.Minute)
		r.expect(d, "0:log_timeout 1:log_timeout 2:log_timeout 3:log_timeout")
		r.expect(other, "0:log_timeout")
		if got := r.log.bodies(); got != "1 5 7" {
			t.Errorf("log has %q, want 1 5 7", got)
		}
	})
}

func TestQoS2InAnUnresolvedBatchIsNeitherAcknowledgedNorRefused(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.audience.want(everything)
		r.log.behave = func(int) error { time.Sleep(14 * time.Second); return nil }
		d := &device{}
		r.publish(d, "a", "1", 2)
		later(11 * time.Second)
		r.expect(d, "")
		if fmt.Sprint(d.unresolved) != "[0]" {
			t.Errorf("unresolved %v, want [0] once", d.unresolved)
		}
		later(time.Minute)
		r.expect(d, "0:ok")
		r.expectLive("1")
	})
}

func TestAnAppendIsRepeatedUntilItsOutcomeIsDefinite(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.audience.want(everything)
		tries := 0
		r.log.behave = func(int) error {
			if tries++; tries < 5 {
				return fmt.Errorf("append: %w", state.ErrUnknown)
			}
			return nil
		}
		d := &device{}
		r.publish(d, "a", "1", 1)
		later(5 * time.Second)
		r.expect(d, "0:ok")
		if tries != 5 {
			t.Errorf("%d tries, want 5", tries)
		}
	})
}

func TestARecordTheLogCanNeverHoldIsRefusedAlone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.audience.want(everything)
		d := &device{}
		r.log.behave = func(records int) error {
			switch {
			case records > 1:
				return state.ErrQuota
			case r.log.bodies() == "0 1":
				r.log.mu.Lock()
				r.log.behave = nil
				r.log.mu.Unlock()
				return state.ErrQuota
			}
			return nil
		}
		r.gathered(d, "0", "1", "2", "3")
		synctest.Wait()
		r.expect(d, "0:ok 1:ok 2:log_refused 3:ok")
		if got := r.log.bodies(); got != "0 1 3" {
			t.Errorf("log has %q, want 0 1 3", got)
		}
	})
}

func TestARetainedValueIsAcknowledgedOnceTheStoreHasIt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.log.put = func(int) error { time.Sleep(time.Second); return nil }
		d := &device{}
		r.publish(d, "kept/a", "1", 1)
		synctest.Wait()
		r.publish(d, "kept/a", "2", 1)
		r.publish(d, "kept/a", "3", 1)
		r.publish(d, "kept/b", "4", 1)
		r.expect(d, "")
		later(time.Second)
		r.expect(d, "0:ok")
		later(time.Second)
		r.expect(d, "0:ok 1:ok 2:ok 3:ok")
		if r.log.puts != 2 || string(r.log.kept["mHv1.0/acme/kept/a"].Body) != "3" {
			t.Errorf("%d puts, last %s, want two with the newest of each topic", r.log.puts, r.log.kept["mHv1.0/acme/kept/a"].Body)
		}
	})
}

func TestARetainedStoreThatDoesNotTakeAValueInTimeRefusesIt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.log.put = func(int) error { return state.ErrUnavailable }
		d := &device{}
		r.publish(d, "kept/a", "1", 1)
		r.publish(d, "kept/a", "2", 2) // forwarded already: refused, it would come twice
		later(10 * time.Second)
		r.expect(d, "0:retained_timeout")
		if fmt.Sprint(d.unresolved) != "[1]" {
			t.Errorf("unresolved %v, want [1]", d.unresolved)
		}
		r.log.mu.Lock()
		r.log.put = nil
		r.log.mu.Unlock()
		later(time.Minute)
		r.expect(d, "0:retained_timeout 1:ok")
	})
}

func TestAnEmptyPayloadClearsWhatIsRetained(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.audience.want(everything)
		d := &device{}
		r.publish(d, "kept/a", "1", 1)
		synctest.Wait()
		r.log.put = func(int) error { time.Sleep(time.Second); return nil }
		r.publish(d, "kept/a", "", 1)
		r.publish(d, "kept/b", "2", 1)
		synctest.Wait()
		r.expectLive("1") // forwarded once it is durable, and nothing overtakes it
		r.expect(d, "0:ok")
		later(3 * time.Second)
		r.expect(d, "0:ok 1:ok 2:ok")
		if live := r.audience.data(); len(live) != 3 || len(live[1].Payload) != 0 || !live[1].Retain {
			t.Errorf("live copies %q, want the empty message in the middle", bodies(live))
		}
		if r.log.kept["mHv1.0/acme/kept/a"] != nil {
			t.Error("the retained message is still there")
		}
		if n := len(r.historian.rows); n != 2 {
			t.Errorf("%d rows, want 2: the empty message is not a value", n)
		}
		if len(r.log.taken) != 3 {
			t.Errorf("%d records in the log, want 3: sessions are fed from it", len(r.log.taken))
		}

		r.publish(d, "blob/x", "", 1)    // zero bytes are a value here
		r.publish(d, "blob/kept", "", 1) // and here, and they clear
		later(3 * time.Second)
		if n := len(r.historian.rows); n != 4 {
			t.Errorf("%d rows, want 4: opaque values of zero bytes are stored", n)
		}
	})
}

func TestQoS0IsDroppedAndReportedWhenTheLogDoesNotTakeIt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.audience.want(everything)
		release := make(chan struct{})
		r.log.behave = func(int) error { <-release; return nil }
		d := &device{}
		r.publish(d, "a", "1", 0)
		synctest.Wait()
		r.publish(d, "a", "2", 0)
		synctest.Wait()
		r.expect(d, "0:ok 1:ok")
		later(11 * time.Second)
		close(release)
		synctest.Wait()
		r.expect(d, "0:ok 1:ok")
		if got := r.log.bodies(); got != "1" {
			t.Errorf("log has %q, want 1", got)
		}
		if n := r.audience.notices("_errors"); len(n) != 1 || !strings.Contains(string(n[0].Payload), `"log_timeout"`) {
			t.Errorf("_errors %q, want one log_timeout", bodies(n))
		}
		if l := r.lane("acme"); l.count != 0 || l.used != 0 {
			t.Errorf("lane still counts %d values and %d bytes", l.count, l.used)
		}
	})
}
