package hostile_test

import (
	"bytes"
	"testing"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/harness"
)

// TestSubscribersThatDoNotRead: their queues fill and drop, and nobody waits for
// them.
func TestSubscribersThatDoNotRead(t *testing.T) {
	r := start(t)
	for i := range 20 {
		deaf := r.Client(t, attacker, "deaf-"+string(rune('a'+i)))
		deaf.Subscribe(harness.Data("load/#"), 1)
	}
	publisher := r.Client(t, attacker, "loud")
	payload := string(bytes.Repeat([]byte("x"), 4000))
	for range 2000 {
		if code := publisher.Publish(harness.Inbox(attacker, "load/value"), 1, `"`+payload+`"`); code >= 0x80 {
			t.Fatalf("a value for subscribers that do not read is refused: %v", code)
		}
	}
	if dropped := r.Metric(t, "maestrohub_uns_broker_messages_dropped_total"); dropped == 0 {
		t.Log("nothing was dropped: the sockets took it all")
	}
}

// TestASubscriberThatNeverAcknowledges keeps what the receive maximum allows and
// the queue holds, and no more.
func TestASubscriberThatNeverAcknowledges(t *testing.T) {
	r := start(t)
	stubborn := r.Client(t, attacker, "stubborn")
	stubborn.Subscribe(harness.Data("load/#"), 2)
	publisher := r.Client(t, attacker, "patient")
	for range 3000 {
		if code := publisher.Publish(harness.Inbox(attacker, "load/value"), 1, "1"); code >= 0x80 {
			t.Fatalf("a value for a subscriber that acknowledges nothing is refused: %v", code)
		}
	}
	publisher.ExpectNothing()
}

// TestAPublisherThatDoesNotReadAcknowledgments is not read from for ever.
func TestAPublisherThatDoesNotReadAcknowledgments(t *testing.T) {
	r := start(t)
	c := r.Client(t, attacker, "deaf-publisher")
	p := mqtt.Publish{QoS: 1, Topic: []byte(harness.Inbox(attacker, "deaf")), Payload: []byte("1")}
	var burst []byte
	for id := uint16(1); id <= 500; id++ {
		p.PacketID = id
		burst = p.Append(burst, mqtt.V5)
	}
	for range 20 {
		c.Send(burst)
	}
}

// TestManySubscriptions: a client that subscribes to all it may slows nobody.
func TestManySubscriptions(t *testing.T) {
	r := start(t)
	c := r.Client(t, attacker, "greedy")
	refused := 0
	for i := range 1100 {
		filter := harness.Data("+/" + string(rune('a'+i%26)) + "/" + string(rune('a'+i/26%26)) + "/" + string(rune('a'+i/676)) + "/#")
		if c.Subscribe(filter, 1) == mqtt.QuotaExceeded {
			refused++
		}
	}
	if refused != 100 {
		t.Errorf("%d of 1100 subscriptions were refused, want 100: maxSubscriptionsPerClient is 1000", refused)
	}
}
