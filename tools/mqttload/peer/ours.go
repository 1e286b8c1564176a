package peer

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
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

// Broker is the broker of this repository, one replica with its embedded historian.
func Broker() Kind {
	return Kind{
		Name:    "this broker",
		Means:   "it is in the embedded historian, whoever subscribes, and synced: neither a kill nor a power cut takes it from history. Sessions are in memory",
		Version: brokerVersion,
		Start: func(ctx context.Context, dir string) (*Running, error) {
			const id, workspace = "bench", "bench"
			// A generated secret, as devices have: made-up ones are checked by a slow hash.
			random := make([]byte, 32)
			rand.Read(random)
			secret := hex.EncodeToString(random)
			binary, err := launch.BuildBroker()
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
			start := func(ctx context.Context) error {
				ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
				defer cancel()
				return b.Start(ctx)
			}
			if err := start(ctx); err != nil {
				return nil, err
			}
			address, err := netip.ParseAddrPort(b.TCP)
			if err != nil {
				return nil, err
			}
			return &Running{
				Target: scenario.Target{
					Name: "this broker", Address: address, Username: id, Password: secret,
					PIDs:           func() []int { return []int{b.Process().PID()} },
					PublishTopic:   "mHv1.0/" + workspace + "/_ingress/" + id + "/load/{i}",
					SubscribeTopic: "mHv1.0/" + workspace + "/load/{i}",
					Fail: func(ctx context.Context) error {
						b.Kill()
						return start(ctx)
					},
				},
				output: b.Output,
				stop:   func() { _ = b.Stop(10 * time.Second) }, // as for the others
			}, nil
		},
	}
}

// brokerVersion is the commit of the working tree, since a build of it says no release.
func brokerVersion() (string, error) {
	if _, err := launch.BuildBroker(); err != nil {
		return "", err
	}
	root, err := launch.Root()
	if err != nil {
		return "", err
	}
	commit, err := git(root, "rev-parse", "--short=10", "HEAD")
	if err != nil {
		return "unknown commit", nil // the source without its history
	}
	changed, err := git(root, "status", "--porcelain", "--", "broker", "go.mod")
	if err != nil {
		return "", err
	}
	if changed != "" {
		commit += " with changes"
	}
	return commit, nil
}

func git(dir string, args ...string) (string, error) {
	out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}
