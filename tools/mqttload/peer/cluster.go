package peer

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"maestrohub.io/uns/tools/launch"
	"maestrohub.io/uns/tools/localcluster/deployment"
	"maestrohub.io/uns/tools/localcluster/natsserver"
	"maestrohub.io/uns/tools/mqttload/scenario"
)

// Cluster is two replicas of the broker of this repository with three NATS servers,
// three copies of everything, and PostgreSQL, whose commits are synced. synced makes
// the NATS servers sync as well.
func Cluster(synced bool) Kind {
	name := "two replicas"
	means := "it is committed in PostgreSQL, synced, and then, if a persistent session wants it, in its log at two of three NATS servers, unsynced for up to 2 minutes"
	if synced {
		name += ", NATS synced"
		means = "it is committed in PostgreSQL, and then, if a persistent session wants it, in its log at two of three NATS servers, all of it synced"
	}
	return Kind{Name: name, Means: means, Kept: true, Version: clusterVersion, Start: func(ctx context.Context, _ string) (*Running, error) {
		const id, workspace = "bench", "bench"
		random := make([]byte, 32)
		rand.Read(random)
		secret := hex.EncodeToString(random)
		d, err := deployment.Start(ctx, deployment.Options{
			Replicas: 2, Direct: true, SyncAlways: synced, Settings: limits,
			Clients: []launch.Client{{ID: id, Secret: secret, Workspace: workspace}},
		})
		if err != nil {
			return nil, err
		}
		first := d.Replicas[0]
		target := scenario.Target{Name: name, Username: id, Password: secret, PIDs: d.PIDs,
			PublishTopic:   "mHv1.0/" + workspace + "/_ingress/" + id + "/load/{i}",
			SubscribeTopic: "mHv1.0/" + workspace + "/load/{i}",
			Fail: func(context.Context) error {
				first.Kill()
				return nil
			},
			Mend: func(ctx context.Context) error {
				ctx, cancel := context.WithTimeout(ctx, time.Minute)
				defer cancel()
				return d.StartReplicas(ctx)
			},
		}
		var addresses []string
		for _, r := range d.Replicas {
			addresses = append(addresses, r.TCP)
		}
		if err := spread(&target, addresses); err != nil {
			_ = d.Close()
			return nil, err
		}
		// In a replica's first seconds it holds values that nobody seems to want until its
		// view is proven.
		select {
		case <-time.After(settle):
		case <-ctx.Done():
			_ = d.Close()
			return nil, ctx.Err()
		}
		return &Running{Target: target, streams: func() (map[string]uint64, error) { return streams(d.NATSURL()) },
			output: func() (all string) {
				for _, r := range d.Replicas {
					all += r.ID + ":\n" + r.Output()
				}
				return all
			},
			stop: func() { _ = d.Close() }}, nil // thrown away: how it ended does not matter
	}}
}

const settle = 6 * time.Second

// clusterVersion names all programs of the deployment.
func clusterVersion() (string, error) {
	ours, err := brokerVersion()
	if err != nil {
		return "", err
	}
	nats, err := moduleVersion(natsserver.Build)
	if err != nil {
		return "", err
	}
	postgres, err := postgresVersion()
	if err != nil {
		return "", err
	}
	return ours + ", nats-server " + nats + ", PostgreSQL " + postgres, nil
}

func postgresVersion() (string, error) {
	programs, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil || len(programs) == 0 {
		return "", fmt.Errorf("version of PostgreSQL: no server below /usr/lib/postgresql; make setup installs it")
	}
	line, err := printed(programs[len(programs)-1], "--version") // "postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)"
	if err != nil {
		return "", err
	}
	version, _, _ := strings.Cut(strings.TrimPrefix(line, "postgres (PostgreSQL) "), " ")
	return version, nil
}

// spread gives a target the addresses of a cluster: publishers use the first.
func spread(t *scenario.Target, addresses []string) error {
	for i, a := range addresses {
		address, err := netip.ParseAddrPort(a)
		if err != nil {
			return fmt.Errorf("address of %s: %w", t.Name, err)
		}
		if i == 0 {
			t.Address = address
		} else {
			t.Others = append(t.Others, address)
		}
	}
	return nil
}

// streams is the last sequence of each stream of an account.
func streams(url string) (map[string]uint64, error) {
	nc, err := nats.Connect(url)
	if err != nil {
		return nil, fmt.Errorf("count the writes to NATS: %w", err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("count the writes to NATS: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	last := map[string]uint64{}
	list := js.ListStreams(ctx)
	for info := range list.Info() {
		last[info.Config.Name] = info.State.LastSeq
	}
	if err := list.Err(); err != nil {
		return nil, fmt.Errorf("count the writes to NATS: %w", err)
	}
	return last, nil
}
