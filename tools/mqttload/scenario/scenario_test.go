package scenario_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tools/mqttload/peer"
	"maestrohub.io/uns/tools/mqttload/scenario"
)

// mosquitto starts a broker of which nothing is known here but its protocol, so
// that the load generator is checked against somebody else's reading of it.
func mosquitto(t *testing.T, v mqtt.Version) *scenario.Target {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	r, err := peer.Mosquitto().Start(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Stop)
	r.Target.Version = v
	return &r.Target
}

// versions runs a test against a mosquitto in each version of the protocol.
func versions(t *testing.T, test func(*testing.T, *scenario.Target)) {
	for name, v := range map[string]mqtt.Version{"MQTT 3.1.1": mqtt.V311, "MQTT 5": mqtt.V5} {
		t.Run(name, func(t *testing.T) { test(t, mosquitto(t, v)) })
	}
}

func TestEveryValueOfAFlowIsAccountedFor(t *testing.T) {
	for name, v := range map[string]mqtt.Version{"MQTT 3.1.1": mqtt.V311, "MQTT 5": mqtt.V5} {
		target := mosquitto(t, v)
		for qos, label := range []string{"QoS 0", "QoS 1", "QoS 2"} {
			for shape, flow := range map[string]scenario.Flow{
				"1 to 1": {Publishers: 1, Subscribers: 1}, "1 to 5": {Publishers: 1, Subscribers: 5},
				"5 to 1": {Publishers: 5, Subscribers: 1}, "paced": {Publishers: 2, Subscribers: 1, Rate: 2000},
			} {
				t.Run(name+", "+label+", "+shape, func(t *testing.T) {
					flow.Name, flow.QoS, flow.Window, flow.Payload = shape, byte(qos), 20, 64
					// A busy machine may give a short window no turn at all.
					var r scenario.Result
					for flow.Duration = 100 * time.Millisecond; ; flow.Duration *= 4 {
						var err error
						if r, err = flow.Run(t.Context(), target); err != nil {
							t.Fatal(err)
						}
						if r.Delivered > 0 || flow.Duration > 5*time.Second {
							break
						}
					}
					if r.Failure != "" || r.Stalled || r.Missing+r.Repeated+r.OutOfOrder+r.Refused != 0 {
						t.Errorf("run went wrong:\n%s", r.Summary())
					}
					if r.Delivered == 0 || r.Delivery.P50 <= 0 || r.Delivery.P50 > r.Delivery.Max {
						t.Errorf("nothing was measured:\n%s", r.Summary())
					}
					if qos > 0 && (r.Acked == 0 || r.Ack.P50 <= 0) {
						t.Errorf("no acknowledgment was measured:\n%s", r.Summary())
					}
				})
			}
		}
	}
}

func TestChurnCountsCycles(t *testing.T) {
	target := mosquitto(t, mqtt.V311)
	for name, persistent := range map[string]bool{"clean": false, "persistent": true} {
		t.Run(name, func(t *testing.T) {
			r, err := scenario.Churn{Name: name, Clients: 8, Persistent: persistent, Duration: 200 * time.Millisecond}.Run(t.Context(), target)
			if err != nil {
				t.Fatal(err)
			}
			if r.Failure != "" || r.Cycles < 8 {
				t.Errorf("run went wrong:\n%s", r.Summary())
			}
		})
	}
}

