package server

import (
	"math/rand/v2"
	"testing"

	"maestrohub.io/uns/broker/mqtt"
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

func TestARepetitionSharesTheOutcomeOfTheFirst(t *testing.T) {
	// [MQTT-4.3.3-10]: a QoS 2 PUBLISH under an identifier whose outcome is not known
	// yet is a repetition, and is refused if the first is.
	var ring ackRing
	ring.push(pending{id: 7, qos: 1})
	first := ring.push(pending{id: 7, qos: 2})
	if !ring.isOpen(7) || ring.isOpen(8) {
		t.Fatalf("open: 7 %v, 8 %v; want the waiting QoS 2 identifier alone", ring.isOpen(7), ring.isOpen(8))
	}
	ring.push(pending{id: 7, qos: 2, done: true, repeated: true})
	ring.at(first - 1).done = true
	ring.at(first).done, ring.at(first).code = true, mqtt.UnspecifiedError
	for i, want := range []mqtt.ReasonCode{mqtt.Success, mqtt.UnspecifiedError, mqtt.UnspecifiedError} {
		if p, ok := ring.pop(); !ok || p.code != want {
			t.Errorf("outcome %d: %v %v, want %v", i, ok, p.code, want)
		}
	}
	if ring.isOpen(7) {
		t.Error("the identifier is open after its outcome")
	}
}
