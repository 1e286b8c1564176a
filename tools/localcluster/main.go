package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"maestrohub.io/uns/tools/interrupt"
	"maestrohub.io/uns/tools/launch"
	"maestrohub.io/uns/tools/localcluster/control"
	"maestrohub.io/uns/tools/localcluster/deployment"
)

func main() {
	first, second, stop := interrupt.Contexts(func() {
		fmt.Fprintln(os.Stderr, "\nlocalcluster: ended at once; what it kept may be left in", os.TempDir())
	})
	err := command(second).ExecuteContext(first)
	interrupted := first.Err() != nil
	stop() // which ends the contexts as well
	text, status := ending(err, interrupted)
	if text != "" {
		fmt.Fprintln(os.Stderr, "localcluster:", text)
	}
	os.Exit(status)
}

// ending is what a command ends with: its last words and its exit status. Whatever an
// interrupted one was doing failed by that; but for a check it is how it ends.
func ending(err error, wasInterrupted bool) (text string, status int) {
	switch {
	case err == nil:
		return "", 0
	case wasInterrupted && !errors.Is(err, errLost):
		return "interrupted", interrupt.Status
	}
	return err.Error(), 1
}

// command is the whole command line. hurried ends when nobody waits for a verdict any more.
func command(hurried context.Context) *cobra.Command {
	root := &cobra.Command{Use: "localcluster", Short: "A whole clustered broker on this machine, to try and to break", SilenceUsage: true, SilenceErrors: true}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return fmt.Errorf("%w; `%s --help` lists what there is", err, c.CommandPath())
	})
	path := root.PersistentFlags().String("socket", control.Socket(), "Unix socket of the running cluster")

	var o deployment.Options
	up := &cobra.Command{Use: "up", Short: "Start a cluster and keep it until interrupted", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.Replicas < 1 {
				return fmt.Errorf("--replicas %d: at least 1", o.Replicas)
			}
			return run(c.Context(), *path, o)
		}}
	up.Flags().IntVar(&o.Replicas, "replicas", 2, "broker replicas")
	up.Flags().DurationVar(&o.MemberTTL, "member-ttl", 10*time.Second, "brokerMemberTTL: fence and failover scale with it")
	up.Flags().StringVar(&o.Binary, "binary", "", "broker program (built from this repository if empty)")
	root.AddCommand(up)

	var during time.Duration
	checking := &cobra.Command{Use: "check", Short: "Publish and receive until interrupted, then say whether anything acknowledged was lost", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if during < 0 {
				return fmt.Errorf("--for %v: not less than 0", during)
			}
			return check(c.Context(), hurried, c.OutOrStdout(), *path, during)
		}}
	checking.Flags().DurationVar(&during, "for", 0, "end after this long; 0: when interrupted")
	root.AddCommand(checking)

	for _, v := range []struct {
		use, short string
		min, max   int // arguments
	}{
		{"kill <part>", "End a process with kill -9", 1, 1},
		{"pause <part>", "Stop a process where it stands (SIGSTOP)", 1, 1},
		{"resume <part>", "Let a paused process go on", 1, 1},
		{"stop <part>", "Stop a process as an operator would (SIGTERM)", 1, 1},
		{"start <part>", "Start a process that does not run", 1, 1},
		{"restart <part>", "Stop a process if it runs, and start it", 1, 1},
		{"upgrade <replica> [program]", "Stop a replica and start it as another program", 1, 2},
		{"cut <way>", "Close all connections of a way, and new ones", 1, 1},
		{"freeze <way>", "Forward nothing and leave connections open", 1, 1},
		{"slow <way> <duration>", "Hold every reply for so long", 2, 2},
		{"heal [way]", "End cut, freeze and slow; of everything, without a way", 0, 1},
		{"log <part>", "Print what a process has printed", 1, 1},
		{"place", "Print where devices connect, as JSON", 0, 0},
		{"status", "Say how every part is", 0, 0},
		{"down", "End the cluster", 0, 0},
	} {
		root.AddCommand(&cobra.Command{Use: v.use, Short: v.short, Args: arguments(v.min, v.max),
			RunE: func(c *cobra.Command, args []string) error {
				if c.Name() == "upgrade" && len(args) == 2 { // the cluster may run in another folder
					program, err := filepath.Abs(args[1])
					if err != nil {
						return fmt.Errorf("upgrade: %w", err)
					}
					args[1] = program
				}
				answer, err := control.Ask(c.Context(), *path, append([]string{c.Name()}, args...)...)
				if answer != "" {
					fmt.Fprintln(c.OutOrStdout(), answer)
				}
				return err
			}})
	}
	return root
}

// arguments wants so many, and says how the command is used otherwise.
func arguments(least, most int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return fmt.Errorf("usage: localcluster %s; `localcluster status` names the parts and the ways that are harmed", c.Use)
		}
		return nil
	}
}

// startBound is how long a cluster may take to start, a build of nats-server
// included.
const startBound = 5 * time.Minute

func run(ctx context.Context, path string, o deployment.Options) (err error) {
	commands, err := listen(path)
	if err != nil {
		return err
	}
	defer commands.Close()
	o.Clients = []launch.Client{{ID: demoClient, Secret: demoSecret, Workspace: demoWorkspace, Scopes: []string{"uns:read", "uns:write", "uns_settings:update", "api_clients:manage"}}}
	o.Model = model
	fmt.Println("starting three nats-servers, PostgreSQL and", o.Replicas, "replicas; what is not built yet is built first, which takes minutes once ...")
	starting, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	d, err := deployment.Start(starting, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	greet(os.Stdout, d, demoClient, demoSecret)
	defer fmt.Println("ending: every process is stopped, and what they kept is removed")
	return commands.serve(ctx, d)
}

// model lets topics below retained/ keep their last value.
const model = `
workspaces:
  - slug: acme
    bindings:
      - topic: retained/#
        retain: true
`
