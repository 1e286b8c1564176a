package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"maestrohub.io/uns/tools/launch"
	"maestrohub.io/uns/tools/mqttload/peer"
	"maestrohub.io/uns/tools/mqttload/scenario"
)

// comparison is one run of `mqttload compare` or `mqttload cluster`: the same cases with
// other brokers.
type comparison struct {
	Command  string // of make
	Rounds   int
	Duration time.Duration
	Dir      string // where the brokers keep their data: the disk that is measured
	Only     string // regular expression of case names
	Brokers  string // regular expression of broker names; empty: the usual ones
	Results  string // the result file
	Rewrite  bool

	usual  []peer.Kind // measured unless others are named; the first is what the others are set against
	others []peer.Kind // measured if named

	running map[string]*kept
	count   int // of turns
}

// kept is a broker that runs through all turns.
type kept struct {
	*peer.Running
	worked bool
	dir    string
}

// compareCommand measures one replica beside its peers.
func compareCommand() *cobra.Command {
	return comparisonCommand("compare", "Measure this broker beside mosquitto, mochi-mqtt and nats-server, in turns", comparison{Command: aloneCommand,
		usual:  []peer.Kind{peer.Broker(), peer.Mosquitto(), peer.Mochi(), peer.Nats(true), peer.NatsCluster(false)},
		others: []peer.Kind{peer.Nats(false), peer.NatsCluster(true)},
	})
}

// replicasCommand measures two replicas beside the same.
func replicasCommand() *cobra.Command {
	return comparisonCommand("cluster", "Measure two replicas beside nats-server with three copies, mosquitto and mochi-mqtt, in turns", comparison{Command: clusterCommand,
		usual:  []peer.Kind{peer.Cluster(false), peer.Mosquitto(), peer.Mochi(), peer.NatsCluster(false)},
		others: []peer.Kind{peer.Cluster(true), peer.NatsCluster(true)},
	})
}

func comparisonCommand(use, short string, c comparison) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) }}
	cmd.Flags().IntVar(&c.Rounds, "rounds", 3, "turns of each broker in each case, of what takes long one or two at most; the median counts")
	cmd.Flags().DurationVar(&c.Duration, "duration", 3*time.Second, "time measured in each turn, where the case does not say itself when it is over")
	cmd.Flags().StringVar(&c.Dir, "dir", "", "folder for the brokers' data (default: .cache/bench of the repository)")
	cmd.Flags().StringVar(&c.Only, "only", "", "regular expression: run the cases whose name it matches")
	cmd.Flags().StringVar(&c.Brokers, "brokers", "", "regular expression: measure the brokers whose name it matches, of "+names(c.all()))
	cmd.Flags().StringVar(&c.Results, "results", "", "result file (default: "+c.Command+".json beside the brokers' data); the picture goes beside it")
	cmd.Flags().BoolVar(&c.Rewrite, "rewrite", false, "keep the result file in "+figuresDir+" and put table and picture into "+readme)
	return cmd
}

func (c *comparison) all() []peer.Kind { return slices.Concat(c.usual, c.others) }

func names(kinds []peer.Kind) string {
	var all []string
	for _, k := range kinds {
		all = append(all, fmt.Sprintf("%q", k.Name))
	}
	return strings.Join(all, ", ")
}

// chosen are the brokers and cases to measure.
func (c *comparison) chosen() ([]peer.Kind, []benchCase, error) {
	if c.Rounds < 1 {
		return nil, nil, fmt.Errorf("rounds (%d) must be at least 1", c.Rounds)
	}
	if c.Duration <= 0 {
		return nil, nil, fmt.Errorf("duration (%s) must be positive", c.Duration)
	}
	if c.Rewrite && (c.Only != "" || c.Brokers != "") {
		return nil, nil, errors.New("rewrite shows a whole run: it goes with neither only nor brokers")
	}
	only, err := regexp.Compile(c.Only)
	if err != nil {
		return nil, nil, fmt.Errorf("only (%s) must be a regular expression: %w", c.Only, err)
	}
	which, err := regexp.Compile(c.Brokers)
	if err != nil {
		return nil, nil, fmt.Errorf("brokers (%s) must be a regular expression: %w", c.Brokers, err)
	}
	kinds := c.usual
	if c.Brokers != "" {
		kinds = slices.DeleteFunc(c.all(), func(k peer.Kind) bool { return !which.MatchString(k.Name) })
	}
	if len(kinds) == 0 {
		return nil, nil, fmt.Errorf("brokers (%s) matches none of %s", c.Brokers, names(c.all()))
	}
	chosen := slices.DeleteFunc(cases(c.Duration), func(b benchCase) bool { return !only.MatchString(b.name) })
	if len(chosen) == 0 {
		return nil, nil, fmt.Errorf("only (%s) matches no case", c.Only)
	}
	return kinds, chosen, nil
}

