package sessions

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"maestrohub.io/uns/broker/config"
	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/mqtttest"
	"maestrohub.io/uns/tests/site"
)

// patience is how long a run may make no progress at all before it has failed.
const patience = 60 * time.Second

func TestEverySessionGetsEveryAcknowledgedValueWhateverIsLost(t *testing.T) {
	b := mqtttest.Start(t, small)
	keepEverything(t, 1000, b.Address("tcp"))
}

func TestEverySessionGetsEveryAcknowledgedValueOnWhicheverReplica(t *testing.T) {
	s := site.Start(t)
	a, b := s.Replica(t, "a", small), s.Replica(t, "b", small)
	keepEverything(t, 200, a.Address("tcp"), b.Address("tcp"))
}

// small sets small bounds, so that windows fill and sessions fall behind all the
// time.
func small(c *config.Config) {
	c.Limits.ReceiveMaximum = 50
	c.Limits.MaxClientWritesPending = 20
}

// keepEverything has publishers publish count values each to brokers at these
// addresses while everybody loses connections, and checks what arrived.
func keepEverything(t *testing.T, count int, addresses ...string) {
	const publishers = 4
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	newDevice := func(i int, id string) device {
		version := mqtt.V5
		if i%2 == 1 {
			version = mqtt.V311
		}
		return device{id: id, user: "dev-a", version: version, addresses: addresses, random: rand.New(rand.NewPCG(seed, uint64(len(id)*1000+i))), fresh: true}
	}
	stop, calm, failed := make(chan struct{}), make(chan struct{}), make(chan error, 32)
	var subscribers []*subscriber
	for i := range 6 {
		s := &subscriber{device: newDevice(i, fmt.Sprintf("subscriber-%d", i)), filter: mqtttest.Data("plant", "kept/#"), qos: byte(1 + i%2),
			loss: 5 + 40*i, received: make(map[string][]int), changed: make(chan struct{}, 1)}
		if i == 3 {
			s.filter = mqtttest.Data("plant", "kept/2/+") // one that wants a part of the log only
		}
		subscribers = append(subscribers, s)
	}
	running := make(chan struct{}, len(subscribers))
	for _, s := range subscribers {
		go func() {
			if err := s.run(stop, calm); err != nil {
				failed <- err
			}
			running <- struct{}{}
		}()
		select {
		case <-s.changed: // subscribed
		case err := <-failed:
			t.Fatal(err)
		}
	}
	done := make(chan struct{}, publishers)
	for i := range publishers {
		p := &publisher{device: newDevice(i, fmt.Sprintf("publisher-%d", i)), topic: fmt.Sprintf("kept/%d/x", i), qos: byte(1 + i/2), count: count, window: 5 + 10*i, loss: 30 + 100*i}
		go func() {
			if err := p.run(); err != nil {
				failed <- err
			}
			done <- struct{}{}
		}()
	}
	for range publishers {
		select {
		case <-done:
		case err := <-failed:
			t.Fatal(err)
		}
	}
	close(calm)
	for _, s := range subscribers {
		awaitAll(t, s, publishers, count, failed)
	}
	close(stop)
	for range subscribers {
		<-running
	}
	for _, s := range subscribers {
		check(t, s, publishers, count)
	}
}

// awaitAll waits until the subscriber has the last value of every topic it wants.
func awaitAll(t *testing.T, s *subscriber, publishers, count int, failed <-chan error) {
	t.Helper()
	for {
		complete := true
		s.mu.Lock()
		for i := range publishers {
			name := mqtttest.Data("plant", fmt.Sprintf("kept/%d/x", i))
			if s.wants(i) && (len(s.received[name]) == 0 || s.received[name][len(s.received[name])-1] != count) {
				complete = false
			}
		}
		s.mu.Unlock()
		if complete {
			return
		}
		select {
		case <-s.changed:
		case err := <-failed:
			t.Fatal(err)
		case <-time.After(patience):
			check(t, s, publishers, count)
			t.Fatalf("%s: nothing came for %v", s.id, patience)
		}
	}
}

func (s *subscriber) wants(publisher int) bool {
	return s.filter != mqtttest.Data("plant", "kept/2/+") || publisher == 2
}

// check holds what a subscriber received against what was published: everything,
// first appearances in order, and once where both sides are QoS 2.
func check(t *testing.T, s *subscriber, publishers, count int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range publishers {
		if !s.wants(i) {
			continue
		}
		numbers := s.received[mqtttest.Data("plant", fmt.Sprintf("kept/%d/x", i))]
		once := s.qos == 2 && i/2 == 1
		next, doubled := 1, 0
		for at, n := range numbers {
			switch {
			case n == next:
				next++
			case n > next:
				t.Errorf("%s: publisher %d: value %d came (place %d) before %d did", s.id, i, n, at, next)
				next = n + 1
			default:
				doubled++
				if once {
					t.Errorf("%s: publisher %d: value %d came again (place %d) though both sides are QoS 2", s.id, i, n, at)
				}
			}
		}
		if next != count+1 {
			t.Errorf("%s: publisher %d: the last value was %d of %d", s.id, i, next-1, count)
		}
		t.Logf("%s: publisher %d: %d values, %d of them repetitions", s.id, i, len(numbers), doubled)
	}
}
