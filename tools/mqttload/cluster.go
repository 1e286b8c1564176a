package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/spf13/cobra"

	"maestrohub.io/uns/tools/launch"
	"maestrohub.io/uns/tools/mqttload/peer"
	"maestrohub.io/uns/tools/mqttload/scenario"
)

// clusterCommand measures the clustered broker beside nats-server's own MQTT, with
// three copies each. Both run all the time, so that a turn costs no start: the one
// that has no turn takes a few hundredths of a core.
func clusterCommand() *cobra.Command {
	var c comparison
	var syncs string
	cmd := &cobra.Command{
		Use: "cluster", Short: "Measure two replicas and nats-server's MQTT, three copies each, in turns", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			which, err := regexp.Compile(syncs)
			if err != nil {
				return fmt.Errorf("sync (%s) must be a regular expression: %w", syncs, err)
			}
			for _, synced := range []bool{false, true} {
				name := map[bool]string{false: "default", true: "always"}[synced]
				if !which.MatchString(name) {
					continue
				}
				fmt.Printf("NATS with sync_interval: %s.\n\n", name)
				if err := c.runCluster(cmd.Context(), synced); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().IntVar(&c.Rounds, "rounds", 3, "turns of each in each case; the median counts")
	cmd.Flags().DurationVar(&c.Duration, "duration", 4*time.Second, "time measured in each turn")
	cmd.Flags().StringVar(&c.Dir, "dir", "", "folder for nats-server's data (default: .cache/bench of the repository)")
	cmd.Flags().StringVar(&c.Only, "only", "", "regular expression: run the cases whose name it matches")
	cmd.Flags().StringVar(&c.Brokers, "brokers", "", "regular expression: measure the brokers whose name it matches")
	cmd.Flags().StringVar(&syncs, "sync", "", "regular expression: of default and always, the sync_interval of the NATS servers to measure with")
	cmd.Flags().StringVar(&c.Results, "results", "", "file to append every turn's result to, a JSON object a line")
	return cmd
}

// clusterCases are the rows, each measured for d.
func clusterCases(d time.Duration) []benchCase {
	flow := func(name string, f scenario.Flow, m ...measure) benchCase {
		f.Name, f.Payload, f.Warmup, f.Duration = name, 256, time.Second, d
		return benchCase{name, f, m}
	}
	return []benchCase{
		flow("1 to 1, QoS 1, persistent session elsewhere, 100 in flight", scenario.Flow{Publishers: 1, Subscribers: 1, QoS: 1, Persistent: true, Window: 100}, deliveriesPerSecond, cpuPerValue),
		flow("10 to 1, QoS 1, persistent session elsewhere, 100 in flight each", scenario.Flow{Publishers: 10, Subscribers: 1, QoS: 1, Persistent: true, Window: 100}, deliveriesPerSecond, cpuPerValue),
		flow("1 to 1, QoS 2, persistent session elsewhere, 20 in flight", scenario.Flow{Publishers: 1, Subscribers: 1, QoS: 2, Persistent: true, Window: 20}, deliveriesPerSecond, cpuPerValue),
		flow("acks, QoS 1, 10 publishers × 100 in flight", scenario.Flow{Publishers: 10, QoS: 1, Window: 100}, acksPerSecond, cpuPerValue),
		flow("live, QoS 1, one subscriber beside the publisher and one elsewhere, paced at 200/s",
			scenario.Flow{Publishers: 1, Subscribers: 2, QoS: 1, Beside: true, Window: 1000, Rate: 200}, deliveryP50, hop, ackOfPaced),
		{"connect, disconnect, clean", scenario.Churn{Clients: 64, Bare: true, Warmup: time.Second, Duration: d}, []measure{cyclesPerSecond, cpuPerCycle}},
		{"connect, subscribe, disconnect, clean", scenario.Churn{Clients: 64, Warmup: time.Second, Duration: d}, []measure{cyclesPerSecond, cpuPerCycle}},
		{"connect, subscribe, disconnect, persistent", scenario.Churn{Clients: 64, Persistent: true, Warmup: time.Second, Duration: d}, []measure{cyclesPerSecond, cpuPerCycle}},
		{"resume elsewhere, 1 session × 100,000 values", scenario.Resume{Sessions: 1, Values: 100_000, QoS: 1, Payload: 256, Window: 1000}, []measure{drainRate, cpuPerValue}},
		{"resume elsewhere, 100 sessions × 1,000 values", scenario.Resume{Sessions: 100, Values: 1000, QoS: 1, Payload: 256}, []measure{drainRate, cpuPerValue}},
	}
}

// runCluster measures every case and prints the table.
func (c *comparison) runCluster(ctx context.Context, synced bool) (err error) {
	only, err := regexp.Compile(c.Only)
	if err != nil {
		return fmt.Errorf("only (%s) must be a regular expression: %w", c.Only, err)
	}
	which, err := regexp.Compile(c.Brokers)
	if err != nil {
		return fmt.Errorf("brokers (%s) must be a regular expression: %w", c.Brokers, err)
	}
	if _, err := scenario.RaiseFileLimit(); err != nil {
		return err
	}
	if c.Dir == "" {
		root, err := launch.Root()
		if err != nil {
			return err
		}
		c.Dir = filepath.Join(root, ".cache", "bench")
	}
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return fmt.Errorf("make folder for the brokers' data: %w", err)
	}
	var kinds []peer.Kind
	var running []*peer.Running
	defer func() {
		for _, r := range running {
			r.Stop()
		}
	}()
	starting, cancel := context.WithTimeout(ctx, clusterStartBound)
	defer cancel()
	for _, k := range []peer.Kind{peer.Cluster(synced), peer.NatsCluster(synced)} {
		if !which.MatchString(k.Name) {
			continue
		}
		dir, err := os.MkdirTemp(c.Dir, "cluster-")
		if err != nil {
			return fmt.Errorf("make folder for %s: %w", k.Name, err)
		}
		defer os.RemoveAll(dir)
		r, err := k.Start(starting, dir)
		if err != nil {
			return err
		}
		kinds, running = append(kinds, k), append(running, r)
	}
	if len(kinds) == 0 {
		return errors.New("brokers (" + c.Brokers + ") matches neither \"this broker\" nor \"nats-server\"")
	}
	select {
	case <-time.After(clusterSettle):
	case <-ctx.Done():
		return ctx.Err()
	}
	table := newTable(kinds)
	turn := 0
	for _, bench := range clusterCases(c.Duration) {
		if !only.MatchString(bench.name) {
			continue
		}
		for round := range c.Rounds {
			f, err := measureFloor(c.Dir)
			if err != nil {
				return err
			}
			table.addFloor(f)
			for i, kind := range kinds {
				var r scenario.Result
				// A busy machine lets a client or a stream time out: such a turn says nothing.
				for range clusterTries {
					turn++
					if r, err = c.clusterTurn(ctx, bench, running[i], turn); ctx.Err() != nil {
						return ctx.Err()
					}
					if err == nil {
						break
					}
					fmt.Fprintf(os.Stderr, "round %d: %s: %v\n", round+1, kind.Name, err)
				}
				if err != nil {
					r = scenario.Result{Target: kind.Name, Failure: err.Error()}
				}
				r.Scenario = bench.name
				fmt.Fprintf(os.Stderr, "round %d: %s", round+1, r.Summary())
				if r.Failure != "" {
					fmt.Fprint(os.Stderr, running[i].Output())
				}
				table.add(bench, kind, r)
				if err := c.keep(r); err != nil {
					return err
				}
			}
		}
	}
	fmt.Println(table.markdown())
	return nil
}

const (
	clusterStartBound = 5 * time.Minute
	clusterTries      = 3
	// clusterSettle is over a replica's first seconds, in which it holds values that
	// nobody seems to want until its view is proven.
	clusterSettle = 6 * time.Second
)

// clusterTurn runs a case against a cluster that runs.
func (c *comparison) clusterTurn(ctx context.Context, bench benchCase, running *peer.Running, turn int) (scenario.Result, error) {
	// Topics and client ids of its own: what earlier turns left is not matched.
	target := running.Target
	target.Prefix = fmt.Sprintf("turn%d-", turn)
	target.PublishTopic = inTurn(target.PublishTopic, turn)
	target.SubscribeTopic = inTurn(target.SubscribeTopic, turn)
	before, err := running.Streams()
	if err != nil {
		return scenario.Result{}, err
	}
	r, err := bench.scenario.Run(ctx, &target)
	if err != nil {
		return r, err
	}
	after, err := running.Streams()
	r.Writes = written(before, after)
	return r, err
}

// inTurn puts a level for the turn before a topic's number.
func inTurn(topic string, turn int) string {
	const number = "{i}"
	return topic[:len(topic)-len(number)] + fmt.Sprintf("%d/", turn) + number
}

// written is what was written to each stream between two readings.
func written(before, after map[string]uint64) map[string]uint64 {
	delta := map[string]uint64{}
	for name, n := range after {
		if n > before[name] {
			delta[name] = n - before[name]
		}
	}
	return delta
}
