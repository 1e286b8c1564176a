package scenario_test

import (
	"context"
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
					flow.Duration = 100 * time.Millisecond
					r, err := flow.Run(t.Context(), target)
					if err != nil {
						t.Fatal(err)
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
	for name, v := range map[string]mqtt.Version{"MQTT 3.1.1": mqtt.V311, "MQTT 5": mqtt.V5} {
		t.Run(name, func(t *testing.T) {
			r, err := scenario.Resume{Name: "resume", Sessions: 10, Values: 50, QoS: 1, Payload: 64}.Run(t.Context(), mosquitto(t, v))
			if err != nil {
				t.Fatal(err)
			}
			if r.Delivered != 500 || r.Missing+r.Repeated+r.OutOfOrder != 0 || r.Failure != "" {
				t.Errorf("run went wrong:\n%s", r.Summary())
			}
		})
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