func TestIdleConnectionsAreWeighed(t *testing.T) {
	target := mosquitto(t, mqtt.V5)
	r, err := scenario.Idle{Name: "idle", Connections: 500, Subscribe: true}.Run(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	if r.RSSBefore <= 0 || r.RSSAfter < r.RSSBefore {
		t.Errorf("memory before %d, after %d", r.RSSBefore, r.RSSAfter)
	}
}

func TestResumeDrainsWhatWasKeptInOrder(t *testing.T) {
	versions(t, func(t *testing.T, target *scenario.Target) {
		r, err := scenario.Resume{Name: "resume", Sessions: 10, Values: 50, QoS: 1, Payload: 64}.Run(t.Context(), target)
		if err != nil {
			t.Fatal(err)
		}
		if r.Delivered != 500 || r.Missing+r.Repeated+r.OutOfOrder != 0 || r.Failure != "" {
			t.Errorf("run went wrong:\n%s", r.Summary())
		}
	})
}

func TestEveryClientOfAStormComesBack(t *testing.T) {
	versions(t, func(t *testing.T, target *scenario.Target) {
		for name, persistent := range map[string]bool{"clean": false, "persistent": true} {
			// More than mosquitto's backlog: some are not let in at first.
			r, err := scenario.Storm{Name: name, Clients: 150, Persistent: persistent}.Run(t.Context(), target)
			if err != nil {
				t.Fatal(err)
			}
			if r.Failure != "" || r.Cycles != 150 || r.Connect.P50 <= 0 || r.Connect.P50 > r.Seconds*1000 {
				t.Errorf("run went wrong:\n%s", r.Summary())
			}
		}
	})
}

// two are two mosquittos that know nothing of each other, as one broker of two addresses.
func two(t *testing.T) *scenario.Target {
	t.Helper()
	target := mosquitto(t, mqtt.V5)
	target.Others = append(target.Others, mosquitto(t, mqtt.V5).Address)
	return target
}

// A session that is not there when its client comes back is told, not counted as back.
func TestAStormSaysWhichSessionWasNotKept(t *testing.T) {
	r, err := scenario.Storm{Name: "elsewhere", Clients: 3, Persistent: true}.Run(t.Context(), two(t))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(r.Failure, "was not kept") {
		t.Errorf("sessions were looked for where they never were, and nothing was said:\n%s", r.Summary())
	}
}

var failover = scenario.Failover{Name: "failover", Devices: 3, Rate: 300, Payload: 64, Warmup: 200 * time.Millisecond, Settle: 100 * time.Millisecond}

func TestAFailoverFollowsClientsUntilTheyGoOn(t *testing.T) {
	versions(t, func(t *testing.T, target *scenario.Target) {
		before := target.PIDs()[0]
		r, err := failover.Run(t.Context(), target)
		if err != nil {
			t.Fatal(err)
		}
		if r.Failure != "" || r.Retries == 0 || target.PIDs()[0] == before {
			t.Errorf("process %d before and %d after, run:\n%s", before, target.PIDs()[0], r.Summary())
		}
		// Clients come back ten times a second at most, so no gap is shorter.
		if r.AckGap < 50 || r.DeliveryGap < 50 || r.AckGap > r.Seconds*1000 || r.DeliveryGap > r.Seconds*1000 {
			t.Errorf("gaps of %.0f and %.0f ms in %.1f s", r.AckGap, r.DeliveryGap, r.Seconds)
		}
		// mosquitto saves its database every half an hour, so the kill takes the session that
		// was away with all of its values.
		if r.Forgotten == 0 {
			t.Errorf("nothing was lost to a session that a killed mosquitto kept in memory:\n%s", r.Summary())
		}
		// Whatever the broker lost, devices sent everything until it was acknowledged.
		if r.Acked != r.Sent || r.Delivered == 0 {
			t.Errorf("%d of %d values were acknowledged, %d arrived", r.Acked, r.Sent, r.Delivered)
		}
	})
}

func TestAFailoverOfWhatDoesNotWorkBeforeIsAnError(t *testing.T) {
	if _, err := failover.Run(t.Context(), two(t)); err == nil || !strings.Contains(err.Error(), "nothing reached follower-1 before the kill") {
		t.Errorf("error %v, want one that names the subscriber", err)
	}
	target := mosquitto(t, mqtt.V5)
	target.Fail = nil
	if _, err := failover.Run(t.Context(), target); err == nil {
		t.Error("a broker that cannot be killed was failed over")
	}
}

func TestARefusedConnectIsAnError(t *testing.T) {
	target := mosquitto(t, mqtt.V311)
	target.Version = 9 // mosquitto knows no such protocol
	_, err := scenario.Flow{Name: "refused", Publishers: 1, Window: 1, Payload: 64, Duration: time.Second}.Run(t.Context(), target)
	if err == nil {
		t.Error("a flow whose CONNECT was refused ran")
	}
}
