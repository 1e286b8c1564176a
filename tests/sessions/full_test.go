package sessions

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"maestrohub.io/uns/broker/config"
	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/harness"
	"maestrohub.io/uns/tests/mqtttest"
	"maestrohub.io/uns/tests/site"
	"maestrohub.io/uns/tools/localcluster/natsserver"
)

// NATS servers that have no room left take no heartbeat, so every replica steps aside;
// once there is room they serve again by themselves, and a session gets everything that
// was acknowledged before.
func TestNATSHasNoRoomForAWhile(t *testing.T) {
	s := site.StartWith(t, natsserver.Options{MaxFile: "48M"})
	small := func(c *config.Config) { c.SessionLogMaxBytes = 8 << 20 }
	a, b := s.Replica(t, "a", small), s.Replica(t, "b", small)
	const before = 20
	sub := connect(t, b, "dev-b", lasting)
	sub.Subscribe("full/#", 1)
	sub.Drop()
	pub := connect(t, a, "dev-a")
	for n := range before {
		pub.Publish("full/x", 1, fmt.Sprint(n))
	}

	nc, err := nats.Connect(strings.Join(s.URLs("BROKER"), ","))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := nc.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.AddStream(&nats.StreamConfig{Name: "others", Subjects: []string{"others"}, Replicas: 3}); err != nil {
		t.Fatal(err)
	}
	// Large ones while there is room for them, then what is left.
	for size := 512 << 10; size >= 64; size /= 2 {
		for err = nil; err == nil; {
			_, err = js.Publish("others", make([]byte, size))
		}
	}
	for _, r := range []*mqtttest.Broker{a, b} {
		harness.Eventually(t, r.Config.ReplicaID+" to step aside", func() (bool, string) {
			status, reason := readiness(t, r)
			return status == http.StatusServiceUnavailable && strings.Contains(reason, "broker-cluster-store:"), reason
		})
	}
	harness.Eventually(t, "room to be made", func() (bool, string) {
		err := js.DeleteStream("others")
		return err == nil || strings.Contains(err.Error(), "not found"), fmt.Sprint(err)
	})
	for _, r := range []*mqtttest.Broker{a, b} {
		harness.Eventually(t, r.Config.ReplicaID+" to serve", func() (bool, string) {
			status, reason := readiness(t, r)
			return status == http.StatusOK, reason
		})
	}
	pub = pub.Again()
	pub.Publish("full/x", 1, fmt.Sprint(before))
	sub = move(t, sub, a)
	if !sub.Connack.SessionPresent {
		t.Fatal("the session is gone")
	}
	for n := range before + 1 {
		p := mqtttest.Expect[mqtt.Publish](sub)
		sub.Ack(p)
		if string(p.Payload) != fmt.Sprint(n) {
			t.Fatalf("received %q, want %d", p.Payload, n)
		}
	}
}

// readiness is what a replica says of itself.
func readiness(t *testing.T, b *mqtttest.Broker) (status int, reason string) {
	t.Helper()
	r, err := http.Get("http://" + b.Address("http") + "/health/ready")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(body)
}
