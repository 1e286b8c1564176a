package session

import (
	"math/rand/v2"
	"testing"

	"maestrohub.io/uns/broker/mqtt"
)

func TestWindowGivesFreeNonZeroIdentifiers(t *testing.T) {
	// [MQTT-2.2.1-4]: whatever is acknowledged in whatever order, an identifier in
	// use is never given again, also when the numbers wrap.
	w := Window{Limit: 50}
	w.nextID = FirstFixed - 36
	r := rand.New(rand.NewPCG(1, 2))
	inUse := map[uint16]bool{}
	for range 5000 {
		if !w.Full() && r.IntN(3) > 0 {
			e := &Entry{QoS: 1}
			w.Send(e)
			if e.PacketID == 0 || inUse[e.PacketID] {
				t.Fatalf("identifier %d given while in use (%v)", e.PacketID, inUse[e.PacketID])
			}
			inUse[e.PacketID] = true
			continue
		}
		for id := range inUse {
			if w.Puback(id) == nil {
				t.Fatalf("PUBACK %d finds no delivery", id)
			}
			delete(inUse, id)
			break
		}
		if w.Len() != len(inUse) || w.Len() > w.Limit {
			t.Fatalf("window holds %d, want %d and at most %d", w.Len(), len(inUse), w.Limit)
		}
	}
}

func TestWindowKeepsSendingOrder(t *testing.T) {
	// [MQTT-4.4.0-1]: what is left is sent again in the order it was first sent.
	w := Window{Limit: 1000}
	var ids []uint16
	for range 500 {
		e := &Entry{QoS: 2}
		w.Send(e)
		ids = append(ids, e.PacketID)
	}
	r := rand.New(rand.NewPCG(3, 4))
	left := map[uint16]bool{}
	for _, id := range ids {
		if r.IntN(2) == 0 {
			w.Drop(id)
		} else {
			left[id] = true
		}
	}
	entries := w.Entries()
	if len(entries) != len(left) {
		t.Fatalf("%d entries left, want %d", len(entries), len(left))
	}
	for i := 1; i < len(entries); i++ {
		if entries[i].PacketID <= entries[i-1].PacketID {
			t.Fatalf("entry %d (id %d) stands behind id %d", i, entries[i].PacketID, entries[i-1].PacketID)
		}
	}
	for id := range left {
		w.Drop(id)
	}
	if w.Len() != 0 || len(w.Entries()) != 0 {
		t.Fatalf("an emptied window holds %d entries", w.Len())
	}
}

func TestQoS2HandshakeTakesEachStepOnce(t *testing.T) {
	w := Window{Limit: 10}
	e := &Entry{QoS: 2}
	w.Send(e)
	if w.Puback(e.PacketID) != nil {
		t.Error("a PUBACK ended a QoS 2 delivery")
	}
	if w.Pubcomp(e.PacketID) != nil {
		t.Error("a PUBCOMP ended a delivery whose PUBREL was not sent")
	}
	for range 2 { // a repeated PUBREC gets its PUBREL again [MQTT-4.3.3-4]
		if code, answer, ended := w.Pubrec(e.PacketID, mqtt.Success); code != mqtt.Success || !answer || ended != nil {
			t.Fatalf("PUBREC answered with %v, %v, %v", code, answer, ended)
		}
	}
	if !e.Released {
		t.Error("after the PUBREC the PUBLISH could still be sent again [MQTT-4.3.3-6]")
	}
	if w.Pubcomp(e.PacketID) == nil || w.Len() != 0 {
		t.Error("the PUBCOMP did not end the delivery")
	}
	if code, answer, _ := w.Pubrec(e.PacketID, mqtt.Success); code != mqtt.PacketIdentifierNotFound || !answer {
		t.Errorf("PUBREC of an unknown identifier answered with %v, %v, want a PUBREL 0x92", code, answer)
	}
}

func TestARefusedPubrecEndsTheDelivery(t *testing.T) {
	// [MQTT-4.3.3-9], [MQTT-4.4.0-2]
	w := Window{Limit: 1}
	e := &Entry{QoS: 2}
	w.Send(e)
	if _, answer, ended := w.Pubrec(e.PacketID, mqtt.QuotaExceeded); answer || ended != e || w.Len() != 0 {
		t.Fatalf("answer %v, ended %v, %d left; want no PUBREL and an empty window", answer, ended, w.Len())
	}
}
