package cluster_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/device"
	"maestrohub.io/uns/tests/harness"
)

// load is devices that publish and persistent sessions that take all of it, each
// going on wherever it can.
type load struct {
	c           *cluster
	topic       string
	publishers  []*device.Publisher
	subscribers []*device.Subscriber
	stopSending context.CancelFunc
	stop        context.CancelFunc
	sent        chan error
	taken       chan error
}

// runs numbers the loads of this test binary, so that each has topics and client
// ids of its own.
var runs atomic.Int64

// each of a load is one of every kind a home on each replica can have.
var kinds = []struct {
	version mqtt.Version
	qos     byte
}{{mqtt.V5, 1}, {mqtt.V5, 2}, {mqtt.V311, 1}, {mqtt.V311, 2}}

// startLoad starts devices on every replica: publishers of both QoS and both
// versions, and persistent sessions that want all of it.
func (c *cluster) startLoad(t *testing.T) *load {
	t.Helper()
	run := runs.Add(1)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	ctx, stop := context.WithCancel(context.Background())
	sending, stopSending := context.WithCancel(ctx)
	l := &load{c: c, topic: fmt.Sprintf("load/%d", run), stop: stop, stopSending: stopSending}
	calm := make(chan struct{})
	close(calm)
	for i, k := range kinds {
		s := &device.Subscriber{Filter: harness.Data(l.topic + "/#"), QoS: k.qos, Changed: make(chan struct{}, 1)}
		c.configure(&s.Device, fmt.Sprintf("subscriber-%d-%d", run, i), i, k.version, seed)
		l.subscribers = append(l.subscribers, s)
		p := &device.Publisher{Name: harness.Inbox("device", fmt.Sprintf("%s/%d", l.topic, i)), QoS: k.qos, Window: 10, Every: 10 * time.Millisecond}
		c.configure(&p.Device, fmt.Sprintf("publisher-%d-%d", run, i), i+1, k.version, seed)
		l.publishers = append(l.publishers, p)
	}
	l.sent, l.taken = make(chan error, len(l.publishers)), make(chan error, len(l.subscribers))
	for _, s := range l.subscribers {
		go func() { l.taken <- s.Run(ctx, calm) }()
	}
	for _, s := range l.subscribers {
		select {
		case <-s.Changed:
		case err := <-l.taken:
			t.Fatal(err)
		}
	}
	for _, p := range l.publishers {
		go func() { l.sent <- p.Run(sending) }()
	}
	t.Cleanup(func() { // after a failure; otherwise all have ended
		stopSending()
		stop()
	})
	l.flows(t, time.Now())
	return l
}

// configure makes a device that starts on a replica and roams over all of them.
func (c *cluster) configure(d *device.Device, id string, home int, version mqtt.Version, seed uint64) {
	var calls atomic.Int64
	d.ID, d.User, d.Secret, d.Version = id, "device", harness.Secret("device"), version
	d.Random, d.Fresh, d.Roams = rand.New(rand.NewPCG(seed, uint64(home))), true, true
	d.Address = func() string {
		return c.Replicas[(home+int(calls.Add(1))-1)%len(c.Replicas)].TCP
	}
}

// flows waits until every publisher was acknowledged and every subscriber took a
// value after an instant, and returns how long after it the last of them was.
func (l *load) flows(t *testing.T, since time.Time) time.Duration {
	t.Helper()
	var last time.Time
	until(t, 2*time.Minute, "values to flow from every device to every session", func() (bool, string) {
		last = time.Time{}
		for _, p := range l.publishers {
			at := firstAfter(since, p.Acked())
			if at.IsZero() {
				return false, p.ID + " is not acknowledged"
			}
			last = later(last, at)
		}
		for _, s := range l.subscribers {
			at := l.firstArrival(s, since)
			if at.IsZero() {
				return false, s.ID + " gets nothing"
			}
			last = later(last, at)
		}
		return true, ""
	})
	return last.Sub(since)
}

func (l *load) name(i int) string { return harness.Data(fmt.Sprintf("%s/%d", l.topic, i)) }

// firstArrival returns when a subscriber first took any value after an instant.
func (l *load) firstArrival(s *device.Subscriber, since time.Time) (first time.Time) {
	for i := range l.publishers {
		for _, a := range s.Arrivals(l.name(i)) {
			if a.At.After(since) {
				if first.IsZero() || a.At.Before(first) {
					first = a.At
				}
				break
			}
		}
	}
	return first
}

func firstAfter(since time.Time, acked map[int]time.Time) (first time.Time) {
	for _, at := range acked {
		if at.After(since) && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// finish ends the sending, waits until everything is where it belongs, and holds
// every record against every other.
func (l *load) finish(t *testing.T) {
	t.Helper()
	l.stopSending()
	for range l.publishers {
		if err := <-l.sent; err != nil {
			t.Error(err)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
	var problems []string
	deadline := time.Now().Add(time.Minute)
	until(t, 2*time.Minute, "every session to have everything", func() (bool, string) {
		problems = problems[:0]
		for _, s := range l.subscribers {
			for i, p := range l.publishers {
				found, _, _ := device.Check(s, l.name(i), p)
				problems = append(problems, found...)
			}
		}
		select {
		case err := <-l.taken:
			t.Fatalf("a subscriber ended: %v", err)
		default:
		}
		return len(problems) == 0 || time.Now().After(deadline), strings.Join(problems, "\n")
	})
	for _, p := range problems {
		t.Error(p)
	}
	l.stop()
	for range l.subscribers {
		if err := <-l.taken; err != nil {
			t.Error(err)
		}
	}
	acked, again, excused, refused := 0, 0, 0, 0
	for i, p := range l.publishers {
		acked += len(p.Acked())
		refused += p.Refused()
		for _, s := range l.subscribers {
			_, d, e := device.Check(s, l.name(i), p)
			again, excused = again+d, excused+e
		}
		l.checkHistory(t, i)
	}
	t.Logf("%d values acknowledged, in history and received by each of %d sessions in order; %d receptions were repetitions, %d of them at QoS 2 of values sent again without a PUBREC; %d publishes were refused and sent again",
		acked, len(l.subscribers), again, excused, refused)
}

// checkHistory makes sure that every acknowledged value of a publisher is stored.
func (l *load) checkHistory(t *testing.T, i int) {
	t.Helper()
	stored := map[string]bool{}
	for _, r := range l.c.serving(t).History(t, "device", fmt.Sprintf("%s/%d", l.topic, i)) {
		stored[string(r.Value)] = true
	}
	missing := 0
	for n := range l.publishers[i].Acked() {
		if !stored[fmt.Sprint(n)] {
			missing++
		}
	}
	if missing > 0 {
		t.Errorf("%s: %d of %d acknowledged values are not in history", l.publishers[i].ID, missing, len(l.publishers[i].Acked()))
	}
}

// serving returns a broker that runs.
func (c *cluster) serving(t *testing.T) *harness.Broker {
	t.Helper()
	for i, r := range c.Replicas {
		if r.Alive() {
			return c.brokers[i]
		}
	}
	t.Fatal("no replica runs")
	return nil
}

// events returns what happened to all devices of the load after an instant.
func (l *load) events(since time.Time, what string) (events []device.Event) {
	keep := func(d *device.Device) {
		for _, e := range d.Events() {
			if e.What == what && e.At.After(since) {
				events = append(events, e)
			}
		}
	}
	for _, p := range l.publishers {
		keep(&p.Device)
	}
	for _, s := range l.subscribers {
		keep(&s.Device)
	}
	return events
}
