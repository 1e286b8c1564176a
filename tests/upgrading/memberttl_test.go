package upgrading_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"maestrohub.io/uns/tests/harness"
	"maestrohub.io/uns/tools/localcluster/deployment"
)

// setMemberTTL changes a replica's configuration, as the chart does.
func (c *cluster) setMemberTTL(t *testing.T, i int, from, to string) {
	t.Helper()
	file := filepath.Join(c.Replicas[i].Dir, "config.yaml")
	text, err := os.ReadFile(file)
	must(t, err)
	changed := strings.Replace(string(text), "brokerMemberTTL: "+from, "brokerMemberTTL: "+to, 1)
	if changed == string(text) {
		t.Fatalf("%s has no brokerMemberTTL %s", file, from)
	}
	must(t, os.WriteFile(file, []byte(changed), 0o600))
}

// The steps of UPGRADING.md: stopped, the bucket deleted, started with another value. Sessions, and what is kept for
// them, are as they were. A replica that is started with the new value alone refuses to start and harms nobody.
func TestMemberTTLChanges(t *testing.T) {
	steps := section(t, "UPGRADING.md", "memberTTL")
	if len(steps) != 4 || !strings.Contains(steps[0], "uns.stopped=true") || !strings.Contains(steps[0], "memberTTL=20s") || !strings.Contains(steps[2], "uns.stopped=false") {
		t.Fatalf("the page's steps are others than this test takes: %q", steps)
	}
	c := start(t, deployment.Options{MemberTTL: 10 * time.Second})
	s, _ := c.resume(t, 0, "away")
	if code := s.Subscribe(harness.Data("line/#"), 1); code >= 0x80 {
		t.Fatalf("SUBACK %v", code)
	}
	s.Close()
	p := c.brokers[1].Client(t, "device", "publisher")
	publish(t, p, "line/1", "1", "2")
	p.Close()

	must(t, c.Replicas[1].Stop(30*time.Second))
	c.setMemberTTL(t, 1, "10s", "20s")
	must(t, c.Replicas[1].Launch())
	harness.Eventually(t, "the replica with another value refuses to start", func() (bool, string) {
		out := c.Replicas[1].Output()
		return !c.Replicas[1].Alive() && strings.Contains(out, "memberTTL is 20s and that of the bucket mqtt-members 10s"), out
	})
	if status, body := c.brokers[0].Do(t, "", "GET", "/health/ready", nil); status != 200 {
		t.Errorf("the other replica: %d %s", status, body)
	}

	must(t, c.Replicas[0].Stop(30*time.Second)) // step 1
	c.setMemberTTL(t, 0, "10s", "20s")
	c.nats(t, steps[1]) // step 2
	c.ready(t)          // step 3
	if out := c.nats(t, "nats kv status mqtt-members"); !strings.Contains(out, "20.00s") && !strings.Contains(out, "20s") {
		t.Errorf("the bucket:\n%s", out)
	}
	for _, r := range c.Replicas {
		if !strings.Contains(r.Output(), "broker cluster: joined") { // step 4
			t.Errorf("%s has not said that it joined:\n%s", r.ID, r.Output())
		}
	}
	s, present := c.resume(t, 1, "away")
	if !present {
		t.Error("the session is gone")
	}
	expect(t, s, "1", "2")
	p = c.brokers[0].Client(t, "device", "publisher")
	publish(t, p, "line/1", "3")
	expect(t, s, "3")
}
