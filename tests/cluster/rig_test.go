package cluster_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"maestrohub.io/uns/tests/harness"
	"maestrohub.io/uns/tools/localcluster/deployment"
)

var (
	long  = flag.Duration("long", 0, "hold NATS replies for as long as this instead of seconds")
	kills = flag.Int("kills", 6, "how often replicas are killed")
)

// ttl is memberTTL, T.
const ttl = 5 * time.Second

// fenceAfter is when a replica none of whose writes land fences: 7/6 T.
const fenceAfter = ttl * 7 / 6

// grace is willStopGrace in these tests.
const grace = 4 * time.Second

// generous is added to every promised figure for what a busy machine takes.
const generous = 10 * time.Second

var clients = harness.Clients("device", "other")

// cluster is a deployment for tests.
type cluster struct {
	*deployment.Deployment
	brokers []*harness.Broker
}

// shared is the deployment that every test, one after the other, finds whole. A
// test that fails leaves it to nobody.
var shared *cluster

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if shared != nil {
		if err := shared.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// start returns the shared deployment, whole: everything runs, every replica
// serves and knows the other.
func start(t *testing.T) *cluster {
	t.Helper()
	c := shared
	if c == nil {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		d, err := deployment.Start(ctx, deployment.Options{Binary: harness.Binary(t), MemberTTL: ttl, Clients: clients, Model: model,
			Settings: map[string]any{"brokerWillStopGrace": grace.String()}})
		if err != nil {
			t.Fatal(err)
		}
		c = &cluster{Deployment: d}
		for _, r := range d.Replicas {
			c.brokers = append(c.brokers, harness.Attach(r.Broker, clients))
		}
		shared = c
	}
	marks := make([]int, len(c.Replicas)) // what is printed from here on is this test's
	for i, r := range c.Replicas {
		marks[i] = len(r.Output())
	}
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		for i, r := range c.Replicas {
			t.Logf("%s printed:\n%s", r.ID, r.Output()[marks[i]:])
		}
		t.Logf("the parts at the end:\n%s", c.Status(context.Background()))
		shared = nil
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	c.makeWhole(t)
	return c
}

// makeWhole starts and heals whatever a test has left.
func (c *cluster) makeWhole(t *testing.T) {
	t.Helper()
	c.Slow(0)
	c.Mesh().Heal()
	for _, r := range c.Replicas {
		r.NATS.Heal()
	}
	for _, s := range c.NATS.Servers {
		if !s.Alive() {
			if err := s.Start(); err != nil {
				t.Fatal(err)
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := c.NATS.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.StartReplicas(ctx); err != nil {
		t.Fatal(err)
	}
	for _, b := range c.brokers {
		if err := b.Ready(ctx); err != nil {
			t.Fatal(err)
		}
	}
	c.awaitLinked(t)
}

// status is what a replica says of the cluster.
type status struct {
	Members []string `json:"members"`
	Links   int      `json:"linksUp"`
	Fenced  bool     `json:"fenced"`
}

func status1(t *testing.T, b *harness.Broker) status {
	t.Helper()
	var answer struct {
		Broker struct {
			Cluster status `json:"cluster"`
		} `json:"broker"`
	}
	b.Fetch(t, "device", "/api/v1/system/uns/settings/status", &answer)
	return answer.Broker.Cluster
}

// awaitLinked waits until each replica is linked with every other.
func (c *cluster) awaitLinked(t *testing.T) {
	t.Helper()
	for i, b := range c.brokers {
		harness.Eventually(t, c.Replicas[i].ID+" to know and reach the others", func() (bool, string) {
			s := status1(t, b)
			return len(s.Members) == len(c.brokers) && s.Links == len(c.brokers)-1, fmt.Sprintf("%+v", s)
		})
	}
}

// until waits for a condition of any length of time, and returns how long it took.
func until(t *testing.T, within time.Duration, what string, condition func() (bool, string)) time.Duration {
	t.Helper()
	began := time.Now()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		ok, state := condition()
		if ok {
			break
		}
		if time.Since(began) > within {
			t.Fatalf("waited %v for %s; last: %s", within, what, state)
		}
	}
	return time.Since(began)
}

// printed counts how often a replica has said something.
func (c *cluster) printed(i int, text string) int { return strings.Count(c.Replicas[i].Output(), text) }

// row prints a line of the table.
func row(t *testing.T, what, promised string, measured any) {
	t.Helper()
	if d, is := measured.(time.Duration); is {
		measured = d.Round(max(d/1000, 10*time.Microsecond)) // three figures
	}
	t.Logf("| %-60s | %-28s | %v |", what, promised, measured)
}

// model lets topics below retained/ keep their last value.
const model = `
workspaces:
  - slug: acme
    bindings:
      - topic: retained/#
        retain: true
`
