package peer

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/netip"
	"time"

	"maestrohub.io/uns/tools/launch"
	"maestrohub.io/uns/tools/mqttload/scenario"
)

// limits are raised so that no scenario meets one; everything else is the default,
// the embedded historian with its sync before each acknowledgment included.
var limits = map[string]any{
	"embeddedBrokerLimits": map[string]any{
		"maxClients": 20000, "maxPendingConnections": 20000, "maxConnectionsPerCredential": 20000,
		"maxConnectsAuthenticating": 1000, "maxOfflineSessions": 2000, "maxSubscriberQueue": 100000,
	},
	"log": map[string]any{"level": "warn"},
}

// Broker is the broker of this repository, built when it is first started.
func Broker(build func() (string, error)) Kind {
	return Kind{Name: "this broker", Durable: true, Start: func(ctx context.Context, dir string) (*Running, error) {
		const id, workspace = "bench", "bench"
		// A generated secret, as devices have: made-up ones are checked by a slow hash.
		random := make([]byte, 32)
		rand.Read(random)
		secret := hex.EncodeToString(random)
		binary, err := build()
		if err != nil {
			return nil, err
		}
		b, err := launch.PrepareBroker(launch.BrokerOptions{
			Binary: binary, Dir: dir, Settings: limits,
			Clients: []launch.Client{{ID: id, Secret: secret, Workspace: workspace}},
		})
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		if err := b.Start(ctx); err != nil {
			return nil, err
		}
		address, err := netip.ParseAddrPort(b.TCP)
		if err != nil {
			return nil, err
		}
		return &Running{
			Target: scenario.Target{
				Name: "this broker", Address: address, Username: id, Password: secret, PID: b.Process().PID(),
				PublishTopic:   "mHv1.0/" + workspace + "/_ingress/" + id + "/load/{i}",
				SubscribeTopic: "mHv1.0/" + workspace + "/load/{i}",
			},
			stop: func() { _ = b.Stop(10 * time.Second) }, // as for the others
		}, nil
	}}
}
