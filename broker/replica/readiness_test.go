package replica

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"maestrohub.io/uns/broker/config"
	"maestrohub.io/uns/broker/historian"
)

func TestAStoreThatSaysItCannotServeIsBelievedAtOnceAndTrustedAgainOnceItCan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failing atomic.Bool
		p := &probe{name: "historian", check: func(context.Context) error {
			if failing.Load() {
				return fmt.Errorf("%w: disk full", historian.ErrUnavailable)
			}
			return nil
		}}
		var log bytes.Buffer
		go p.run(t.Context(), NewLogger(&log, config.Log{}), func() {})
		synctest.Wait()
		if err := p.state(); err != nil {
			t.Fatalf("after a good probe: %v, want ready", err)
		}
		failing.Store(true)
		time.Sleep(probeEvery)
		synctest.Wait()
		if err := p.state(); err == nil || !strings.Contains(err.Error(), "disk full") {
			t.Fatalf("%s after the disk filled up: %v, want the reason", probeEvery, err)
		}
		failing.Store(false)
		time.Sleep(probeEvery)
		synctest.Wait()
		if err := p.state(); err != nil {
			t.Fatalf("%s after there was room again: %v, want ready", probeEvery, err)
		}
		if got := strings.Count(log.String(), "\n"); got != 2 {
			t.Errorf("%d lines logged, want one per change:\n%s", got, log.String())
		}
	})
}

func TestAStoreThatDoesNotAnswerIsGivenFifteenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := true
		p := &probe{name: "shared state", check: func(ctx context.Context) error {
			if first {
				first = false
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}}
		var log bytes.Buffer
		go p.run(t.Context(), NewLogger(&log, config.Log{}), func() {})
		time.Sleep(probeBound - time.Millisecond)
		if err := p.state(); err != nil {
			t.Fatalf("just before the bound: %v, want ready", err)
		}
		time.Sleep(2 * time.Millisecond)
		if err := p.state(); err == nil {
			t.Fatal("past the bound: ready, want not")
		}
	})
}

func TestAStoreThatFailsNowAndThenStaysReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		p := &probe{name: "shared state", check: func(context.Context) error {
			if n++; n%3 == 1 {
				return nil
			}
			return errors.New("timed out")
		}}
		var log bytes.Buffer
		go p.run(t.Context(), NewLogger(&log, config.Log{}), func() {})
		synctest.Wait()
		for range 20 {
			time.Sleep(probeEvery)
			if err := p.state(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
