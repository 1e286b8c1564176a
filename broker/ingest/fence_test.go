package ingest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/value"
)

// abandonable is a log whose appends return when their batch is given up.
type abandonable struct {
	*journal
	given    chan struct{}
	abandons atomic.Int32
}

func (a *abandonable) Append(ctx context.Context, records [][]byte) (uint64, error) {
	select {
	case <-ctx.Done():
		// As slow in letting go as a store may be.
		time.Sleep(time.Second)
		return 0, fmt.Errorf("%w: %w", state.ErrUnknown, ctx.Err())
	case <-a.given:
	}
	return a.journal.Append(ctx, records)
}

func (a *abandonable) Abandon() { a.abandons.Add(1) }

func (a *abandonable) Log(context.Context, string) (state.Log, error) { return a, nil }

func TestAfterAFenceEverythingInTheLanesIsShedWithoutEffect(t *testing.T) {
	for name, hang := range map[string]func(r *rig, others *replicas, release chan struct{}){
		"at the historian": func(r *rig, _ *replicas, release chan struct{}) {
			r.historian.set(func(int, []*value.Value) error { <-release; return nil })
		},
		"historian fails": func(r *rig, _ *replicas, _ chan struct{}) { r.historian.set(unavailable) },
		"at the log": func(r *rig, _ *replicas, release chan struct{}) {
			r.log.behave = func(int) error { <-release; return context.Canceled }
		},
		"log fails":      func(r *rig, _ *replicas, _ chan struct{}) { r.log.behave = func(int) error { return errBroken } },
		"retained fails": func(r *rig, _ *replicas, _ chan struct{}) { r.log.put = func(int) error { return errBroken } },
		"on the way to other replicas": func(_ *rig, others *replicas, release chan struct{}) {
			others.send = func(_ []*value.Value, arrived func()) bool {
				go func() { <-release; arrived() }()
				return true
			}
		},
		"nothing is certain": func(_ *rig, others *replicas, _ chan struct{}) {
			others.unsure.Store(true)
			others.want(func(v *value.Value) bool { return false })
		},
		"no room": func(r *rig, _ *replicas, _ chan struct{}) { r.o.Room = 1; r.historian.set(unavailable) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r, others := newLinkedRig(t, nil)
				others.want(everything)
				release := make(chan struct{})
				hang(r, others, release)
				d := &device{}
				go func() {
					for n := range 3 {
						r.publish(d, "kept/a", fmt.Sprint(n), 1)
					}
				}()
				later(5 * time.Second)
				r.Fence()
				synctest.Wait()
				live, logged, puts := len(r.audience.data()), r.log.bodies(), r.log.puts
				r.expectSheds(d, 3)
				if got := r.held(); got != 0 {
					t.Errorf("%v held after a fence, want none", got)
				}
				r.publish(d, "kept/a", "3", 1)
				r.expectSheds(d, 4)
				close(release)
				later(time.Minute)
				if len(r.audience.data()) != live || r.log.bodies() != logged || r.log.puts != puts {
					t.Errorf("after the fence: %d live copies, log %q, %d puts; before %d, %q, %d",
						len(r.audience.data()), r.log.bodies(), r.log.puts, live, logged, puts)
				}
				if n := len(r.audience.notices("_errors")); n != 0 {
					t.Errorf("%d errors, want none: the device sends the values again", n)
				}
				if r.Outstanding() != 0 {
					t.Errorf("%d values outstanding", r.Outstanding())
				}
				if n := len(r.Rejects("acme", 0, 10)); n != 4 {
					t.Errorf("%d in the reject feed, want 4", n)
				}
			})
		})
	}
}

func (r *rig) expectSheds(d *device, n int) {
	r.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.outcomes) != n || d.twice || d.unflushed > 0 {
		r.t.Errorf("%d outcomes (twice %t, unflushed %d), want %d", len(d.outcomes), d.twice, d.unflushed, n)
	}
	for slot, o := range d.outcomes {
		if o.Refusal != Shed {
			r.t.Errorf("outcome of %d: %s, want shed", slot, o.Refusal)
		}
	}
}

