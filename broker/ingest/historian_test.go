package ingest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"maestrohub.io/uns/broker/historian"
	"maestrohub.io/uns/broker/value"
)

var errBroken = errors.New("broken")

func unavailable(int, []*value.Value) error {
	return fmt.Errorf("disk full: %w", historian.ErrUnavailable)
}

// gathered publishes payloads so that all but the first are one batch.
func (r *rig) gathered(d *device, payloads ...string) {
	release := make(chan struct{})
	after := r.historian.behave
	r.historian.set(func(call int, values []*value.Value) error {
		if string(values[0].Body) == payloads[0] && len(values) == 1 {
			<-release
			return nil
		}
		if after != nil {
			return after(call, values)
		}
		return nil
	})
	for _, p := range payloads {
		r.publish(d, "a", p, 1)
		synctest.Wait()
	}
	close(release)
}

func TestAnUnavailableHistorianIsRetriedInABudgetThenRefused(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.historian.set(unavailable)
		d := &device{}
		r.publish(d, "a", "1", 1)
		later(29 * time.Second)
		r.expect(d, "")
		later(3 * time.Second)
		r.expect(d, "0:historian_unavailable")
		if r.historian.calls < 20 || r.historian.calls > 60 {
			t.Errorf("%d tries in 30 s, want some, backed off to one a second", r.historian.calls)
		}
		r.publish(d, "a", "2", 1)
		later(time.Second)
		r.historian.set(nil)
		later(time.Second)
		r.expect(d, "0:historian_unavailable 1:ok")
		r.expectLive("2")
	})
}

func TestAValueTheHistorianCannotStoreIsRefusedAlone(t *testing.T) {
	for name, fail := range map[string]func(values []*value.Value, bad int) error{
		"named by its index": func(_ []*value.Value, bad int) error {
			return fmt.Errorf("append: %w", &historian.ValueError{Index: bad, Err: errBroken})
		},
		"found by halving": func([]*value.Value, int) error { return errBroken },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r := newRig(t, nil)
				r.historian.behave = func(_ int, values []*value.Value) error {
					if bad := slices.IndexFunc(values, func(v *value.Value) bool { return string(v.Body) == "6" }); bad >= 0 {
						return fail(values, bad)
					}
					return nil
				}
				d := &device{}
				r.gathered(d, "0", "1", "2", "3", "4", "5", "6", "7", "8")
				synctest.Wait()
				if got := d.outcomes[6].Refusal; got != Unstorable {
					t.Errorf("outcome of the bad value: %s, want %s", got, Unstorable)
				}
				if !slices.IsSorted(d.slots) {
					t.Errorf("outcomes %q out of order", d.said())
				}
				r.expectLive("0 1 2 3 4 5 7 8")
			})
		})
	}
}

func TestAHungWriteIsGivenUpOnAndItsValuesWrittenAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, nil)
		release := make(chan struct{})
		var hung []*value.Value
		r.historian.set(func(call int, values []*value.Value) error {
			if call == 1 {
				hung = values
				<-release
			}
			return nil
		})
		d := &device{}
		start := time.Now()
		r.publish(d, "a", "1", 1)
		later(10 * time.Second)
		r.expect(d, "0:ok")
		elapsed(t, start, 10*time.Second)
		if hung[0] == r.audience.data()[0] {
			t.Error("the value still in the hung write is the one delivered")
		}
		close(release) // it lands after all: the row is the same
		synctest.Wait()
		r.expect(d, "0:ok")
		if len(r.historian.rows) != 1 {
			t.Errorf("%d rows, want 1", len(r.historian.rows))
		}
		r.publish(d, "a", "2", 1)
		synctest.Wait()
		r.expectLive("1 2")
	})
}

func TestValuesAreQuarantinedAfterRepeatedHungWrites(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, nil)
		release := make(chan struct{})
		r.historian.behave = func(_ int, values []*value.Value) error {
			for _, v := range values {
				if string(v.Body) == "50" {
					<-release
				}
			}
			return nil
		}
		d := &device{}
		payloads := make([]string, 100)
		for n := range payloads {
			payloads[n] = fmt.Sprint(n)
		}
		r.gathered(d, payloads...)
		later(31 * time.Second)
		if got := d.outcomes[50].Refusal; got != HistorianQuarantined {
			t.Errorf("outcome of the value whose writes hang: %s, want %s", got, HistorianQuarantined)
		}
		refused := 0
		for _, o := range d.outcomes {
			if o.Refusal != 0 {
				refused++
			}
		}
		if refused != 1 || len(d.outcomes) != 100 || !slices.IsSorted(d.slots) {
			t.Errorf("%d of %d refused, want that one of 100, in order", refused, len(d.outcomes))
		}
		close(release)
		synctest.Wait()
	})
}

func TestHungWritesAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, nil)
		release := make(chan struct{})
		r.historian.set(func(int, []*value.Value) error { <-release; return nil })
		d := &device{}
		for n := range 6 {
			r.publish(d, fmt.Sprint("topic/", n), fmt.Sprint(n), 1)
			synctest.Wait()
			time.Sleep(time.Second)
		}
		later(10 * time.Minute)
		if r.historian.calls != hungInFlight {
			t.Errorf("%d writes in flight, want %d", r.historian.calls, hungInFlight)
		}
		if len(d.outcomes) != 6 {
			t.Errorf("outcomes %q, want one for each", d.said())
		}
		r.historian.set(nil)
		close(release)
		r.publish(d, "topic/7", "7", 1)
		synctest.Wait()
		if d.outcomes[6].Refusal != 0 {
			t.Errorf("after the hung writes returned: %s, want stored", d.outcomes[6].Refusal)
		}
	})
}
