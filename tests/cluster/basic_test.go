package cluster_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/harness"
)

func TestALiveValueReachesACleanSubscriberOfAnotherReplica(t *testing.T) {
	c := start(t)
	subscriber := c.brokers[1].Client(t, "device", "live-subscriber")
	if got := subscriber.Subscribe(harness.Data("live/#"), 2); got != mqtt.GrantedQoS2 {
		t.Fatalf("SUBACK %v", got)
	}
	publisher := c.brokers[0].Client(t, "device", "live-publisher")
	var took []time.Duration
	for n := range 60 {
		qos, payload := byte(n%3), fmt.Sprint(n)
		began := time.Now()
		if got := publisher.Publish(harness.Inbox("device", "live/x"), qos, payload); got != mqtt.Success {
			t.Fatalf("PUBACK %v", got)
		}
		p := subscriber.Receive()
		took = append(took, time.Since(began))
		if string(p.Payload) != payload || p.QoS != max(1, qos) {
			t.Fatalf("received %q at QoS %d, want %q at QoS %d", p.Payload, p.QoS, payload, max(1, qos))
		}
	}
	slices.Sort(took)
	hop.took(t, took[len(took)/2])
}

func TestARetainedValueIsSeenOnEveryReplica(t *testing.T) {
	c := start(t)
	publisher := c.brokers[0].Client(t, "device", "retain-publisher")
	for _, payload := range []string{"1", "2"} {
		if got := publisher.Publish(harness.Inbox("device", "retained/level"), 1, payload); got != mqtt.Success {
			t.Fatalf("PUBACK %v", got)
		}
	}
	for i, b := range c.brokers {
		s := b.Client(t, "device", fmt.Sprintf("retain-subscriber-%d", i))
		s.Send((&mqtt.Subscribe{PacketID: 1, Filters: []mqtt.Subscription{{Filter: harness.Data("retained/#"), QoS: 1}}}).Append(nil, mqtt.V5))
		s.Expect(mqtt.SUBACK)
		if p := s.Receive(); string(p.Payload) != "2" || !p.Retain {
			t.Errorf("%s: received %q, retain %v, want the retained 2", c.Replicas[i].ID, p.Payload, p.Retain)
		}
	}
}

func TestAClientIDHasOneConnectionInTheWholeCluster(t *testing.T) {
	c := start(t)
	for _, persistent := range []bool{false, true} {
		id := fmt.Sprintf("taken-%v", persistent)
		connect := c.brokers[0].ConnectAs("device", id)
		if persistent {
			connect.CleanStart, connect.SessionExpiry = false, 600
		}
		old := c.brokers[0].Dial(t)
		old.Connect(connect)
		began := time.Now()
		fresh := c.brokers[1].Dial(t)
		ack := fresh.Connect(connect)
		if ack.SessionPresent != persistent {
			t.Errorf("persistent %v: session present %v", persistent, ack.SessionPresent)
		}
		takeover.took(t, time.Since(began))
		if got := old.ExpectClosed(); got != mqtt.SessionTakenOver {
			t.Errorf("persistent %v: the old connection was closed with %v, want 0x8E", persistent, got)
		}
		fresh.ExpectNothing()
	}
}

func TestAClientIDOfAnotherIdentityIsRefusedOnEveryReplica(t *testing.T) {
	c := start(t)
	held := c.brokers[0].Client(t, "device", "held")
	for _, b := range c.brokers {
		ack := b.Dial(t).TryConnect(b.ConnectAs("other", "held"))
		if ack.Code != mqtt.ClientIdentifierNotValid {
			t.Errorf("CONNACK %v, want 0x85", ack.Code)
		}
	}
	held.ExpectNothing()
}

func TestASharedSubscriptionHasOneDeliveryAcrossReplicas(t *testing.T) {
	c := start(t)
	const count = 40
	filter := "$share/group/" + harness.Data("shared/#")
	got := make(chan string, 2*count)
	for i, b := range c.brokers {
		m := b.Client(t, "device", fmt.Sprintf("member-%d", i))
		if code := m.Subscribe(filter, 1); code != mqtt.GrantedQoS1 {
			t.Fatalf("SUBACK %v", code)
		}
		go func() {
			for {
				packet, err := m.Next(harness.Patience)
				if err != nil {
					return
				}
				var p mqtt.Publish
				if packet.Type != mqtt.PUBLISH || p.Decode(mqtt.V5, packet.Header, packet.Body) != nil {
					continue
				}
				got <- fmt.Sprintf("%s of member %d", p.Payload, i)
				if _, err := m.Write(mqtt.AppendAck(nil, mqtt.V5, mqtt.PUBACK, p.PacketID, 0)); err != nil {
					return
				}
			}
		}()
	}
	publisher := c.brokers[0].Client(t, "device", "share-publisher")
	for n := range count {
		if code := publisher.Publish(harness.Inbox("device", "shared/x"), 1, fmt.Sprint(n)); code != mqtt.Success {
			t.Fatalf("PUBACK %v", code)
		}
	}
	seen, members := map[string]int{}, map[string]int{}
	for range count {
		select {
		case text := <-got:
			var value, member string
			if _, err := fmt.Sscanf(text, "%s of member %s", &value, &member); err != nil {
				t.Fatal(err)
			}
			seen[value]++
			members[member]++
		case <-time.After(harness.Patience):
			t.Fatalf("the group has %d of %d values: %v", len(seen), count, members)
		}
	}
	for value, times := range seen {
		if times > 1 {
			t.Errorf("value %s went to the group %d times", value, times)
		}
	}
	if len(members) != len(c.brokers) {
		t.Errorf("only these members received anything: %v", members)
	}
	t.Logf("values of a shared subscription, by member: %v", members)
}
