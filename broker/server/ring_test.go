package server

import (
	"math/rand/v2"
	"testing"
)

func TestAcknowledgmentsLeaveInTheOrderOfThePublishes(t *testing.T) {
	// [MQTT-4.6.0-2]: outcomes come in any order, acknowledgments do not.
	r := rand.New(rand.NewPCG(5, 6))
	var ring ackRing
	var waiting []uint64
	pushed, next := 0, 0
	for range 20000 {
		switch {
		case r.IntN(2) == 0 && ring.len() < 300:
			pushed++
			waiting = append(waiting, ring.push(pending{id: uint16(pushed), qos: 1}))
		case len(waiting) > 0:
			i := r.IntN(len(waiting))
			ring.at(waiting[i]).done = true
			waiting = append(waiting[:i], waiting[i+1:]...)
			for {
				p, ok := ring.pop()
				if !ok {
					break
				}
				if next++; p.id != uint16(next) {
					t.Fatalf("acknowledgment %d is of PUBLISH %d", next, p.id)
				}
			}
		}
	}
	if next == 0 || ring.len() != pushed-next {
		t.Fatalf("%d pushed, %d popped, %d left", pushed, next, ring.len())
	}
}

func TestARepeatedQoS2PublishIsFoundWhileItsOutcomeIsUnknown(t *testing.T) {
	var ring ackRing
	ring.push(pending{id: 7, qos: 1})
	slot := ring.push(pending{id: 7, qos: 2})
	if p := ring.find(7); p != ring.at(slot) {
		t.Fatal("the waiting QoS 2 PUBLISH is not found by its identifier")
	}
	if ring.find(8) != nil {
		t.Fatal("an identifier that is not waiting is found")
	}
}
