package backup_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"maestrohub.io/uns/broker/mqtt"
)

// TestADeletedMemberEntryFencesAtOnce: its connections are closed, and it joins again.
func TestADeletedMemberEntryFencesAtOnce(t *testing.T) {
	c := start(t)
	c.context(t)
	witness := c.brokers[0].Client(t, "device", "witness")
	other := c.brokers[1].Client(t, "device", "other-witness")
	deleted := time.Now()
	c.script(t, "", `nats kv del mqtt-members uns-0 --force`)
	if code := witness.ExpectClosed(); code != mqtt.ServerShuttingDown {
		t.Errorf("the fence closed with %v, want 0x8B", code)
	}
	took := time.Since(deleted)
	t.Logf("fenced %v after the command was given", took.Round(time.Millisecond))
	if took > ttl { // a lost lease takes 7/6 of it
		t.Errorf("fenced after %v, want at once", took)
	}
	other.ExpectNothing()
	c.startReplicas(t)
	c.brokers[0].Client(t, "device", "witness").ExpectNothing()
}

// TestADeletedBucketOrLog: the replicas are not ready after 15 s, say which stream is gone,
// and make it again when they are restarted.
func TestADeletedBucketOrLog(t *testing.T) {
	c := start(t)
	c.context(t)
	// Without devices of persistent sessions: their cursors cannot be written any more,
	// and a stop waits for them as long as it may.
	c.subscriber(t, "deleted", "deleted/#", 1).Close()
	for n, stream := range []string{logStream, "KV_mqtt-session-cursor"} {
		// Both replicas use the log: a reader on one, a writer on the other.
		s, _ := c.resume(t, 0, "deleted")
		c.publish(t, "deleted/x", 1, fmt.Sprint(n))
		expect(t, "deleted", s, fmt.Sprint(n))
		s.Close()
		c.script(t, "", `nats stream rm `+stream+` -f`)
		for i := range c.Replicas {
			took, reason := c.awaitNotReady(t, i)
			t.Logf("%s deleted: %s not ready after %v: %s", stream, c.Replicas[i].ID, took.Round(100*time.Millisecond), strings.TrimSpace(reason))
			if i == 0 && took < 10*time.Second {
				t.Errorf("not ready after %v, want 15 s", took)
			}
			if !strings.Contains(reason, stream) {
				t.Errorf("the reason does not name %s: %s", stream, reason)
			}
		}
		// One replica restarted: the other knows that its streams are others now.
		must(t, c.Replicas[0].Stop(30*time.Second))
		must(t, c.Replicas[0].Launch())
		must(t, c.brokers[0].Ready(t.Context()))
		if _, reason := c.awaitNotReady(t, 1); !strings.Contains(reason, stream) {
			t.Errorf("the other replica takes the stream that was made anew for the old one: %s", reason)
		}
		must(t, c.Replicas[1].Stop(30*time.Second))
		c.startReplicas(t)
	}
	s, present := c.resume(t, 1, "deleted")
	if !present {
		t.Error("the session is gone with its cursor: its state was not deleted")
	}
	c.publish(t, "deleted/x", 1, "9")
	expect(t, "deleted", s, "9")
	c.script(t, "", `nats stream info KV_mqtt-session-cursor > /dev/null; nats stream info `+logStream+` > /dev/null`)
}
