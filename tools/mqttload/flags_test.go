package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestWrongFlagsAreRefusedBeforeAnythingIsSent(t *testing.T) {
	for name, args := range map[string][]string{
		"qos": {"acks", "--qos", "3"}, "window": {"acks", "--window", "0"}, "payload": {"acks", "--payload", "5"},
		"address": {"acks", "--address", "localhost"}, "mqtt": {"acks", "--mqtt", "4"}, "connections": {"idle", "--connections", "2000000"},
		"clients": {"storm", "--clients", "2000000"},
		"rounds":  {"compare", "--rounds", "0"}, "duration": {"cluster", "--duration", "0s"}, "only": {"compare", "--only", "no such case"},
		"brokers": {"cluster", "--brokers", "no such broker"}, "rewrite": {"compare", "--rewrite", "--only", "fan"},
	} {
		t.Run(name, func(t *testing.T) {
			ran := false
			for _, c := range append(modes(), compareCommand(), replicasCommand()) {
				if c.Name() != args[0] {
					continue
				}
				ran = true
				if err := execute(t, c, args[1:]); err == nil || !strings.HasPrefix(err.Error(), name+" ") {
					t.Errorf("error %v, want one that begins with %s", err, name)
				}
			}
			if !ran {
				t.Errorf("there is no command %s", args[0])
			}
		})
	}
}

func execute(t *testing.T, c *cobra.Command, args []string) error {
	t.Helper()
	c.SetArgs(args)
	c.SilenceUsage, c.SilenceErrors = true, true
	return c.ExecuteContext(t.Context())
}
