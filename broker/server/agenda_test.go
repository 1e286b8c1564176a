package server

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestTheAgendaRunsEachTaskAtItsTimeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		a := newAgenda()
		go a.run(ctx)
		start := time.Now()
		var ran []time.Duration
		at := func(d time.Duration) *task {
			return a.add(start.Add(d), func() {
				if late := time.Since(start) - d; late != 0 {
					t.Errorf("the task of %v ran %v late", d, late)
				}
				ran = append(ran, d)
			})
		}
		at(3 * time.Hour) // beyond the longest sleep of the agenda
		at(10 * time.Second)
		cancelled := at(5 * time.Second)
		time.Sleep(time.Second)
		at(2 * time.Second) // earlier than what it sleeps for
		if !a.cancel(cancelled) || a.cancel(cancelled) || a.cancel(nil) {
			t.Error("a task is cancelled once, while it waits")
		}
		time.Sleep(4 * time.Hour)
		synctest.Wait()
		if want := []time.Duration{2 * time.Second, 10 * time.Second, 3 * time.Hour}; !slices.Equal(ran, want) {
			t.Errorf("ran %v, want %v", ran, want)
		}
	})
}
