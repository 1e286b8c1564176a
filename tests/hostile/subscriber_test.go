package hostile_test

import (
	"fmt"
	"strings"
	"testing"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/harness"
)

// TestSubscribersThatDoNotRead: what they may be sent unacknowledged is sent, their
// queues fill, drop their oldest and count it, and nobody waits for them.
func TestSubscribersThatDoNotRead(t *testing.T) {
	r := start(t)
	const dropped = "maestrohub_uns_broker_messages_dropped_total"
	for i := range 20 {
		deaf := r.Client(t, attacker, fmt.Sprintf("deaf-%d", i))
		deaf.Subscribe(harness.Data("load/#"), 1)
	}
	publisher := r.Client(t, attacker, "loud")
	payload := `"` + strings.Repeat("x", 4000) + `"`
	// receiveMaximum values are on their way to each, maxSubscriberQueue wait.
	for range 2500 {
		if code := publisher.Publish(harness.Inbox(attacker, "load/value"), 1, payload); code >= 0x80 {
			t.Fatalf("a value for subscribers that do not read is refused: %v", code)
		}
	}
	harness.Eventually(t, "full queues to drop", func() (bool, string) {
		n := r.Metric(t, dropped)
		return n >= 20*500, fmt.Sprintf("%s is %.0f", dropped, n)
	})
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

// TestAPublisherThatDoesNotReadAcknowledgments: its values are stored all the same,
// or it is told that it sends more than it may.
func TestAPublisherThatDoesNotReadAcknowledgments(t *testing.T) {
	r := start(t)
	c := r.Client(t, attacker, "deaf-publisher")
	var burst []byte
	for id := uint16(1); id <= 10000; id++ {
		p := mqtt.Publish{QoS: 1, PacketID: id, Topic: []byte(harness.Inbox(attacker, "deaf")), Payload: []byte("1")}
		burst = p.Append(burst, mqtt.V5)
	}
	_, _ = c.Write(burst) // the broker may close before all is written
	harness.Eventually(t, "what receiveMaximum allows to be stored", func() (bool, string) {
		n := len(r.History(t, attacker, "deaf"))
		return n >= 1000, fmt.Sprintf("%d values are in history", n)
	})
}

// TestManySubscriptions: a client that subscribes to all it may slows nobody.
func TestManySubscriptions(t *testing.T) {
	r := start(t)
	c := r.Client(t, attacker, "greedy")
	refused := 0
	for i := range 1100 {
		filter := harness.Data(fmt.Sprintf("+/%d/#", i))
		if c.Subscribe(filter, 1) == mqtt.QuotaExceeded {
			refused++
		}
	}
	if refused != 100 {
		t.Errorf("%d of 1100 subscriptions were refused, want 100: maxSubscriptionsPerClient is 1000", refused)
	}
}
