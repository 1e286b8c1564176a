package cluster_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"maestrohub.io/uns/tests/device"
	"maestrohub.io/uns/tests/device/fleet"
	"maestrohub.io/uns/tests/harness"
)

// load is devices that publish and persistent sessions that take all of it, each
// going on wherever it can.
type load struct {
	*fleet.Fleet
	c *cluster
}

// runs numbers the loads of this test binary, so that each has topics and client
// ids of its own.
var runs atomic.Int64

// startLoad starts devices on every replica: publishers of both QoS and both
// versions, and persistent sessions that want all of it.
func (c *cluster) startLoad(t *testing.T) *load {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	f, err := fleet.Start(ctx, fleet.Options{
		Name: fmt.Sprintf("load-%d", runs.Add(1)), User: "device", Secret: harness.Secret("device"), Seed: seed,
		Inbox: harness.Inbox("device", ""), Data: harness.Data(""),
		Address: func(home, attempt int) string { return c.Replicas[(home+attempt)%len(c.Replicas)].TCP },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close) // after a failure; otherwise all have ended
	l := &load{Fleet: f, c: c}
	l.flows(t, time.Now())
	return l
}

// flows waits until every publisher was acknowledged and every subscriber took a
// value after an instant, and returns how long after it the last of them was.
func (l *load) flows(t *testing.T, since time.Time) time.Duration {
	t.Helper()
	var flow fleet.Flow
	until(t, 2*time.Minute, "values to flow from every device to every session", func() (bool, string) {
		flow = l.Flows(since)
		return flow.Missing == "", flow.Missing
	})
	took := flow.At.Sub(since)
	if took > 5*time.Second { // say why
		for _, line := range flow.Slowest {
			t.Log(line)
		}
	}
	return took
}

// events returns what happened to all devices of the load after an instant.
func (l *load) events(since time.Time, what string) []device.Event { return l.Events(since, what) }

// finish ends the sending, waits until everything is where it belongs, and holds
// every record against every other.
func (l *load) finish(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	report, err := l.Finish(ctx, func(_ context.Context, topic string) (map[string]bool, error) {
		stored := map[string]bool{}
		for _, r := range l.c.serving(t).History(t, "device", topic) {
			stored[string(r.Value)] = true
		}
		return stored, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range report.Problems {
		t.Error(p)
	}
	t.Log(report)
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
