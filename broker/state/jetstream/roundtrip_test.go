package jetstream

import (
	"testing"
	"time"
)

func TestOneLateAnswerDoesNotDelayTheNextRequest(t *testing.T) {
	var r roundTrip
	if got := r.overdue(0, time.Second, 2*time.Second); got != time.Second {
		t.Errorf("without any answer yet: sent again after %v", got)
	}
	for range 10 {
		r.add(time.Millisecond)
	}
	r.add(12 * time.Second) // an election was waited out
	r.add(12 * time.Second)
	if got := r.overdue(0, 500*time.Millisecond, 2*time.Second); got != 500*time.Millisecond {
		t.Errorf("after two late answers among quick ones: sent again after %v", got)
	}
	r.add(12 * time.Second) // three of five: it is slow now
	if got := r.overdue(0, 500*time.Millisecond, 2*time.Second); got != 10*time.Second {
		t.Errorf("of a slow server: sent again after %v", got)
	}
}

func TestRequestsAreSentAgainMoreAndMoreSlowlyUpToABound(t *testing.T) {
	var r roundTrip
	r.add(time.Millisecond)
	before, total := time.Duration(0), time.Duration(0)
	for attempt := range 40 {
		got := r.overdue(attempt, 500*time.Millisecond, 2*time.Second)
		if got < before || got > 2*time.Second {
			t.Fatalf("attempt %d waits %v after one that waited %v", attempt, got, before)
		}
		before = got
		if total += got; attempt == 6 && total < 5*time.Second {
			t.Errorf("seven attempts within %v", total)
		}
	}
}
