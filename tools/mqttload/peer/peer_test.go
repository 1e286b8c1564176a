package peer_test

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"maestrohub.io/uns/tools/mqttload/peer"
	"maestrohub.io/uns/tools/mqttload/scenario"
)

func start(t *testing.T, kind peer.Kind) *peer.Running {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // it may have to be built
	defer cancel()
	r, err := kind.Start(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Stop)
	return r
}

// Every broker does what the cases ask of it: both kinds of acknowledgment, idle
// connections by weight, and being killed under load.
func TestEveryPeerOfOneProcessCanBeMeasured(t *testing.T) {
	for _, kind := range []peer.Kind{peer.Broker(), peer.Mosquitto(), peer.Mochi(), peer.Nats(false), peer.Nats(true)} {
		t.Run(kind.Name, func(t *testing.T) {
			if kind.Means == "" {
				t.Error("it does not say what its acknowledgment means")
			}
			target := start(t, kind).Target
			for _, qos := range []byte{1, 2} {
				r, err := scenario.Flow{Name: "acks", Publishers: 2, QoS: qos, Window: 5, Payload: 64, Duration: 100 * time.Millisecond}.Run(t.Context(), &target)
				if err != nil || r.Failure != "" || r.Acked == 0 {
					t.Errorf("QoS %d, error %v:\n%s", qos, err, r.Summary())
				}
			}
			r, err := scenario.Idle{Name: "idle", Connections: 200}.Run(t.Context(), &target)
			if err != nil || r.RSSAfter == 0 {
				t.Errorf("idle, error %v:\n%s", err, r.Summary())
			}
			r, err = scenario.Failover{Name: "failover", Devices: 2, Rate: 100, Payload: 64, Warmup: 200 * time.Millisecond, Settle: 100 * time.Millisecond}.Run(t.Context(), &target)
			if err != nil || r.Failure != "" || r.Acked == 0 || r.AckGap == 0 {
				t.Errorf("failover, error %v:\n%s", err, r.Summary())
			}
			if filed := strings.HasPrefix(kind.Name, "nats-server"); filed && r.Forgotten > 0 {
				t.Errorf("%d values of a session that was away were forgotten, and they were in a file", r.Forgotten)
			}
		})
	}
}

// Of three servers one is killed: clients go on at the others, and it is started again.
func TestAClusterIsFailedAndMended(t *testing.T) {
	target := start(t, peer.NatsCluster(false)).Target
	before := target.PIDs()
	r, err := scenario.Failover{Name: "failover", Devices: 2, Rate: 50, Payload: 64, Warmup: 500 * time.Millisecond, Settle: 100 * time.Millisecond}.Run(t.Context(), &target)
	if err != nil || r.Failure != "" || r.Acked == 0 || r.AckGap == 0 {
		t.Errorf("failover, error %v:\n%s", err, r.Summary())
	}
	after := target.PIDs()
	if len(after) != 3 || after[0] == before[0] || after[1] != before[1] || after[2] != before[2] {
		t.Errorf("processes %v before, %v after: the first was to be killed and started again", before, after)
	}
}

func TestVersionsAreThoseOfThePrograms(t *testing.T) {
	for _, c := range []struct {
		kind peer.Kind
		want string
	}{
		{peer.Mosquitto(), `^\d+\.\d+\.\d+$`}, {peer.Mochi(), `^\d+\.\d+\.\d+$`}, {peer.NatsCluster(true), `^\d+\.\d+\.\d+$`},
		{peer.Broker(), `^([0-9a-f]{10}|unknown commit)( with changes)?$`},
		{peer.Cluster(false), `^([0-9a-f]{10}|unknown commit)( with changes)?, nats-server \d+\.\d+\.\d+, PostgreSQL \d+\.\d+$`},
	} {
		got, err := c.kind.Version()
		if err != nil || !regexp.MustCompile(c.want).MatchString(got) {
			t.Errorf("%s is version %q, want %s; error %v", c.kind.Name, got, c.want, err)
		}
	}
}
