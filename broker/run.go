package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"maestrohub.io/uns/broker/config"
	"maestrohub.io/uns/broker/replica"
)

func runCommand(out, log io.Writer) *cobra.Command {
	var file, host string
	c := &cobra.Command{
		Use:   "run",
		Short: "Run a broker until SIGTERM",
		Long: "Run a broker until SIGTERM. Without --config it is one for trying out, which only this machine can reach: data in ./data, an example model, an API client made for you.\n" +
			"SIGTERM, SIGINT (Ctrl-C) and SIGHUP stop it in order, a second one at once. Nothing is reloaded by a signal: the model, clients and certificate files are followed.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return run(cmd.Context(), file, host, out, log)
		},
	}
	c.Flags().StringVar(&file, "config", "", "configuration file (`broker config reference` lists its settings)")
	hostFlag(c, &host)
	return c
}

func hostFlag(c *cobra.Command, host *string) {
	c.Flags().StringVar(host, "host", "", "address the broker for trying out listens on, 0.0.0.0 for every one of this machine (default "+trialHost+")")
}

// run runs a replica of a configuration file, or the one for trying out, on host,
// until ctx is done.
func run(ctx context.Context, file, host string, out, log io.Writer) error {
	// Whoever reads the log may be gone first: Ctrl-C ends `broker | tee` as a whole, and a
	// log collector is restarted. A broker is not ended by it, and least while it stops.
	signal.Ignore(syscall.SIGPIPE)
	if file == "" {
		return runTrial(ctx, trial(host), out, log)
	}
	if host != "" {
		return fmt.Errorf("--host %s: only for the broker for trying out; with --config the addresses are settings of the file", host)
	}
	c, err := config.Load(file)
	if err != nil {
		// There is no configuration yet that says how to log it.
		logger := replica.NewLogger(log, config.Log{})
		for line := range lines(err) {
			logger.Error("embedded broker: configuration refused", "error", line)
		}
		return logged{err}
	}
	logger := replica.NewLogger(log, c.Log)
	r, err := replica.New(ctx, c, logger, release())
	switch {
	case err == nil:
		go collectSeldom(ctx)
		err = r.Run(ctx)
	case ctx.Err() != nil:
		logger.Info("embedded broker: stopped before it had started", "error", err)
		return nil
	}
	return logAtEnd(logger, err)
}

// runTrial is run with an example model and a client made for the person at the
// terminal. The lines to paste go to out, the log goes to log.
func runTrial(ctx context.Context, c *config.Config, out, log io.Writer) error {
	logger := replica.NewLogger(log, c.Log)
	if err := prepareTrial(c); err != nil {
		return logAtEnd(logger, err)
	}
	r, err := replica.New(ctx, c, logger, release())
	if err != nil {
		return logAtEnd(logger, err)
	}
	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var welcomed sync.WaitGroup
	welcomed.Go(func() {
		select {
		case <-r.Started():
		case <-running.Done():
			return
		}
		if err := welcome(running, out, c, r); err != nil {
			stop(err) // nobody could sign in: not what was asked for
		}
	})
	err = r.Run(running)
	stop(nil)
	welcomed.Wait()
	if cause := context.Cause(running); cause != nil && !errors.Is(cause, context.Canceled) {
		err = errors.Join(cause, err)
	}
	return logAtEnd(logger, err)
}

func welcome(ctx context.Context, out io.Writer, c *config.Config, r *replica.Replica) error {
	secret, err := addTrialClient(ctx, r.Access())
	if err != nil {
		return err
	}
	return printTrial(out, c, secret, r.Address)
}

// logged is an error that is in the log, in its form, and need not be printed again.
type logged struct{ error }

func (l logged) Unwrap() error { return l.error }

// lines are those of an error that lists what is wrong: each is logged by itself, as a list
// inside one line is not read.
func lines(err error) iter.Seq[string] {
	return func(yield func(string) bool) {
		for line := range strings.Lines(err.Error()) {
			if !yield(strings.TrimSpace(line)) {
				return
			}
		}
	}
}

// logAtEnd makes why a broker ended, if it did not just stop, the last line of its log.
func logAtEnd(log *slog.Logger, err error) error {
	if err == nil {
		return nil
	}
	for line := range lines(err) {
		log.Error("embedded broker: ended", "error", line)
	}
	return logged{err}
}
