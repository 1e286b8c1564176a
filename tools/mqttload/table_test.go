package main

import (
	"strings"
	"testing"
	"time"

	"maestrohub.io/uns/tools/mqttload/peer"
	"maestrohub.io/uns/tools/mqttload/scenario"
)

func TestTheTableShowsMediansRatiosAndWhatWentWrong(t *testing.T) {
	ours, other := peer.Kind{Name: "ours"}, peer.Kind{Name: "other"}
	table := newTable([]peer.Kind{ours, other})
	table.addFloor(floor{P50: 100 * time.Microsecond, P99: time.Millisecond})
	rate := benchCase{name: "acks", measures: []measure{acksPerSecond}}
	pace := benchCase{name: "paced", measures: []measure{ackP50}}
	for i, v := range []float64{100_000, 120_000, 500_000} {
		table.add(rate, ours, scenario.Result{AckRate: v})
		table.add(rate, other, scenario.Result{AckRate: v / 4, Missing: int64(i)})
	}
	table.add(pace, ours, scenario.Result{Ack: scenario.Latency{P50: 0.3}})
	table.add(pace, other, scenario.Result{Failure: "connection ended"})
	got := table.markdown()
	for _, want := range []string{
		"| acks | acknowledged, /s | 120,000 | 30,000 (×4.00) |",
		"| paced | ack p50, ms | 0.30 (3.0 fdatasync) | – |",
		"- acks, other, turn 2: 1 missing\n",
		"- acks, other, turn 3: 2 missing\n",
		"- paced, other, turn 1: connection ended\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

func TestTheFloorIsMeasured(t *testing.T) {
	f, err := measureFloor(t.TempDir())
	if err != nil || f.P50 <= 0 || f.P99 < f.P50 {
		t.Errorf("floor %+v, error %v", f, err)
	}
}

func TestWrongFlagsAreRefusedBeforeAnythingIsSent(t *testing.T) {
	for name, args := range map[string][]string{
		"qos": {"acks", "--qos", "3"}, "window": {"acks", "--window", "0"}, "payload": {"acks", "--payload", "5"},
		"address": {"acks", "--address", "localhost"}, "mqtt": {"acks", "--mqtt", "4"}, "connections": {"idle", "--connections", "2000000"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, c := range modes() {
				if c.Use != args[0] {
					continue
				}
				c.SetArgs(args[1:])
				c.SilenceUsage, c.SilenceErrors = true, true
				if err := c.ExecuteContext(t.Context()); err == nil || !strings.HasPrefix(err.Error(), name+" (") {
					t.Errorf("error %v, want one that names %s and its value", err, name)
				}
			}
		})
	}
}
