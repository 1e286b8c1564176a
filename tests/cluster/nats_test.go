package cluster_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

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
	c.jetstream(t)
	// The hardest to lose: the one that leads the session log.
	server, err := c.NATS.Leader(t.Context(), c.nats, "LOG_mqtt-sessions-"+harness.Workspace)
	if err != nil {
		t.Fatal(err)
	}
	if ttl < 10*time.Second {
		c.keepMembersOff(t, server)
	}
	fences := c.fences()
	server.Kill()
	killed := time.Now()
	lostFlows.took(t, l.flows(t, killed))
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	if err := c.NATS.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	lostDevices.was(t, len(l.events(killed, "lost")))
	if n := len(l.events(killed, "lost")); n > 0 {
		t.Errorf("%d devices were disconnected", n)
	}
	if n := c.fences() - fences; n > 0 {
		t.Errorf("replicas fenced %d times", n)
	}
	l.finish(t)
}

// keepMembersOff moves the leadership of mqtt-members off a server. An election takes
// NATS 3 to 9 s, however short T is: below 10 s the loss of that one server fences
// every replica, which the page says.
func (c *cluster) keepMembersOff(t *testing.T, server *natsserver.Server) {
	t.Helper()
	until(t, time.Minute, "the leader of mqtt-members to be on another server", func() (bool, string) {
		leader, err := c.NATS.Leader(t.Context(), c.nats, "KV_mqtt-members")
		if err != nil {
			return false, err.Error()
		}
		if leader != server {
			return true, ""
		}
		err = c.NATS.StepDown(t.Context(), c.nats, "KV_mqtt-members")
		return false, fmt.Sprintf("on %s: %v", leader.Name, err)
	})
}

