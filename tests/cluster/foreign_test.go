package cluster_test

import (
	"fmt"
	"net"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"maestrohub.io/uns/tests/harness"
	"maestrohub.io/uns/tools/launch"
)

// TestRowThirdPartyClientsThroughAKill has Paho Python, MQTT.js and mosquitto's clients
// publish and receive over the one address of all replicas while replicas are killed.
// They connect again by their own means.
func TestRowThirdPartyClientsThroughAKill(t *testing.T) {
	harness.Require(t, "/usr/bin/python3", "/usr/lib/python3/dist-packages/paho/mqtt/client.py", "../clients/mqttjs/node_modules/mqtt/package.json",
		"/usr/bin/mosquitto_sub", "/usr/bin/mosquitto_pub")
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal("node is not there: run `make setup`")
	}
	c := start(t)
	run := runs.Add(1)
	host, port, err := net.SplitHostPort(c.Address())
	if err != nil {
		t.Fatal(err)
	}
	secret := harness.Secret("device")
	topic := func(who string) string { return fmt.Sprintf("foreign/%d/%s", run, who) }
	filter := harness.Data(topic("#"))
	url := "mqtt://" + c.Address()
	id := func(who string) string { return fmt.Sprintf("foreign-%d-%s", run, who) }

	subscribers := []*foreign{
		c.foreign(t, "Paho Python", "/usr/bin/python3", "testdata/outage.py", "sub", host, port, "device", secret, id("paho-sub"), filter),
		c.foreign(t, "MQTT.js", node, "../clients/mqttjs/outage.mjs", "sub", url, "device", secret, id("js-sub"), filter),
		c.foreign(t, "mosquitto_sub", "/usr/bin/stdbuf", "-oL", "/usr/bin/mosquitto_sub", "-V", "mqttv5", "-h", host, "-p", port, "-u", "device", "-P", secret,
			"-i", id("mosquitto-sub"), "-c", "-x", "600", "-k", "5", "-q", "1", "-t", filter, "-d", "-F", "message %p"),
	}
	for _, s := range subscribers {
		until(t, time.Minute, s.name+" to be subscribed", func() (bool, string) {
			out := strings.ToLower(s.Output())
			return strings.Contains(out, "subscribed"), out
		})
	}
	publishers := []*foreign{
		c.foreign(t, "Paho Python", "/usr/bin/python3", "testdata/outage.py", "pub", host, port, "device", secret, id("paho-pub"), harness.Inbox("device", topic("paho"))),
		c.foreign(t, "MQTT.js", node, "../clients/mqttjs/outage.mjs", "pub", url, "device", secret, id("js-pub"), harness.Inbox("device", topic("js"))),
	}
	// mosquitto_pub ends with its connection: one for each value, again until it says
	// that it was acknowledged.
	mosquitto := &foreign{name: "mosquitto_pub", acked: map[string]time.Time{}}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for n := 1; ; n++ {
			value := fmt.Sprint(2_000_000 + n)
			for exec.Command("/usr/bin/mosquitto_pub", "-V", "mqttv5", "-h", host, "-p", port, "-u", "device", "-P", secret, "-i", id("mosquitto-pub"),
				"-q", "1", "-t", harness.Inbox("device", topic("mosquitto")), "-m", value).Run() != nil {
				select {
				case <-done:
					return
				default:
				}
			}
			mosquitto.note(mosquitto.acked, value)
			select {
			case <-done:
				return
			default:
			}
		}
	}()
	stopped := sync.OnceFunc(func() { close(done); <-ended })
	t.Cleanup(stopped)
	flows := func(since time.Time) time.Duration {
		t.Helper()
		var last time.Time
		until(t, time.Minute+generous, "every third-party client to publish and receive", func() (bool, string) {
			last = time.Time{}
			for _, p := range append(publishers, mosquitto) {
				at := p.first(p.acked, since)
				if at.IsZero() {
					return false, p.name + " is not acknowledged"
				}
				last = maxTime(last, at)
			}
			for _, s := range subscribers {
				at := s.first(s.received, since)
				if at.IsZero() {
					return false, s.name + " gets nothing"
				}
				last = maxTime(last, at)
			}
			return true, ""
		})
		return last.Sub(since)
	}
	flows(time.Now())
	for _, r := range c.Replicas {
		r.Kill()
		killed := time.Now()
		killForeign.took(t, flows(killed))
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.awaitLinked(t)
	}
	flows(time.Now())
	for _, p := range publishers {
		p.Kill()
	}
	stopped()
	for _, p := range append(publishers, mosquitto) {
		for _, s := range subscribers {
			until(t, time.Minute, s.name+" to have all of "+p.name, func() (bool, string) {
				lost := s.lacks(p)
				return len(lost) == 0, fmt.Sprintf("%d acknowledged values did not come: %q", len(lost), lost[:min(len(lost), 10)])
			})
		}
		t.Logf("%s: %d values acknowledged, all received by the three subscribers", p.name, len(p.all(p.acked)))
	}
}

func maxTime(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// foreign is a third-party client, and what it says of itself.
type foreign struct {
	*launch.Process
	name string

	mu       sync.Mutex // below
	acked    map[string]time.Time
	received map[string]time.Time
}

// foreign starts a client that says "acked <number>" and "message <value>".
func (c *cluster) foreign(t *testing.T, name, path string, args ...string) *foreign {
	t.Helper()
	f := &foreign{name: name, acked: map[string]time.Time{}, received: map[string]time.Time{}}
	f.Process = harness.Program(t, launch.Spec{Name: name, Path: path, Args: args})
	go func() {
		for line := range f.Lines() {
			words := strings.Fields(line)
			if len(words) != 2 {
				continue
			}
			switch words[0] {
			case "acked":
				f.note(f.acked, words[1])
			case "message":
				f.note(f.received, words[1])
			}
		}
	}()
	return f
}

func (f *foreign) note(where map[string]time.Time, value string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	where[value] = time.Now() // the last time: what flows is seen to flow
}

// first returns when something was noted after an instant, zero if nothing was.
func (f *foreign) first(where map[string]time.Time, since time.Time) (first time.Time) {
	for _, at := range f.all(where) {
		if at.After(since) && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

func (f *foreign) all(where map[string]time.Time) map[string]time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make(map[string]time.Time, len(where))
	for value, at := range where {
		all[value] = at
	}
	return all
}

// lacks are a publisher's acknowledged values that did not come.
func (f *foreign) lacks(p *foreign) (lost []string) {
	have := f.all(f.received)
	for value := range p.all(p.acked) {
		if _, there := have[value]; !there {
			lost = append(lost, value)
		}
	}
	return lost
}
