package cluster_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/harness"
	"maestrohub.io/uns/tools/localcluster/natsserver"
)

// fencedLine is what a replica says when it fences.
const fencedLine = "broker cluster: fenced: "

// fences counts how often the replicas have fenced.
func (c *cluster) fences() (n int) {
	for i := range c.Replicas {
		n += c.printed(i, fencedLine)
	}
	return n
}

func TestRowOneNATSServerLost(t *testing.T) {
	c := start(t)
	l := c.startLoad(t)
	nc, err := nats.Connect(c.NATSURL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	// The hardest to lose: the one that leads the session log.
	server, err := c.Deployment.NATS.Leader(t.Context(), nc, "LOG_mqtt-sessions-"+harness.Workspace)
	if err != nil {
		t.Fatal(err)
	}
	fences := c.fences()
	server.Kill()
	killed := time.Now()
	row(t, "one NATS server killed: everything flows, from the kill", "elections waited out, 15 s", l.flows(t, killed))
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	if err := c.NATS.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	row(t, "one NATS server killed: devices disconnected", "0", len(l.events(killed, "lost")))
	if n := len(l.events(killed, "lost")); n > 0 {
		t.Errorf("%d devices were disconnected", n)
	}
	if n := c.fences() - fences; n > 0 {
		t.Errorf("replicas fenced %d times", n)
	}
	l.finish(t)
}

func TestRowEveryNATSServerLost(t *testing.T) {
	c := start(t)
	l := c.startLoad(t)
	witness := c.brokers[0].Client(t, "device", "all-lost-witness")
	for _, who := range []string{"lost-back", "lost-away"} {
		c.brokers[0].Dial(t).Connect(c.withWill(who))
	}
	for _, s := range c.NATS.Servers {
		s.Kill()
	}
	killed := time.Now()
	if code := witness.ExpectClosed(); code != mqtt.ServerShuttingDown {
		t.Errorf("the fence closed with %v, want 0x8B", code)
	}
	took := time.Since(killed)
	row(t, "every NATS server lost: fenced, from the kill", fmt.Sprintf("%v", fenceAfter), took)
	if took < fenceAfter-ttl/5 || took > fenceAfter+generous {
		t.Errorf("fenced %v after the kill", took)
	}
	for i, b := range c.brokers {
		until(t, generous, c.Replicas[i].ID+" to be not ready", func() (bool, string) {
			status, body := b.Do(t, "", http.MethodGet, "/health/ready", nil)
			return status == http.StatusServiceUnavailable && strings.Contains(string(body), "broker-cluster-store:"), string(body)
		})
		if ack := b.Dial(t).TryConnect(b.ConnectAs("device", "all-lost-refused")); ack.Code != mqtt.ServerUnavailable {
			t.Errorf("%s: CONNACK %v, want 0x88", c.Replicas[i].ID, ack.Code)
		}
	}
	restarted := time.Now()
	for _, s := range c.NATS.Servers {
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.NATS.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	row(t, "every NATS server back: NATS answers, from its start", "-", time.Since(restarted))
	c.awaitReady(t)
	row(t, "every NATS server back: every replica serves, from its start", "back when NATS is", time.Since(restarted))
	back := c.brokers[1].Dial(t)
	back.Connect(c.withWill("lost-back"))
	watcher := c.brokers[1].Client(t, "device", "all-lost-watcher")
	watcher.Subscribe(harness.Data("wills/#"), 1)
	serving := time.Now()
	row(t, "every NATS server back: everything flows, from its start", "-", l.flows(t, restarted))
	will, err := watcher.Next(30*time.Second + generous)
	if err != nil {
		t.Fatalf("the will of a device that stays away: %v", err)
	}
	var p mqtt.Publish
	if will.Type != mqtt.PUBLISH || p.Decode(mqtt.V5, will.Header, will.Body) != nil || string(p.Topic) != harness.Data("wills/lost-away") {
		t.Errorf("received %v on %q, want the will of the device that stays away", will.Type, p.Topic)
	}
	row(t, "every NATS server back: will of a device that stays away", fmt.Sprintf("%v from when a replica serves", grace), time.Since(serving))
	back.ExpectNothing()
	watcher.ExpectNothing()
	l.finish(t)
}

// awaitReady waits until every replica serves.
func (c *cluster) awaitReady(t *testing.T) {
	t.Helper()
	for _, b := range c.brokers {
		until(t, 2*time.Minute, "every replica to serve", func() (bool, string) {
			status, body := b.Do(t, "", http.MethodGet, "/health/ready", nil)
			return status == http.StatusOK, string(body)
		})
	}
}

// The bounds of a silent connection do not follow from T: this row takes a minute.
func TestRowANATSServerHangs(t *testing.T) {
	if *long == 0 {
		t.Skip("takes a minute: run with -long, as `make soak` does")
	}
	c := start(t)
	l := c.startLoad(t)
	server := c.serverOf(t, 0)
	fenced := c.printed(0, fencedLine)
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	paused := time.Now()
	t.Cleanup(func() { _ = server.Resume() })
	until(t, 17*time.Second+generous, "the replica on the hung server to fence", func() (bool, string) {
		return c.printed(0, fencedLine) > fenced, "it serves"
	})
	took := time.Since(paused)
	row(t, "a NATS server hangs: its replica fences, from the pause", "15 to 17 s", took)
	if took < 14*time.Second {
		t.Errorf("fenced after %v of silence, before 15 s", took)
	}
	began := time.Now()
	c.awaitReady(t)
	row(t, "a NATS server hangs: it serves again over another, from the fence", "within 3 s of an answer", time.Since(began))
	row(t, "a NATS server hangs: everything flows, from the fence", "-", l.flows(t, began))
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	c.awaitLinked(t)
	l.finish(t)
}

// serverOf returns the NATS server that a replica's shared-state connection is on.
func (c *cluster) serverOf(t *testing.T, i int) *natsserver.Server {
	t.Helper()
	var names []string
	for _, s := range c.NATS.Servers {
		response, err := http.Get("http://" + s.Monitor + "/connz")
		if err != nil {
			t.Fatal(err)
		}
		var connz struct {
			Connections []struct {
				Name string `json:"name"`
			} `json:"connections"`
		}
		err = json.NewDecoder(response.Body).Decode(&connz)
		response.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		for _, conn := range connz.Connections {
			names = append(names, conn.Name)
			if strings.Contains(conn.Name, c.Replicas[i].ID) && strings.Contains(conn.Name, "state") {
				return s
			}
		}
	}
	t.Fatalf("no server has the shared-state connection of %s; there are %q", c.Replicas[i].ID, names)
	return nil
}

func TestRowNATSSlow(t *testing.T) {
	c := start(t)
	l := c.startLoad(t)
	hold := func(d time.Duration) {
		c.Slow(d)
		t.Logf("every reply of NATS is held %v", d)
	}
	// 2 s is 4 s at the default T: nobody fences.
	fences := c.fences()
	hold(2 * time.Second)
	began := time.Now()
	row(t, "NATS slow by 2 s: everything flows, from then on", "nobody fences", l.flows(t, began))
	enough := max(15*time.Second, *long) - time.Since(began)
	stay(enough)
	row(t, "NATS slow by 2 s: fences", "0", c.fences()-fences)
	if n := c.fences() - fences; n > 0 {
		t.Errorf("replicas fenced %d times while NATS was slow by 2 s", n)
	}
	row(t, "NATS slow by 2 s: connections lost", "0", len(l.events(began, "lost")))

	hold(8 * time.Second)
	slow := time.Now()
	until(t, 2*fenceAfter+generous, "every replica to fence", func() (bool, string) {
		return c.printed(0, fencedLine) > 0 && c.printed(1, fencedLine) > 0 && c.fences() >= fences+2, fmt.Sprint(c.fences() - fences)
	})
	row(t, "NATS slow by 8 s: every replica has fenced, from then on", "fences repeatedly", time.Since(slow))
	stay(*long - time.Since(slow))
	c.Slow(0)
	healed := time.Now()
	c.awaitReady(t)
	row(t, "NATS slow by 8 s, healed: every replica serves, from then on", "recovers", time.Since(healed))
	row(t, "NATS slow by 8 s, healed: everything flows, from then on", "nothing lost", l.flows(t, healed))
	l.finish(t)
}

// stay lets a state last: what must not happen has that long to happen.
func stay(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
}

func TestRowUNSPodCutOffFromNATS(t *testing.T) {
	c := start(t)
	l := c.startLoad(t)
	for i, way := range []string{"refuses", "swallows"} {
		r, other := c.Replicas[i], 1-i
		witness := c.brokers[i].Client(t, "device", "cut-off-"+way)
		gone := c.gone(t, other)
		cut := time.Now()
		if way == "refuses" {
			r.NATS.Cut()
		} else {
			r.NATS.Freeze()
		}
		if code := witness.ExpectClosed(); code != mqtt.ServerShuttingDown {
			t.Errorf("the fence closed with %v, want 0x8B", code)
		}
		fenced := time.Since(cut)
		row(t, "pod cut off (the network "+way+"): fenced, from the cut", fmt.Sprintf("%v from its last write", fenceAfter), fenced)
		if fenced < fenceAfter-ttl/5 || fenced > fenceAfter+generous {
			t.Errorf("fenced %v after the cut", fenced)
		}
		if n := c.gone(t, other); n > gone {
			t.Error("it was taken for gone before it had fenced")
		}
		row(t, "pod cut off: everything flows again, from the fence", "2 s after the reconnect", l.flows(t, cut.Add(fenced)))
		until(t, 17*ttl/10+generous, "the other replica to find it gone", func() (bool, string) {
			return c.gone(t, other) > gone, "not gone"
		})
		row(t, "pod cut off: taken for gone, from the cut", fmt.Sprintf("%v to %v", ttl*15/10, ttl*17/10), time.Since(cut))
		r.NATS.Heal()
		healed := time.Now()
		c.awaitReady(t)
		row(t, "pod cut off, healed: it serves, from then on", "once a write lands", time.Since(healed))
		c.awaitLinked(t)
	}
	l.finish(t)
}
