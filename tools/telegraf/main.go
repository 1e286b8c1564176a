// Telegraf with the plugins of the recipe in runbooks/connect.md alone: whole, it needs
// over 500 modules. A module of its own, so that nothing of it reaches the broker's.
//
//	go run . telegraf.conf
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/influxdata/telegraf/agent"
	"github.com/influxdata/telegraf/config"
	"github.com/influxdata/telegraf/logger"
	_ "github.com/influxdata/telegraf/plugins/inputs/mock"
	_ "github.com/influxdata/telegraf/plugins/inputs/mqtt_consumer"
	_ "github.com/influxdata/telegraf/plugins/outputs/file"
	_ "github.com/influxdata/telegraf/plugins/outputs/mqtt"
	_ "github.com/influxdata/telegraf/plugins/parsers/json"
	_ "github.com/influxdata/telegraf/plugins/serializers/influx"
	_ "github.com/influxdata/telegraf/plugins/serializers/json"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "telegraf:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	c := config.NewConfig()
	if err := c.LoadAll(os.Args[1:]...); err != nil {
		return err
	}
	if err := logger.SetupLogging(&logger.Config{}); err != nil {
		return err
	}
	return agent.NewAgent(c).Run(ctx)
}