func (c *comparison) run(ctx context.Context) error {
	kinds, chosen, err := c.chosen()
	if err != nil {
		return err
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
	if c.Results == "" {
		c.Results = filepath.Join(c.Dir, c.Command+".json")
	}
	r := &run{Command: c.Command, Measured: time.Now().UTC().Truncate(time.Second), Rounds: c.Rounds, Duration: c.Duration.String()}
	for _, k := range kinds {
		// Builds what is to be built, so that nothing compiles during a turn.
		version, err := k.Version()
		if err != nil {
			return err
		}
		r.Brokers = append(r.Brokers, broker{k.Name, version, k.Means})
	}
	r.Machine = inspect()
	c.running = map[string]*kept{}
	defer func() {
		for name := range c.running {
			c.stop(name)
		}
	}()
	for _, bench := range chosen {
		if err := c.measure(ctx, r, bench, kinds); err != nil {
			return err
		}
		r.Machine.steal()
		// After every case, so that a run that is interrupted was not for nothing.
		if err := r.save(c.Results); err != nil {
			return err
		}
	}
	return r.show(strings.TrimSuffix(c.Results, ".json"), c.Rewrite)
}

// measure runs one case with every broker, in turns.
func (c *comparison) measure(ctx context.Context, r *run, bench benchCase, kinds []peer.Kind) error {
	rounds := c.Rounds
	if bench.turns > 0 {
		rounds = min(rounds, bench.turns)
	}
	for round := range rounds {
		// The floor is taken between the turns it is compared with.
		f, err := measureFloor(c.Dir)
		if err != nil {
			return err
		}
		r.addFloor(f)
		for i := range kinds {
			kind := kinds[(i+round)%len(kinds)] // who is first is nobody's for good
			began := time.Now()
			result, err := c.turn(ctx, bench, kind)
			if err != nil && kind.Kept && ctx.Err() == nil {
				// One that broke in an earlier turn is not this case's fault.
				fmt.Fprintf(os.Stderr, "%s, %s, once more: %v\n", bench.name, kind.Name, err)
				result, err = c.turn(ctx, bench, kind)
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				// The other brokers' turns still tell something.
				result = scenario.Result{Failure: err.Error()}
			}
			result.Scenario, result.Target = bench.name, kind.Name
			fmt.Fprintf(os.Stderr, "round %d, %.1f s in all: %s", round+1, time.Since(began).Seconds(), result.Summary())
			r.Turns = append(r.Turns, turn{bench.name, kind.Name, result})
		}
	}
	return nil
}

// turn runs a case against a broker over an empty folder, or against one that is kept.
func (c *comparison) turn(ctx context.Context, bench benchCase, kind peer.Kind) (scenario.Result, error) {
	if k := c.running[kind.Name]; k != nil && k.worked && bench.fresh {
		c.stop(kind.Name)
	}
	if c.running[kind.Name] == nil {
		if err := c.start(ctx, kind); err != nil {
			return scenario.Result{}, err
		}
	}
	running := c.running[kind.Name]
	running.worked = true
	// Topics and client ids of its own: what earlier turns left is not matched.
	c.count++
	target := running.Target
	target.Prefix = fmt.Sprintf("turn%d-", c.count)
	target.PublishTopic = inTurn(target.PublishTopic, c.count)
	target.SubscribeTopic = inTurn(target.SubscribeTopic, c.count)
	result, err := written(running.Running, func() (scenario.Result, error) { return bench.scenario.Run(ctx, &target) })
	if err != nil || result.Failure != "" {
		fmt.Fprint(os.Stderr, running.Output())
	}
	if !kind.Kept || err != nil {
		c.stop(kind.Name)
	}
	return result, err
}

func (c *comparison) start(ctx context.Context, kind peer.Kind) error {
	dir, err := os.MkdirTemp(c.Dir, "turn-")
	if err != nil {
		return fmt.Errorf("make folder for %s: %w", kind.Name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	running, err := kind.Start(ctx, dir)
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	c.running[kind.Name] = &kept{Running: running, dir: dir}
	return nil
}

const startBound = 2 * time.Minute

func (c *comparison) stop(name string) {
	k := c.running[name]
	delete(c.running, name)
	k.Stop()
	_ = os.RemoveAll(k.dir) // in a folder that is thrown away
}

// inTurn puts a level for the turn before a topic's number.
func inTurn(topic string, turn int) string {
	const number = "{i}"
	return topic[:len(topic)-len(number)] + fmt.Sprintf("%d/", turn) + number
}

// written adds to a result what was written to each stream meanwhile, where there are
// streams.
func written(running *peer.Running, run func() (scenario.Result, error)) (scenario.Result, error) {
	before, err := running.Streams()
	if err != nil {
		return scenario.Result{}, err
	}
	result, err := run()
	if err != nil {
		return result, err
	}
	after, err := running.Streams()
	for name, n := range after {
		if n > before[name] {
			if result.Writes == nil {
				result.Writes = map[string]uint64{}
			}
			result.Writes[name] = n - before[name]
		}
	}
	return result, err
}
