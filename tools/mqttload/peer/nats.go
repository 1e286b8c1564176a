package peer

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"maestrohub.io/uns/tools/localcluster/natsserver"
	"maestrohub.io/uns/tools/mqttload/scenario"
)

// The names of nats-server's kinds; what is behind the comma differs from how it comes.
const (
	natsName   = "nats-server"
	natsSynced = ", synced"
)

// Nats is nats-server's MQTT, one server. synced makes it sync before it acknowledges
// (sync_interval always), which is what our broker always does.
func Nats(synced bool) Kind {
	name, interval := natsName, ""
	means := "it is in the stream's file, if a session wants it, unsynced for up to 2 minutes: a kill takes nothing, a power cut may"
	if synced {
		name, interval = natsName+natsSynced, "sync_interval: always"
		means = "it is in the stream's file, if a session wants it, and synced"
	}
	return Kind{Name: name, Means: means, Version: func() (string, error) { return moduleVersion(natsserver.Build) },
		Start: func(ctx context.Context, dir string) (*Running, error) {
			binary, err := natsserver.Build()
			if err != nil {
				return nil, err
			}
			port, err := reserve()
			if err != nil {
				return nil, err
			}
			return startSingle(ctx, name, binary, dir, port, fmt.Sprintf(`server_name: bench
listen: "127.0.0.1:-1"
jetstream { store_dir: %q, %s }
mqtt { listen: "127.0.0.1:%d", max_ack_pending: 16000 }
`, dir, interval, port), "-c")
		}}
}

// NatsCluster is three nats-servers with three copies of every MQTT stream.
func NatsCluster(synced bool) Kind {
	name := natsName + " ×3"
	means := "two of three servers have it in the stream's file, if a session wants it, unsynced for up to 2 minutes: a kill takes nothing, a power cut of two may"
	if synced {
		name += natsSynced
		means = "two of three servers have it in the stream's file, if a session wants it, and synced"
	}
	return Kind{Name: name, Means: means, Kept: true, Version: func() (string, error) { return moduleVersion(natsserver.Build) },
		Start: func(ctx context.Context, dir string) (*Running, error) {
			const account = "BENCH"
			c, err := natsserver.Start(natsserver.Options{Dir: filepath.Join(dir, "peer"), Accounts: []string{account}, SyncAlways: synced, MQTT: true})
			if err != nil {
				return nil, err
			}
			if err := c.Ready(ctx); err != nil {
				c.Close()
				return nil, err
			}
			first := c.Servers[0]
			target := scenario.Target{Name: name, Username: account, Password: account, PublishTopic: "load/{i}", SubscribeTopic: "load/{i}",
				PIDs: func() (pids []int) {
					for _, s := range c.Servers {
						pids = append(pids, s.PID())
					}
					return pids
				},
				Fail: func(context.Context) error {
					first.Kill()
					return nil
				},
				Mend: func(ctx context.Context) error {
					if first.Alive() {
						return errors.New("mend " + first.Name + ": it runs")
					}
					if err := first.Start(); err != nil {
						return err
					}
					ctx, cancel := context.WithTimeout(ctx, time.Minute)
					defer cancel()
					return first.Ready(ctx)
				},
			}
			var addresses []string
			for _, s := range c.Servers {
				addresses = append(addresses, s.MQTT)
			}
			if err := spread(&target, addresses); err != nil {
				c.Close()
				return nil, err
			}
			if err := welcome(ctx, target); err != nil {
				c.Close()
				return nil, err
			}
			return &Running{Target: target, streams: func() (map[string]uint64, error) { return streams(strings.Join(c.URLs(account), ",")) },
				output: func() (all string) {
					for _, s := range c.Servers {
						all += s.Name + ":\n" + s.Output()
					}
					return all
				},
				stop: c.Close}, nil
		}}
}

// welcome waits until a value passes from one server to another: before the streams of
// MQTT have leaders, clients are turned away.
func welcome(ctx context.Context, target scenario.Target) error {
	target.Prefix = "welcome-"
	value := scenario.Flow{Name: "welcome", Publishers: 1, Subscribers: 1, QoS: 1, Persistent: true, Window: 1, Payload: scenario.MinPayload, Duration: 20 * time.Millisecond}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		r, err := value.Run(ctx, &target)
		if err == nil && r.Failure == "" && r.Missing == 0 && r.Acked > 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("start %s: it lets no value through: %w\n%s", target.Name, errors.Join(ctx.Err(), err), r.Summary())
		}
	}
}
