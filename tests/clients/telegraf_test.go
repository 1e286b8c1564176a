package clients_test

import (
	"testing"

	"maestrohub.io/uns/tests/harness"
	"maestrohub.io/uns/tools/launch"
)

// telegraf runs Telegraf with a configuration until it has a live copy of what it
// publishes, and returns what it printed.
func telegraf(t *testing.T, configuration string, environment []string) string {
	t.Helper()
	program, err := launch.Build("tools/telegraf", ".", "telegraf")
	if err != nil {
		t.Fatal(err)
	}
	p := harness.Program(t, launch.Spec{Name: "telegraf", Path: program, Args: []string{configuration}, Env: environment})
	harness.WaitFor(t, p, `(?m)^mqtt_consumer,.*/line/7/temperature value=21\.5 `)
	return p.Output()
}
