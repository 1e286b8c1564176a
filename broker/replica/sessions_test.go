package replica_test

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"maestrohub.io/uns/broker/config"
	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/tests/harness"
	"maestrohub.io/uns/tests/mqtttest"
	"maestrohub.io/uns/tests/site"
	"maestrohub.io/uns/tools/localcluster/natsserver"
)

// many lets a replica have more sessions than the defaults.
func many(c *config.Config) {
	c.Limits.MaxOfflineSessions, c.Limits.MaxConnectionsPerCredential = 5000, 5000
}

// readsOfLog are the requests that read a session log, but for the one that a
// replica makes by itself when nothing has come for a while.
func readsOfLog(_, subject string, payload []byte) bool {
	return strings.HasPrefix(subject, "$JS.API.") && strings.Contains(subject, state.LogStream) && !bytes.Contains(payload, []byte(`"batch":1000`))
}

// together does something for every number below n, a few at a time.
func together(n int, do func(i int)) {
	var all sync.WaitGroup
	slots := make(chan struct{}, 16)
	for i := range n {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }() // also of one that fails
			do(i)
		})
	}
	all.Wait()
}

// TestSessionsAtTheTailCostNoReads: a thousand persistent sessions at the tail are
// served from what the replica is told once, and ask for nothing.
func TestSessionsAtTheTailCostNoReads(t *testing.T) {
	const sessions, values = 1000 / fewer, 5
	s := site.Start(t)
	way, err := natsserver.OpenWaves(s.Servers[0], readsOfLog)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(way.Close)
	a := s.Replica(t, "a", func(c *config.Config) {
		many(c)
		c.NATS.Servers = []string{"nats://" + way.Address}
	})
	b := s.Replica(t, "b", many)
	awaitLinks(t, a, 1)
	subscribers := make([]*mqtttest.Client, sessions)
	together(sessions, func(i int) {
		subscribers[i] = a.Connect(t, mqtt.V5, "dev-b", persistent(fmt.Sprint("tail-", i)))
		subscribers[i].Subscribe("tail/#", 1)
	})
	publisher := b.Connect(t, mqtt.V5, "dev-a")
	take := func(from int) {
		for n := range values {
			publisher.Publish("tail/x", 1, fmt.Sprint(from+n))
		}
		together(sessions, func(i int) {
			for n := range values {
				subscribers[i].Ack(subscribers[i].ExpectPublish("tail/x", fmt.Sprint(from+n)))
			}
		})
	}
	take(0) // now every session has been at the tail
	requests := way.Requests(func() { take(values) })
	t.Logf("%d values to %d sessions: %d reads of the log", values, sessions, len(requests))
	// A replica asks by itself, every few seconds, how large the log is.
	sizes := 0
	for _, r := range requests {
		if strings.HasPrefix(r, "$JS.API.STREAM.INFO.") {
			sizes++
		}
	}
	if sizes > 3 || len(requests) > sizes {
		t.Errorf("want no reads: the tail is followed, not asked for; %v", requests)
	}
}

// TestSessionsBehindShareTheirReads: sessions that come back for the same stretch
// of the log cost the store about one reading of it.
func TestSessionsBehindShareTheirReads(t *testing.T) {
	const sessions, values = 50 / fewer, 300
	s := site.Start(t)
	way, err := natsserver.OpenWaves(s.Servers[0], readsOfLog)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(way.Close)
	b := s.Replica(t, "b", many)
	together(sessions, func(i int) {
		c := b.Connect(t, mqtt.V5, "dev-b", persistent(fmt.Sprint("behind-", i)))
		c.Subscribe("behind/#", 1)
		c.Disconnect()
	})
	publisher := b.Connect(t, mqtt.V5, "dev-a")
	for n := range values {
		publisher.Publish("behind/x", 1, fmt.Sprint(n))
	}
	// A replica that has seen nothing of it.
	a := s.Replica(t, "a", func(c *config.Config) {
		many(c)
		c.NATS.Servers = []string{"nats://" + way.Address}
	})
	requests := way.Requests(func() {
		together(sessions, func(i int) {
			c := a.Connect(t, mqtt.V5, "dev-b", persistent(fmt.Sprint("behind-", i)))
			for n := range values {
				c.Ack(c.ExpectPublish("behind/x", fmt.Sprint(n)))
			}
		})
	})
	pages := 0
	for _, r := range requests {
		if strings.HasPrefix(r, "$JS.API.DIRECT.GET.") {
			pages++
		}
	}
	t.Logf("%d values to each of %d sessions: %d reads of the log, %d requests in all", values, sessions, pages, len(requests))
	// Each looks up its position, one entry. Reading for itself, each would need
	// several more; together they need a few for all.
	if most := sessions + 20; pages > most {
		t.Errorf("%d reads, want at most %d", pages, most)
	}
}

// TestAnOfflineSessionHasNothingOfItsOwnRunning counts goroutines and JetStream
// consumers with few and with many sessions that are away.
func TestAnOfflineSessionHasNothingOfItsOwnRunning(t *testing.T) {
	s := site.Start(t)
	a := s.Replica(t, "a", many)
	leave := func(from, to int) {
		together(to-from, func(i int) {
			c := a.Connect(t, mqtt.V5, "dev-a", persistent(fmt.Sprint("away-", from+i)))
			c.Subscribe(fmt.Sprintf("away/%d", from+i), 1)
			c.Disconnect()
			c.Drop()
		})
	}
	nc, err := nats.Connect(s.URLs("BROKER")[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	// Goroutines that end are given the time to; the least of what is seen counts.
	goroutines := func(atMost int) (n int) {
		harness.Eventually(t, fmt.Sprintf("at most %d goroutines", atMost), func() (bool, string) {
			n = runtime.NumGoroutine()
			return n <= atMost, fmt.Sprint(n)
		})
		return n
	}
	leave(0, 100/fewer)
	few := goroutines(1 << 20)
	harness.Eventually(t, "goroutines to end", func() (bool, string) {
		n := runtime.NumGoroutine()
		fell := n < few
		few = min(few, n)
		return !fell, fmt.Sprint(n)
	})
	leave(100/fewer, 1000/fewer)
	account, err := js.AccountInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if account.Consumers != 0 {
		t.Errorf("%d JetStream consumers, want none: not for sessions that are away, nor for anything", account.Consumers)
	}
	const slack = 20 // what comes and goes with requests of the replica's own
	n := goroutines(few + slack)
	t.Logf("goroutines of the whole process: %d with %d sessions away, %d with %d; JetStream consumers: %d", few, 100/fewer, n, 1000/fewer, account.Consumers)
}