func TestServeOpensTheDoorAgainWithFreshLanes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, others := newLinkedRig(t, nil)
		others.want(everything)
		d := &device{}
		r.publish(d, "a", "1", 1)
		synctest.Wait()
		r.Fence()
		r.publish(d, "a", "2", 1)
		r.Serve()
		r.publish(d, "a", "3", 1)
		r.publish(d, "a", "{", 1)
		synctest.Wait()
		r.expect(d, "0:ok 1:shed 3:payload 2:ok")
		r.expectLive("1 3")
		if got := r.log.bodies(); got != "1 3" {
			t.Errorf("log has %q, want 1 3", got)
		}
		rejects := r.Rejects("acme", 0, 10)
		if len(rejects) != 2 || rejects[1].Sequence != 2 {
			t.Errorf("reject feed %v, want one before Serve and one after", rejects)
		}
		if err := r.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

func TestAnAppendIsAbandonedBeforeTheNextLifeAppends(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		log := &abandonable{given: make(chan struct{})}
		r, others := newLinkedRig(t, func(o *Options) {
			log.journal = o.Retained.(*journal)
			o.Logs = log
		})
		others.want(everything)
		d := &device{}
		r.publish(d, "a", "1", 1)
		synctest.Wait()
		r.Fence()
		synctest.Wait()
		r.expect(d, "0:shed") // at once, while the append has not returned
		r.Serve()
		close(log.given)
		r.publish(d, "a", "2", 1)
		synctest.Wait()
		r.expectLive("1 2")
		r.expect(d, "0:shed")
		if log.abandons.Load() != 0 || log.bodies() != "" {
			t.Fatalf("appended %q beside an append that is still out", log.bodies())
		}
		later(time.Second)
		r.expect(d, "0:shed 1:ok")
		if n := log.abandons.Load(); n != 1 || log.bodies() != "2" {
			t.Errorf("%d abandoned, log has %q; want one and 2", n, log.bodies())
		}
	})
}

func TestNothingLeavesOnceMayActIsFalse(t *testing.T) {
	var (
		historian = func(r *rig) { r.historian.set(sleep[[]*value.Value](time.Second)) }
		log       = func(r *rig) { r.log.behave = func(int) error { time.Sleep(time.Second); return nil } }
		retained  = func(r *rig) { r.log.put = func(int) error { time.Sleep(time.Second); return nil } }
	)
	for name, slow := range map[string]func(r *rig){"historian": historian, "log": log, "retained": retained} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var over atomic.Bool
				r, others := newLinkedRig(t, func(o *Options) { o.MayAct = func() bool { return !over.Load() } })
				others.want(everything)
				slow(r)
				d := &device{}
				r.publish(d, "kept/a", "1", 2)
				synctest.Wait()
				appends, puts, live := r.log.appends, r.log.puts, bodies(r.audience.data())
				over.Store(true) // nobody has called Fence yet
				later(time.Minute)
				r.expect(d, "0:shed")
				r.expectLive(live)
				if r.log.appends != appends || r.log.puts != puts {
					t.Errorf("%d appends and %d puts after the fence", r.log.appends-appends, r.log.puts-puts)
				}
				r.publish(d, "a", "2", 1)
				r.expect(d, "0:shed 1:shed")
				r.Fence()
				over.Store(false)
				r.publish(d, "a", "3", 1)
				r.expect(d, "0:shed 1:shed 2:shed")
				r.Serve()
				r.publish(d, "a", "4", 1)
				later(3 * time.Second)
				r.expect(d, "0:shed 1:shed 2:shed 3:ok")
			})
		})
	}
}

func sleep[T any](d time.Duration) func(int, T) error {
	return func(int, T) error { time.Sleep(d); return nil }
}

func TestMayActIsAskedAtEachAcknowledgment(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var over atomic.Bool
		r, _ := newLinkedRig(t, func(o *Options) { o.MayAct = func() bool { return !over.Load() } })
		d := &device{on: func(slot uint64, _ Outcome) { over.Store(slot == 1) }}
		r.gathered(d, "0", "1", "2", "3")
		synctest.Wait()
		r.expect(d, "0:ok 1:ok 2:shed 3:shed")
	})
}