func TestRowEveryNATSServerLost(t *testing.T) {
	c := start(t)
	l := c.startLoad(t)
	witness := c.brokers[0].Client(t, "device", "all-lost-witness")
	w := c.newWills(t)
	w.connect(t, 0, "back", "away")
	for _, s := range c.NATS.Servers {
		s.Kill()
	}
	killed := time.Now()
	if code := expectFence(t, witness); code != mqtt.ServerShuttingDown {
		t.Errorf("the fence closed with %v, want 0x8B", code)
	}
	took := time.Since(killed)
	allFence.took(t, took)
	if took < cutAfter-ttl/5 || took > cutAfter+generous {
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
	answers := time.Now()
	allNATS.took(t, answers.Sub(restarted))
	c.awaitReady(t)
	serving := time.Now()
	allBack.took(t, serving.Sub(answers))
	back := c.brokers[1].Dial(t)
	back.Connect(w.device("back"))
	w.watch(t, 1)
	took = l.flows(t, answers)
	allFlows.took(t, took)
	if took > 5*time.Second+generous {
		t.Errorf("it took %v for everything to flow again", took)
	}
	took = w.expect(t, "away", *connectBudget+grace+generous).Sub(serving)
	allWill.took(t, took)
	if took < grace-time.Second {
		t.Errorf("the will was sent %v after a replica served again, want %v", took, grace)
	}
	back.ExpectNothing()
	w.ExpectNothing()
	allNoWill.was(t, 0)
	l.finish(t)
}

// expectFence waits for the DISCONNECT of a fence.
func expectFence(t *testing.T, c *harness.Conn) mqtt.ReasonCode {
	t.Helper()
	packet, err := c.Next(fenceAfter + generous)
	if err != nil {
		t.Fatalf("waited for the DISCONNECT of a fence: %v", err)
	}
	var p mqtt.Disconnect
	if packet.Type != mqtt.DISCONNECT || p.Decode(mqtt.V5, packet.Header, packet.Body) != nil {
		t.Fatalf("received %v, want the DISCONNECT of a fence", packet.Type)
	}
	return p.Code
}

// awaitReady waits until every replica serves.
func (c *cluster) awaitReady(t *testing.T) {
	t.Helper()
	for i, b := range c.brokers {
		c.awaitReadyOne(t, i, b)
	}
}

func (c *cluster) awaitReadyOne(t *testing.T, i int, b *harness.Broker) {
	t.Helper()
	until(t, 2*time.Minute, c.Replicas[i].ID+" to serve", func() (bool, string) {
		status, body := b.Do(t, "", http.MethodGet, "/health/ready", nil)
		return status == http.StatusOK, string(body)
	})
}

// The bounds of a silent connection do not follow from T. Below the default T a hung
// server that leads mqtt-members costs everybody the lease sooner than that.
func TestRowANATSServerHangs(t *testing.T) {
	if ttl < 10*time.Second {
		t.Skip("its bounds do not follow from T: run with -T 10s")
	}
	c := start(t)
	for n := range c.NATS.Servers {
		t.Run(c.NATS.Servers[n].Name, func(t *testing.T) { c.hang(t, n) })
		if t.Failed() {
			return
		}
	}
}

func (c *cluster) hang(t *testing.T, n int) {
	c.makeWhole(t)
	c.spread(t)
	l := c.startLoad(t)
	c.jetstream(t)
	server := c.NATS.Servers[n]
	on := map[int]bool{}
	fenced := map[int]int{}
	for i := range c.Replicas {
		on[i] = c.serverOf(t, i) == server
		fenced[i] = c.printed(i, fencedLine)
	}
	t.Logf("%s leads %q; shared-state connections on it: %v", server.Name, c.ledBy(t, server), on)
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	paused := time.Now()
	t.Cleanup(func() { _ = server.Resume() })
	affected := false
	for i := range c.Replicas {
		if !on[i] {
			continue
		}
		affected = true
		until(t, 17*time.Second+generous, c.Replicas[i].ID+", on the hung server, to fence", func() (bool, string) {
			return c.printed(i, fencedLine) > fenced[i], "it serves"
		})
		began := time.Now()
		took := began.Sub(paused)
		hungFence.took(t, took)
		if took < 14*time.Second || took > 17*time.Second+generous {
			t.Errorf("fenced after %v of silence, want 15 to 17 s", took)
		}
		c.awaitReadyOne(t, i, c.brokers[i])
		took = time.Since(began)
		hungBack.took(t, took)
		if took > 3*time.Second+generous {
			t.Errorf("it took %v to serve again", took)
		}
		took = l.flows(t, began)
		hungFlows.took(t, took)
		if took > 3*time.Second+generous {
			t.Errorf("it took %v for everything to flow again", took)
		}
	}
	if !affected {
		stay(17*time.Second - time.Since(paused))
		l.flows(t, time.Now())
	}
	others := 0
	for i := range c.Replicas {
		if !on[i] {
			others += c.printed(i, fencedLine) - fenced[i]
		}
	}
	hungOthers.was(t, others)
	if others > 0 {
		t.Errorf("replicas whose shared-state connection is on another server fenced %d times", others)
	}
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	c.awaitLinked(t)
	l.flows(t, time.Now())
	l.finish(t)
}

// spread restarts replicas until each is connected to the server it begins with.
func (c *cluster) spread(t *testing.T) {
	t.Helper()
	for i, r := range c.Replicas {
		if c.serverOf(t, i) == c.NATS.Servers[i%len(c.NATS.Servers)] {
			continue
		}
		if err := r.Stop(30 * time.Second); err != nil {
			t.Fatal(err)
		}
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := c.serverOf(t, i); got != c.NATS.Servers[i%len(c.NATS.Servers)] {
			t.Fatalf("%s began with %s", r.ID, got.Name)
		}
	}
	c.awaitLinked(t)
}

// ledBy are the streams that a server leads.
func (c *cluster) ledBy(t *testing.T, server *natsserver.Server) (led []string) {
	t.Helper()
	for name := range c.jetstream(t).StreamNames() {
		if leader, err := c.NATS.Leader(t.Context(), c.nats, name); err == nil && leader == server {
			led = append(led, name)
		}
	}
	return led
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
