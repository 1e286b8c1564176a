package server

import (
	"testing"

	"maestrohub.io/uns/broker/mqtt"
)

func TestAcknowledgmentsLeaveInOrderWhateverOrderOutcomesComeIn(t *testing.T) {
	var r ackRing
	const n = 100 // the ring grows on the way, with head and tail anywhere
	for round := range 5 {
		slots := make([]uint64, n)
		for i := range slots {
			slots[i] = r.push(pending{id: uint16(i + 1), qos: byte(1 + i%2)})
		}
		for i := n - 1; i > 0; i-- {
			r.at(slots[i]).done = true
			if _, ok := r.pop(); ok {
				t.Fatalf("round %d: an outcome overtook the first PUBLISH's", round)
			}
		}
		r.at(slots[0]).done = true
		for i := range slots {
			if p, ok := r.pop(); !ok || p.id != uint16(i+1) {
				t.Fatalf("round %d: %d, %v, want %d", round, p.id, ok, i+1)
			}
		}
		if r.len() != 0 || r.isOpen(2) {
			t.Fatalf("round %d: %d left, identifier 2 open %v", round, r.len(), r.isOpen(2))
		}
		r.push(pending{qos: 1, done: true}) // shifts the next round
		r.pop()
	}
}

func TestARepetitionSharesTheRefusalOfItsPublish(t *testing.T) {
	var r ackRing
	first := r.push(pending{id: 7, qos: 2})
	other := r.push(pending{id: 8, qos: 2})
	if !r.isOpen(7) || !r.isOpen(8) || r.isOpen(9) {
		t.Fatal("open are not the two that wait")
	}
	for _, id := range []uint16{7, 8, 7} {
		r.push(pending{id: id, qos: 2, done: true, repeated: true})
	}
	r.at(first).done, r.at(first).code, r.at(first).reason, r.at(first).retry = true, mqtt.UnspecifiedError, "why", true
	r.at(other).done = true
	for _, want := range []pending{
		{id: 7, qos: 2, done: true, code: mqtt.UnspecifiedError, reason: "why", retry: true},
		{id: 8, qos: 2, done: true},
		{id: 7, qos: 2, done: true, repeated: true, code: mqtt.UnspecifiedError, reason: "why", retry: true},
		{id: 8, qos: 2, done: true, repeated: true},
		{id: 7, qos: 2, done: true, repeated: true, code: mqtt.UnspecifiedError, reason: "why", retry: true},
	} {
		if p, ok := r.pop(); !ok || p != want {
			t.Errorf("%+v, want %+v", p, want)
		}
	}
	if r.repeats != 0 || r.isOpen(7) {
		t.Errorf("%d repetitions left, identifier 7 open %v", r.repeats, r.isOpen(7))
	}
}
