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
	start := func(i int, id string) device.Device {
		version := mqtt.V5
		if i%2 == 1 {
			version = mqtt.V311
		}
		return newDevice(addresses, id, "dev-a", version, rand.New(rand.NewPCG(seed, uint64(len(id)*1000+i))))
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	calm, failed := make(chan struct{}), make(chan error, 32)
	var subscribers []*device.Subscriber
	for i := range 6 {
		s := &device.Subscriber{Device: start(i, fmt.Sprintf("subscriber-%d", i)), Filter: mqtttest.Data("plant", "kept/#"), QoS: byte(1 + i%2),
			Loss: 5 + 40*i, Changed: make(chan struct{}, 1)}
		if i == 3 {
			s.Filter = onlyTwo
		}
		subscribers = append(subscribers, s)
	}
	running := make(chan struct{}, len(subscribers))
	for _, s := range subscribers {
		go func() {
			if err := s.Run(ctx, calm); err != nil {
				failed <- err
			}
			running <- struct{}{}
		}()
		select {
		case <-s.Changed: // subscribed
		case err := <-failed:
			t.Fatal(err)
		}
	}
	var sending []*device.Publisher
	done := make(chan struct{}, publishers)
	for i := range publishers {
		p := &device.Publisher{Device: start(i, fmt.Sprintf("publisher-%d", i)), Name: mqtttest.Inbox("dev-a", fmt.Sprintf("kept/%d/x", i)),
			QoS: byte(1 + i/2), Count: count, Window: 5 + 10*i, Loss: 30 + 100*i}
		sending = append(sending, p)
		go func() {
			if err := p.Run(ctx); err != nil {
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
	stop()
	for range subscribers {
		<-running
	}
	for _, s := range subscribers {
		for i, p := range sending {
			if !wants(s, i) {
				continue
			}
			problems, doubled, excused := device.Check(s, kept(i), p)
			for _, problem := range problems {
				t.Error(problem)
			}
			// No replica dies here, so nothing is excused.
			if excused > 0 {
				t.Errorf("%s from %s: %d values came again though both sides are QoS 2", s.ID, p.ID, excused)
			}
			t.Logf("%s: publisher %d: %d values, %d of them repetitions", s.ID, i, len(s.Received(kept(i))), doubled)
		}
	}
}

// onlyTwo is the filter of a subscriber that wants a part of the log only.
var onlyTwo = mqtttest.Data("plant", "kept/2/+")

// kept is the name on which a publisher's values come.
func kept(publisher int) string { return mqtttest.Data("plant", fmt.Sprintf("kept/%d/x", publisher)) }

func wants(s *device.Subscriber, publisher int) bool { return s.Filter != onlyTwo || publisher == 2 }

// newDevice returns a device that connects to any of the addresses.
func newDevice(addresses []string, id, user string, version mqtt.Version, random *rand.Rand) device.Device {
	return device.Device{ID: id, User: user, Secret: mqtttest.Secret(user), Version: version, Fresh: true, Random: random,
		Address: func() string { return addresses[random.IntN(len(addresses))] }}
}

// awaitAll waits until the subscriber has the last value of every topic it wants.
func awaitAll(t *testing.T, s *device.Subscriber, publishers, count int, failed <-chan error) {
	t.Helper()
	for {
		complete := true
		for i := range publishers {
			got := s.Received(kept(i))
			complete = complete && (!wants(s, i) || len(got) > 0 && got[len(got)-1] == count)
		}
		if complete {
			return
		}
		select {
		case <-s.Changed:
		case err := <-failed:
			t.Fatal(err)
		case <-time.After(patience):
			for i := range publishers {
				t.Logf("%s: publisher %d: %d values", s.ID, i, len(s.Received(kept(i))))
			}
			t.Fatalf("%s: nothing came for %v", s.ID, patience)
		}
	}
}
