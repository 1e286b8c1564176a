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
	name := clusterName("this broker", synced)
	return Kind{Name: name, Durable: synced, Start: func(ctx context.Context, _ string) (*Running, error) {
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
		target := scenario.Target{Name: name, Username: id, Password: secret, PIDs: d.PIDs,
			PublishTopic:   "mHv1.0/" + workspace + "/_ingress/" + id + "/load/{i}",
			SubscribeTopic: "mHv1.0/" + workspace + "/load/{i}",
		}
		var addresses []string
		for _, r := range d.Replicas {
			addresses = append(addresses, r.TCP)
		}
		if err := spread(&target, addresses); err != nil {
			_ = d.Close()
			return nil, err
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

// NatsCluster is three nats-servers with three copies of every MQTT stream.
func NatsCluster(synced bool) Kind {
	name := clusterName("nats-server", synced)
	return Kind{Name: name, Durable: synced, Start: func(ctx context.Context, dir string) (*Running, error) {
		const account = "BENCH"
		c, err := natsserver.Start(natsserver.Options{Dir: filepath.Join(dir, "peer"), Accounts: []string{account}, SyncAlways: synced, MQTT: true})
		if err != nil {
			return nil, err
		}
		if err := c.Ready(ctx); err != nil {
			c.Close()
			return nil, err
		}
		target := scenario.Target{Name: name, Username: account, Password: account, PublishTopic: "load/{i}", SubscribeTopic: "load/{i}",
			PIDs: func() (pids []int) {
				for _, s := range c.Servers {
					pids = append(pids, s.PID())
				}
				return pids
			}}
		var addresses []string
		for _, s := range c.Servers {
			addresses = append(addresses, s.MQTT)
		}
		if err := spread(&target, addresses); err != nil {
			c.Close()
			return nil, err
		}
		return &Running{Target: target, streams: func() (map[string]uint64, error) { return streams(strings.Join(c.URLs(account), ",")) }, stop: c.Close}, nil
	}}
}

func clusterName(of string, synced bool) string {
	if synced {
		return of + ", NATS synced"
	}
	return of
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
