package ingest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"maestrohub.io/uns/broker/value"
)

func TestAValueAloneWaitsForNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.audience.want(everything)
		d := &device{}
		start := time.Now()
		r.publish(d, "a", "1", 1)
		synctest.Wait()
		r.expect(d, "0:ok")
		elapsed(t, start, 0)
		if r.log.bodies() != "1" || r.log.openedAs != "ws-acme" {
			t.Errorf("log of %q has %q, want 1 in ws-acme", r.log.openedAs, r.log.bodies())
		}
	}) // the bubble ends only if the idle lane has no goroutine left
}

func TestWhileABatchIsStoredTheNextGathers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.BatchValues = 4 })
		r.historian.set(func(int, []*value.Value) error { time.Sleep(time.Millisecond); return nil })
		d := &device{}
		for n := range 8 {
			r.publish(d, "a", fmt.Sprint(n), 1)
			if n == 0 {
				synctest.Wait()
			}
		}
		later(10 * time.Millisecond)
		r.expect(d, "0:ok 1:ok 2:ok 3:ok 4:ok 5:ok 6:ok 7:ok")
		if got := fmt.Sprint(r.historian.batches); got != "[[0] [1 2 3 4] [5 6 7]]" {
			t.Errorf("batches %s, want the first alone, then at most 4", got)
		}
		r.expectLive("0 1 2 3 4 5 6 7")
		if d.flushes > 3 {
			t.Errorf("%d flushes for three batches", d.flushes)
		}
	})
}

func TestABatchIsPublishedInOrderWithItsRefusals(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, nil)
		d := &device{}
		var batch []Publish
		for n, payload := range []string{"1", "{", "3", "4"} {
			batch = append(batch, Publish{Name: "mHv1.0/acme/_ingress/press/a", QoS: 1, Payload: []byte(payload), Grants: r.grants, Done: d, Slot: uint64(n)})
		}
		r.PublishBatch(batch)
		synctest.Wait()
		for slot, want := range []Refusal{0, Payload, 0, 0} {
			if got := d.outcomes[uint64(slot)].Refusal; got != want {
				t.Errorf("outcome of %d: %s, want %s", slot, got, want)
			}
		}
		r.expectLive("1 3 4")
	})
}

func TestRoomHoldsPublishersBackAndThenRefuses(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.Room = 3 * entryBytes })
		release := make(chan struct{})
		r.historian.set(func(int, []*value.Value) error { <-release; return nil })
		d, other := &device{}, &device{}
		start := time.Now()
		r.publish(d, "a", "1", 1)
		r.publish(d, "a", "2", 1)
		r.publish(d, "a", "3", 1) // the third has no room: waits, then is refused
		elapsed(t, start, 10*time.Second)
		r.expect(d, "2:no_room")
		go r.publish(other, "a", "4", 1)
		synctest.Wait()
		r.expect(other, "")
		close(release)
		synctest.Wait()
		r.expect(other, "0:ok")
		r.expect(d, "2:no_room 0:ok 1:ok")
		elapsed(t, start, 10*time.Second)
	})
}

func TestNothingOfAnEndedConnectionIsTakenAfterARefusal(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.Room = 2 * entryBytes })
		release := make(chan struct{})
		r.historian.set(func(int, []*value.Value) error { <-release; return nil })
		d := &device{}
		r.publish(d, "a", "1", 1, ordered)
		r.publish(d, "b", "2", 1, ordered)
		close(release)
		synctest.Wait()
		r.publish(d, "c", "3", 1, ordered)
		r.expect(d, "1:no_room 0:ok 2:no_room")
	})
}

func TestStopSettlesEverythingFirst(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.audience.want(everything)
		r.historian.set(func(int, []*value.Value) error { time.Sleep(time.Second); return nil })
		r.log.behave = func(int) error { time.Sleep(time.Second); return nil }
		d := &device{}
		for n := range 3 {
			r.publish(d, "a", fmt.Sprint(n), 1)
		}
		if err := r.Stop(context.Background()); err != nil {
			t.Fatal(err)
		}
		r.expect(d, "0:ok 1:ok 2:ok")
		r.publish(d, "a", "3", 1)
		r.expect(d, "0:ok 1:ok 2:ok 3:shed")
		if r.log.bodies() != "0 1 2" {
			t.Errorf("log has %q, want 0 1 2", r.log.bodies())
		}
	})
}

func TestStopGivesUpWhenItsTimeIsOver(t *testing.T) {
	for name, hang := range map[string]func(r *rig, release chan struct{}){
		"historian hangs": func(r *rig, release chan struct{}) {
			r.historian.set(func(int, []*value.Value) error { <-release; return nil })
		},
		"historian fails": func(r *rig, release chan struct{}) { r.historian.set(unavailable) },
		"log hangs": func(r *rig, release chan struct{}) {
			r.log.behave = func(int) error { <-release; return context.Canceled }
		},
		"log fails":       func(r *rig, release chan struct{}) { r.log.behave = func(int) error { return errBroken } },
		"retained fails":  func(r *rig, release chan struct{}) { r.log.put = func(int) error { return errBroken } },
		"nothing is free": func(r *rig, release chan struct{}) { r.o.Room = 1; r.historian.set(unavailable) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r := newRig(t, nil)
				r.audience.want(everything)
				release := make(chan struct{})
				hang(r, release)
				d := &device{}
				go func() {
					for n := range 3 {
						r.publish(d, "kept/a", fmt.Sprint(n), byte(n))
					}
				}()
				synctest.Wait()
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				start := time.Now()
				err := r.Stop(ctx)
				elapsed(t, start, time.Second)
				if err == nil {
					t.Error("Stop returned nil with values unsettled")
				}
				close(release)
				synctest.Wait()
				if got := len(d.outcomes); got != 3 || d.twice || strings.Contains(strings.TrimPrefix(d.said(), "0:ok"), "ok") {
					t.Errorf("outcomes %q, want one each, none acknowledged but QoS 0", d.said())
				}
			})
		})
	}
}
