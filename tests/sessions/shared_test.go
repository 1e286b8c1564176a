package sessions

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"maestrohub.io/uns/broker/config"
	"maestrohub.io/uns/broker/mqtt"
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
	stop, calm, failed := make(chan struct{}), make(chan struct{}), make(chan error, 32)
	var members []*subscriber
	running := make(chan struct{}, 8)
	for i := range 4 {
		d := device{id: fmt.Sprintf("member-%d", i), user: "dev-a", version: mqtt.V5, addresses: []string{b.Address("tcp")},
			random: rand.New(rand.NewPCG(seed, uint64(i))), fresh: true, clean: i%2 == 1}
		// One member never goes: with nobody there a shared message is nobody's.
		s := &subscriber{device: d, filter: "$share/group/" + mqtttest.Data("plant", "shared/#"), qos: 1, loss: 10 + 30*i,
			received: make(map[string][]int), changed: make(chan struct{}, 1)}
		members = append(members, s)
		steady := calm
		if i == 0 {
			steady = make(chan struct{})
			close(steady)
		}
		go func() {
			if err := s.run(stop, steady); err != nil {
				failed <- err
			}
			running <- struct{}{}
		}()
		select {
		case <-s.changed:
		case err := <-failed:
			t.Fatal(err)
		}
	}
	p := &publisher{device: device{id: "publisher", user: "dev-b", version: mqtt.V5, addresses: []string{b.Address("tcp")}, random: rand.New(rand.NewPCG(seed, 99)), fresh: true},
		topic: "shared/x", qos: 1, count: count, window: 20}
	if err := p.run(); err != nil {
		t.Fatal(err)
	}
	close(calm)
	name := mqtttest.Data("plant", "shared/x")
	deadline := time.After(patience)
	for {
		got, each := make(map[int]bool), make([]int, len(members))
		for i, s := range members {
			s.mu.Lock()
			for _, n := range s.received[name] {
				got[n] = true
			}
			each[i] = len(s.received[name])
			s.mu.Unlock()
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
	close(stop)
	for range members {
		<-running
	}
}
