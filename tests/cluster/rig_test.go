package cluster_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"maestrohub.io/uns/tests/harness"
	"maestrohub.io/uns/tools/localcluster/deployment"
)

var (
	memberTTL = flag.Duration("T", 5*time.Second, "memberTTL; at the default of the broker, 10s, rows take twice as long as at 5s")
	replicas  = flag.Int("replicas", 2, "broker replicas")
	long      = flag.Duration("long", 0, "hold NATS replies for as long as this instead of seconds")
	// Graces of wills stand still for one connectBudget after a CONNECT was refused.
	connectBudget = flag.Duration("connect-budget", 20*time.Second, "connectBudget")
	binary        = flag.String("binary", "", "broker program; empty: built from this repository")
	kills         = flag.Int("kills", 6, "how often replicas are killed")
)

// What follows from the flags; set before any test runs.
var (
	ttl        time.Duration // memberTTL, T
	fenceAfter time.Duration // when a replica none of whose writes land fences: 7/6 T
	cutAfter   time.Duration // when one fences that hears nothing of NATS at all: after 15 s, if that is sooner
	grace      time.Duration // willStopGrace: 4 s, or the default of 30 s at the default T and above
)

// generous is added to every promised figure for what a busy machine takes.
const generous = 10 * time.Second

var clients = harness.Clients("device", "other")

// cluster is a deployment for tests.
type cluster struct {
	*deployment.Deployment
	brokers []*harness.Broker
	nats    *nats.Conn // the tests' own; nil before the first use
}

// shared is the deployment that every test, one after the other, finds whole. A
// test that fails leaves it to nobody.
var shared *cluster

func TestMain(m *testing.M) {
	flag.Parse()
	ttl, fenceAfter, grace = *memberTTL, *memberTTL*7/6, 4*time.Second
	cutAfter = min(fenceAfter, 15*time.Second)
	if ttl >= 10*time.Second {
		grace = 30 * time.Second
	}
	code := m.Run()
	if *rewrite {
		if err := writePage(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
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
		if *binary == "" {
			*binary = harness.Binary(t)
		}
		d, err := deployment.Start(ctx, deployment.Options{Replicas: *replicas, Binary: *binary, MemberTTL: ttl, Clients: clients, Model: model,
			Settings: map[string]any{"brokerWillStopGrace": grace.String(), "embeddedBrokerLimits.connectBudget": connectBudget.String()}})
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

// model lets topics below retained/ keep their last value.
const model = `
workspaces:
  - slug: acme
    bindings:
      - topic: retained/#
        retain: true
`
