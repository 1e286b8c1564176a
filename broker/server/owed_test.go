package server

import "testing"

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestWhatIsOwedIsWaitedForAndNothingThatCameAfter(t *testing.T) {
	var o owed
	if !isClosed(o.settled()) {
		t.Fatal("nothing is owed, and it is waited for")
	}
	first, second := o.enter(), o.enter()
	before := o.settled()
	third := o.enter()
	after := o.settled()
	second()
	if isClosed(before) {
		t.Fatal("over while one of two is owed")
	}
	first()
	first() // counts once
	if !isClosed(before) || isClosed(after) {
		t.Fatalf("with the first two told: over for those before %v, for those after %v; want true, false", isClosed(before), isClosed(after))
	}
	third()
	if !isClosed(after) || !isClosed(o.settled()) {
		t.Fatal("nothing is owed any more, and it is waited for")
	}
}

func TestARoundThatEndsEarlyWaitsForTheOneBefore(t *testing.T) {
	var o owed
	first := o.enter()
	before := o.settled()
	second := o.enter()
	after := o.settled()
	second()
	if isClosed(before) || isClosed(after) {
		t.Fatal("over while the first is owed")
	}
	first()
	if !isClosed(before) || !isClosed(after) {
		t.Fatal("not over though nothing is owed")
	}
}
