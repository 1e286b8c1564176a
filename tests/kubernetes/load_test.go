package kubernetes_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"maestrohub.io/uns/tests/device/fleet"
	"maestrohub.io/uns/tests/harness"
)

// load is a fleet against a release: publishers and persistent sessions that go on
// wherever the one address leads them, each with a will.
type load struct {
	*fleet.Fleet
	s *site
}

// loads numbers the loads of this run, so that each has topics and client ids of its
// own.
var loads atomic.Int64

// load starts devices and waits until values flow from each to each.
func (s *site) load(t *testing.T) *load {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	f, err := fleet.Start(ctx, fleet.Options{
		Name: fmt.Sprintf("load-%d-%d", time.Now().Unix(), loads.Add(1)), User: "device", Secret: harness.Secret("device"), Seed: seed,
		Inbox: harness.Inbox("device", ""), Data: harness.Data(""), Wills: true,
		// Slow enough for two cores that also run the cluster; a session asks whether its
		// silent broker is there, as any client with a keep alive does.
		Every: 20 * time.Millisecond, Pings: 5 * time.Second,
		Address: func(int, int) string { return s.address },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	l := &load{f, s}
	l.flows(t, time.Now())
	return l
}

// flows waits until every publisher was acknowledged and every session took a value
// after an instant, and returns how long after it the last of them was.
func (l *load) flows(t *testing.T, since time.Time) time.Duration {
	t.Helper()
	var flow fleet.Flow
	until(t, 3*time.Minute, "values to flow from every device to every session", func() (bool, string) {
		flow = l.Flows(since)
		return flow.Missing == "", flow.Missing + "; of all:\n" + strings.Join(append(flow.Slowest, l.refusals()...), "\n")
	})
	return flow.At.Sub(since)
}

// refusals says how many publishes of each device were refused so far.
func (l *load) refusals() (all []string) {
	for _, p := range l.Publishers {
		all = append(all, fmt.Sprintf("%s: %d sent, %d acknowledged, %d refused", p.ID, p.Sent(), len(p.Acked()), p.Refused()))
	}
	return all
}

// lost is how many connections were lost after an instant.
func (l *load) lost(since time.Time) int { return len(l.Events(since, "lost")) }

// finish ends the load and holds every record against every other: nothing
// acknowledged is missing from a session or from history, and no will of a device that
// came back was sent. It returns what was found in a few words.
func (l *load) finish(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	b := l.s.service(t)
	report, err := l.Finish(ctx, func(_ context.Context, topic string) (map[string]bool, error) {
		stored := map[string]bool{}
		for _, row := range b.History(t, "device", topic) {
			stored[strings.TrimSpace(string(row.Value))] = true
		}
		return stored, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range report.Problems {
		t.Error(p)
	}
	// None of them stays away, so no will is due.
	for id, wills := range l.Wills() {
		t.Errorf("the will of %s, which came back, was sent %d times, first at %v; its connections: %s", id, len(wills), wills[0].At.Format(time.TimeOnly), l.connections(id))
	}
	return fmt.Sprintf("%d values acknowledged, %d lost; %d came twice, %d refused first, %d connections lost, %d false wills",
		report.Acknowledged, len(report.Problems), report.Again, report.Refused, l.lost(time.Time{}), len(l.Wills()))
}

// connections says what happened to a device's.
func (l *load) connections(id string) string {
	var b strings.Builder
	for _, d := range l.Devices() {
		for _, e := range d.Events() {
			if d.ID == id {
				fmt.Fprintf(&b, "%s %s %v; ", e.At.Format("15:04:05.000"), e.What, e.Code)
			}
		}
	}
	return b.String()
}
