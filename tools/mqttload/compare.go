package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"maestrohub.io/uns/tools/launch"
	"maestrohub.io/uns/tools/mqttload/peer"
	"maestrohub.io/uns/tools/mqttload/scenario"
)

// comparison is one run of `mqttload compare`.
type comparison struct {
	Rounds   int
	Duration time.Duration
	Dir      string // where the brokers keep their data: the disk that is measured
	Only     string // regular expression of case names
	Brokers  string // regular expression of broker names
	Results  string // file for every single result, as JSON lines
}

func compareCommand() *cobra.Command {
	var c comparison
	cmd := &cobra.Command{
		Use: "compare", Short: "Measure this broker, mosquitto and nats-server in turns", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	cmd.Flags().IntVar(&c.Rounds, "rounds", 3, "turns of each broker in each case; the median counts")
	cmd.Flags().DurationVar(&c.Duration, "duration", 4*time.Second, "time measured in each turn")
	cmd.Flags().StringVar(&c.Dir, "dir", "", "folder for the brokers' data (default: .cache/bench of the repository)")
	cmd.Flags().StringVar(&c.Only, "only", "", "regular expression: run the cases whose name it matches")
	cmd.Flags().StringVar(&c.Brokers, "brokers", "", "regular expression: measure the brokers whose name it matches")
	cmd.Flags().StringVar(&c.Results, "results", "", "file to append every turn's result to, a JSON object a line")
	return cmd
}

func (c *comparison) run(ctx context.Context) error {
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
	kinds, err := brokers(which)
	if err != nil {
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
	table := newTable(kinds)
	for _, bench := range cases(c.Duration) {
		if !only.MatchString(bench.name) {
			continue
		}
		for round := range c.Rounds {
			// The floor is taken between the turns it is compared with.
			f, err := measureFloor(c.Dir)
			if err != nil {
				return err
			}
			table.addFloor(f)
			for _, kind := range kinds {
				r, err := c.turn(ctx, bench, kind)
				if ctx.Err() != nil {
					return ctx.Err()
				}
				if err != nil {
					// The other brokers' turns still tell something.
					r = scenario.Result{Scenario: bench.name, Target: kind.Name, Failure: err.Error()}
				}
				fmt.Fprintf(os.Stderr, "round %d: %s", round+1, r.Summary())
				table.add(bench, kind, r)
				if err := c.keep(r); err != nil {
					return err
				}
			}
		}
	}
	fmt.Print(table.markdown())
	return nil
}

// turn starts a broker over an empty folder, runs one case and ends the broker.
func (c *comparison) turn(ctx context.Context, bench benchCase, kind peer.Kind) (scenario.Result, error) {
	dir, err := os.MkdirTemp(c.Dir, "turn-")
	if err != nil {
		return scenario.Result{}, fmt.Errorf("make folder for %s: %w", kind.Name, err)
	}
	defer os.RemoveAll(dir)
	running, err := kind.Start(ctx, dir)
	if err != nil {
		return scenario.Result{}, err
	}
	defer running.Stop()
	target := running.Target
	r, err := bench.scenario.Run(ctx, &target)
	r.Scenario = bench.name
	return r, err
}

func (c *comparison) keep(r scenario.Result) error {
	if c.Results == "" {
		return nil
	}
	f, err := os.OpenFile(c.Results, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("keep result: %w", err)
	}
	defer f.Close()
	if err := json.NewEncoder(f).Encode(r); err != nil {
		return fmt.Errorf("keep result: %w", err)
	}
	return nil
}

// brokers returns the brokers whose name matches. The first is the one the others
// are set against.
func brokers(which *regexp.Regexp) ([]peer.Kind, error) {
	nats := func() (string, error) {
		return launch.Build("tools/peers", "github.com/nats-io/nats-server/v2", "nats-server")
	}
	all := []peer.Kind{
		peer.Broker(func() (string, error) { return launch.BuildBroker() }),
		peer.Mosquitto(), peer.Nats(nats, false), peer.Nats(nats, true),
	}
	kinds := slices.DeleteFunc(all, func(k peer.Kind) bool { return !which.MatchString(k.Name) })
	if len(kinds) == 0 {
		return nil, fmt.Errorf("brokers (%s) matches none of %q, %q, %q and %q", which, all[0].Name, all[1].Name, all[2].Name, all[3].Name)
	}
	return kinds, nil
}
