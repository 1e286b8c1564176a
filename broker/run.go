package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"maestrohub.io/uns/broker/config"
	"maestrohub.io/uns/broker/replica"
)

func runCommand(out, log io.Writer) *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:   "run",
		Short: "Run a broker until SIGTERM",
		Long:  "Run a broker until SIGTERM. Without --config it is one for trying out: data in ./data, an example model, an API client made for you.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return run(cmd.Context(), file, out, log)
		},
	}
	c.Flags().StringVar(&file, "config", "", "configuration file (`broker config reference` lists its settings)")
	return c
}

// run runs a replica until ctx is done. Lines for people to paste go to out, and
// only for the trial start; the log goes to log.
func run(ctx context.Context, file string, out, log io.Writer) error {
	c := trial()
	if file != "" {
		var err error
		if c, err = config.Load(file); err != nil {
			return err
		}
	} else if err := prepareTrial(c); err != nil {
		return err
	}
	r, err := replica.New(c, replica.NewLogger(log, c.Log), release())
	if err != nil {
		return err
	}
	if file == "" {
		go func() {
			select {
			case <-r.Started():
			case <-ctx.Done():
				return
			}
			if err := welcome(ctx, out, c, r); err != nil {
				fmt.Fprintln(log, "embedded broker: no client for trying out:", err)
			}
		}()
	}
	return r.Run(ctx)
}

func welcome(ctx context.Context, out io.Writer, c *config.Config, r *replica.Replica) error {
	secret, err := addTrialClient(ctx, r.Access())
	if err != nil {
		return err
	}
	return printTrial(out, c, secret, r.Address)
}
