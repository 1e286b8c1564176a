package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	// The first SIGTERM or SIGINT ends run's context and so stops it in order; a
	// second one is left to its default and ends the process at once.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
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
	root := &cobra.Command{
		Use:           "broker",
		Short:         "The MaestroHub UNS broker",
		Long:          "The MaestroHub UNS broker: MQTT in, stored before it is acknowledged, live and from history out.\nWithout a command it starts a broker for trying out.",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return run(cmd.Context(), "", out, log)
		},
	}
	root.SetOut(out)
	root.SetErr(log)
	root.AddCommand(runCommand(out, log), checkCommand(out), configCommand(out), clientCommand(out), healthcheckCommand(out), versionCommand(out))
	return root
}
