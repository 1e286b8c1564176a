package server

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"

	"maestrohub.io/uns/broker/metrics"
	"maestrohub.io/uns/broker/session"
)

// A read that takes long, or failed, is what the status and the metric tell of; not one
// that is answered at once, nor a session whose connection has ended.
func TestASessionWhoseReadsWaitForTheStoreIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{metrics: metrics.New(), agenda: newAgenda()}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go s.agenda.run(ctx)
		cl := &client{id: "reader"}
		c := &connection{server: s, client: cl, lock: &cl.lock, session: &session.Session{Persistent: true}}
		held := func(step string, want float64) {
			t.Helper()
			synctest.Wait()
			var m dto.Metric
			if err := s.metrics.SessionLogReadsHeld.Write(&m); err != nil {
				t.Fatal(err)
			}
			if got := m.GetGauge().GetValue(); got != want || s.Stats().ReadsHeld != int(want) {
				t.Errorf("%s: %v held in the metrics and %d in the status, want %v", step, got, s.Stats().ReadsHeld, want)
			}
		}
		read := func(takes time.Duration, fails error) (done chan error) {
			done = make(chan error, 1)
			go func() {
				done <- c.reading(func() error {
					time.Sleep(takes)
					return fails
				})
			}()
			return done
		}

		<-read(heldAfter/2, nil)
		held("answered at once", 0)
		done := read(4*heldAfter, nil)
		time.Sleep(heldAfter / 2)
		held("under way", 0)
		time.Sleep(heldAfter)
		held("not answered for longer than a second", 1)
		<-done
		held("answered", 0)
		<-read(0, errors.New("no answer"))
		held("failed", 1)
		<-read(0, errors.New("no answer"))
		held("failed again", 1)
		<-read(0, nil)
		held("answered in the end", 0)

		done = read(4*heldAfter, nil)
		time.Sleep(2 * heldAfter)
		held("waits", 1)
		c.lock.Lock()
		c.ended = true
		c.readsHeld(false) // as end does
		c.lock.Unlock()
		held("its connection has ended", 0)
		<-done
		<-read(0, errors.New("no answer"))
		held("its last read failed", 0)
	})
}
