package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	// The first of them ends run's context and so stops it in order; a second one is
	// left to its default and ends the process at once. A terminal that is closed
	// sends SIGHUP, unless the broker was started to outlive it (nohup).
	stops := []os.Signal{syscall.SIGTERM, os.Interrupt}
	if !signal.Ignored(syscall.SIGHUP) {
		stops = append(stops, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), stops...)
	context.AfterFunc(ctx, stop)
	if err := command(os.Stdout, os.Stderr).ExecuteContext(ctx); err != nil {
		if !errors.As(err, new(logged)) {
			fmt.Fprintln(os.Stderr, "broker:", err)
		}
		os.Exit(1)
	}
}

// command is the whole command line; what it prints goes to out, what it logs to log.
func command(out, log io.Writer) *cobra.Command {
	var host string
	root := &cobra.Command{
		Use:   "broker",
		Short: "The MaestroHub UNS broker",
		Long: "The MaestroHub UNS broker: MQTT in, stored before it is acknowledged, live and from history out.\n" +
			"Without a command it starts a broker for trying out, which only this machine can reach: data in ./data, an example model, an API client made for you.",
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return run(cmd.Context(), "", host, out, log)
		},
	}
	hostFlag(root, &host)
	root.SetOut(out)
	root.SetErr(log)
	root.AddCommand(runCommand(out, log), checkCommand(out), configCommand(out), clientCommand(out), backupCommand(out), healthcheckCommand(out), secretsCommand(out), tryCommand(out), versionCommand(out))
	for _, c := range root.Commands() {
		if c.HasSubCommands() {
			c.RunE = chooses
		}
	}
	return root
}

// chooses is what a command does that is nothing without one of its own commands: one that
// is mistyped is an error and not a page of help, as it is for the first word.
func chooses(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return c.Help()
	}
	text := ""
	c.SuggestionsMinimumDistance = 2
	if like := c.SuggestionsFor(args[0]); len(like) > 0 {
		text = "\n\nDid you mean this?\n\t" + strings.Join(like, "\n\t")
	}
	return fmt.Errorf("unknown command %q for %q%s", args[0], c.CommandPath(), text)
}
