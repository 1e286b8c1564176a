package cluster

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/state/memory"
)

func TestTheIndexIsFreshAsOfTheProbesSending(t *testing.T) {
	f := &freshness{}
	f.begin(at(0))
	early := f.sent(at(2.9))
	f.landed(early, 10, at(3))
	f.apply(10)
	if !f.asOf.IsZero() {
		t.Fatal("a probe sent less than 3 s after the entry landed counts")
	}
	n := f.sent(at(3))
	f.apply(20)
	if !f.asOf.IsZero() {
		t.Fatal("fresh before the probe is back")
	}
	f.landed(n, 21, at(5))
	if !f.asOf.IsZero() {
		t.Fatal("fresh before everything up to the probe is applied")
	}
	f.apply(21)
	if !f.asOf.Equal(at(3)) {
		t.Fatalf("fresh as of %v, the probe was sent at 3", f.asOf.Sub(epoch))
	}
	// The echo may be applied before the answer comes; answers come in any order.
	a, b := f.sent(at(6)), f.sent(at(7))
	f.apply(31)
	f.landed(b, 31, at(8))
	f.landed(a, 30, at(9))
	if !f.asOf.Equal(at(7)) || len(f.pending) != 0 {
		t.Fatalf("fresh as of %v, %d pending", f.asOf.Sub(epoch), len(f.pending))
	}
	f.failed(f.sent(at(10)))
	f.lose()
	if !f.asOf.IsZero() {
		t.Fatal("fresh although changes may be missing")
	}
	f.begin(at(20))
	f.landed(f.sent(at(22)), 40, at(22))
	f.apply(40)
	if !f.asOf.IsZero() {
		t.Fatal("fresh right after an unfence")
	}
	for range 1000 {
		f.sent(at(30))
	}
	if len(f.pending) > probesKept {
		t.Fatalf("%d probes kept", len(f.pending))
	}
}

// indexed follows the bucket as a subscribe index would and tells f.
func indexed(ctx context.Context, t *testing.T, b state.Bucket, f *Freshness, hold func() bool) {
	w, err := b.Watch(ctx, "")
	if err != nil {
		t.Error(err)
		return
	}
	ready := false
	for u := range w.Updates() {
		for hold() && ctx.Err() == nil {
			rest(ctx, 10*time.Millisecond)
		}
		switch {
		case u.Lost:
			ready = false
			f.Lost()
		case u.Ready:
			ready = true
		case ready:
			f.Applied(u.Revision)
		}
	}
}

func TestAnIndexIsTrustedForThreeSecondsAfterTheLastProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := memory.Open(memory.Options{})
		if err != nil {
			t.Fatal(err)
		}
		b, _ := store.Bucket(t.Context(), state.SessionState)
		f := Probe(b, "uns-0")
		ctx, cancel := context.WithCancel(t.Context())
		held := make(chan bool, 1)
		held <- false
		hold := func() bool { h := <-held; held <- h; return h }
		go f.Run(ctx)
		go indexed(ctx, t, b, f, hold)
		begun := time.Now()
		f.Begin()
		for time.Since(begun) < 2900*time.Millisecond {
			if f.Fresh(time.Now()) {
				t.Fatalf("fresh %v after the start", time.Since(begun))
			}
			rest(ctx, 100*time.Millisecond)
		}
		rest(ctx, 1200*time.Millisecond)
		for range 100 {
			if !f.Fresh(time.Now()) {
				t.Fatalf("not fresh: %v", f)
			}
			rest(ctx, 100*time.Millisecond)
		}
		if u := f.Unreachable(time.Now()); u > ProbeEvery {
			t.Fatalf("the store counts as unreachable for %v", u)
		}
		<-held
		held <- true // the watch stands still
		stood := time.Now()
		for f.Fresh(time.Now()) {
			rest(ctx, 10*time.Millisecond)
		}
		if took := time.Since(stood); took < 2*time.Second || took > FreshBound+20*time.Millisecond {
			t.Fatalf("trusted for %v after the watch stood still", took)
		}
		<-held
		held <- false
		rest(ctx, 1100*time.Millisecond)
		if !f.Fresh(time.Now()) {
			t.Fatalf("not fresh again: %v", f)
		}
		f.Begin()
		if f.Fresh(time.Now()) {
			t.Fatal("fresh right after an unfence")
		}
		if fmt.Sprint(f) == "" {
			t.Fatal("says nothing")
		}
		cancel()
		store.Close()
		synctest.Wait()
	})
}
