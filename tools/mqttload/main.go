package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"maestrohub.io/uns/tools/mqttload/scenario"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := &cobra.Command{
		Use: "mqttload", Short: "Load an MQTT broker and say what it did",
		SilenceUsage: true, SilenceErrors: true,
	}
	for _, c := range modes() {
		root.AddCommand(c)
	}
	root.AddCommand(compareCommand(), replicasCommand(), pageCommand())
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "mqttload:", err)
		os.Exit(1)
	}
}

// runner is a scenario.
type runner interface {
	Run(context.Context, *scenario.Target) (scenario.Result, error)
}

// show prints a result for a person or a program.
func show(r scenario.Result, asJSON bool) error {
	if !asJSON {
		fmt.Print(r.Summary())
		return nil
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}
