package sessions

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"maestrohub.io/uns/broker/config"
	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/device"
	"maestrohub.io/uns/tests/mqtttest"
)

func TestASharedSubscriptionLosesNothingWhileMembersComeAndGo(t *testing.T) {
	// Clean and persistent members lose their connections before and after they
	// acknowledge. Every value reaches the group at least once: what a lost member
	// had not acknowledged is given to another.
	const count = 1500
	b := mqtttest.Start(t, func(c *config.Config) { c.Limits.MaxClientWritesPending = 20 })
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	calm, failed := make(chan struct{}), make(chan error, 32)
	var members []*device.Subscriber
	running := make(chan struct{}, 8)
	for i := range 4 {
		s := &device.Subscriber{Device: newDevice([]string{b.Address("tcp")}, fmt.Sprintf("member-%d", i), "dev-a", mqtt.V5, rand.New(rand.NewPCG(seed, uint64(i)))),
			Filter: "$share/group/" + mqtttest.Data("plant", "shared/#"), QoS: 1, Loss: 10 + 30*i, Changed: make(chan struct{}, 1)}
		s.Clean = i%2 == 1
		// One member never goes: with nobody there a shared message is nobody's.
		members = append(members, s)
		steady := calm
		if i == 0 {
			steady = make(chan struct{})
			close(steady)
		}
		go func() {
			if err := s.Run(ctx, steady); err != nil {
				failed <- err
			}
			running <- struct{}{}
		}()
		select {
		case <-s.Changed:
		case err := <-failed:
			t.Fatal(err)
		}
	}
	p := &device.Publisher{Device: newDevice([]string{b.Address("tcp")}, "publisher", "dev-b", mqtt.V5, rand.New(rand.NewPCG(seed, 99))),
		Name: mqtttest.Inbox("dev-b", "shared/x"), QoS: 1, Count: count, Window: 20}
	if err := p.Run(ctx); err != nil {
		t.Fatal(err)
	}
	close(calm)
	name := mqtttest.Data("plant", "shared/x")
	deadline := time.After(patience)
	for {
		got, each := make(map[int]bool), make([]int, len(members))
		for i, s := range members {
			received := s.Received(name)
			for _, n := range received {
				got[n] = true
			}
			each[i] = len(received)
		}
		if len(got) == count {
			t.Logf("received by each member: %v, of %d values", each, count)
			for i, n := range each {
				if n == 0 {
					t.Errorf("member %d received nothing", i)
				}
			}
			break
		}
		select {
		case <-time.After(20 * time.Millisecond): // any of several members may be the next to change
		case err := <-failed:
			t.Fatal(err)
		case <-deadline:
			var missing []int
			for n := 1; n <= count && len(missing) < 10; n++ {
				if !got[n] {
					missing = append(missing, n)
				}
			}
			t.Fatalf("the group has %d of %d values; missing %v, received by each: %v", len(got), count, missing, each)
		}
	}
	stop()
	for range members {
		<-running
	}
}

func TestWhatAnEndedMemberHadNotReadGoesOnInOrder(t *testing.T) {
	const count = 300
	b := mqtttest.Start(t, nil)
	persistent := func(id string) func(*mqtt.Connect) {
		return func(p *mqtt.Connect) { p.ClientID, p.CleanStart, p.SessionExpiry = id, false, 600 }
	}
	filter := "$share/group/" + mqtttest.Data("plant", "inherited/#")
	first := b.Connect(t, mqtt.V5, "dev-a", persistent("first"))
	first.Subscribe(filter, 1)
	first.Disconnect()
	from := b.Connect(t, mqtt.V5, "dev-b")
	for n := range count {
		from.Publish("inherited/x", 1, fmt.Sprint(n))
	}
	second := b.Connect(t, mqtt.V5, "dev-a", persistent("second"))
	second.Subscribe(filter, 1)
	// A clean start ends the first member's session, unread as it is.
	b.Connect(t, mqtt.V5, "dev-a", persistent("first"), func(p *mqtt.Connect) { p.CleanStart = true })
	for n := range count {
		second.Ack(second.ExpectPublish("inherited/x", fmt.Sprint(n)))
	}
}
