package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"maestrohub.io/uns/tools/mqttload/scenario"
)

// fixture is a run of two brokers with everything in it that a page has to show.
func fixture(t *testing.T) *run {
	t.Helper()
	r, err := load("testdata/run.json")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func table(t *testing.T, r *run) string {
	t.Helper()
	got, err := r.markdown()
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestTheTableShowsMediansRatiosAndWhatWentWrong(t *testing.T) {
	got := table(t, fixture(t))
	for _, want := range []string{
		"Measured 2026-01-31 on Some CPU, 2 cores, 24 GiB, Linux 6.1.0, Go 1.26.0; 3 turns of 3s each",
		"one fdatasync of 280 bytes: p50 0.100 ms, p99 1.000 ms; load average before: 0.12; 1.5 % of the cores' time",
		"| this broker | 0123456789 | it is synced |\n",
		"| mosquitto | 2.0.11 | it is in memory |\n",
		// The median of three; of two good turns where the third failed, their middle.
		"| acks, QoS 1, 10 publishers × 100 in flight | acknowledged, /s | 120,000 | 30,000 (×4.00) † | – |",
		"| fan-out, 1 to 50, QoS 1 | delivered, /s | 200,000 | 150,000 (×1.33) † | – † |",
		"| acks, QoS 1, paced at 500/s | ack p50, ms | 0.30 (3.0 fdatasync) | 0.15 (×0.50) | – |",
		"| acks, QoS 1, paced at 500/s | ack p99, ms | 2.00 | 4.00 (×2.00) | – |",
		// Turns that differ in kind show how far apart they are; the ratio is of their middle.
		"| failover, 5 devices at 200/s, kill -9 | no acknowledgment for, s | 0.90 | 0.10 to 5.30 (×3.00) | – |",
		// Losses that are a figure stand as one, nothing lost included.
		"| failover, 5 devices at 200/s, kill -9 | acknowledged, never delivered, values | 0 | 8 | – |",
		"| failover, 5 devices at 200/s, kill -9 | acknowledged, not kept for a session that was away, values | 240 | 0 | – |",
		"- 1 to 1, QoS 0, nats-server ×3, 1 of 2 turns: nothing came in the time measured\n",
		"- acks, QoS 1, 10 publishers × 100 in flight, mosquitto, 2 of 3 turns: 3 missing\n",
		"- fan-out, 1 to 50, QoS 1, mosquitto, 1 of 3 turns: stalled\n",
		"- fan-out, 1 to 50, QoS 1, nats-server ×3, 1 of 1 turn: waited for a/b: gave up\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "of a page long") {
		t.Errorf("an error of many lines is shown whole:\n%s", got)
	}
}

func TestTheTableSaysWhereAPeerIsAheadAndWhy(t *testing.T) {
	r := fixture(t)
	got := table(t, r)
	// What has one reason stands together.
	want := "- **acks, QoS 1, paced at 500/s** (ack p50: mosquitto ×0.50), **acks, QoS 2, paced at 500/s** (ack p50: mosquitto ×0.40; ack p99: nats-server ×3 ×0.90): " + waits.alone + ".\n"
	if !strings.Contains(got, want) {
		t.Errorf("no %q in\n%s", want, got)
	}
	// Of two replicas the reasons are others.
	r.Command = clusterCommand
	if got := table(t, r); !strings.Contains(got, waits.replicas) || strings.Contains(got, waits.alone) {
		t.Errorf("the reasons are not those of replicas:\n%s", got)
	}
	// A reason is given once.
	if n := strings.Count(got, waits.alone); n != 1 {
		t.Errorf("the reason is given %d times:\n%s", n, got)
	}
	// Where no peer is ahead there is nothing to explain, 2 % are noise.
	if strings.Contains(got, "**acks, QoS 1, 10 publishers × 100 in flight**") || strings.Contains(got, "**1 to 1, QoS 0**") {
		t.Errorf("a reason is given where no peer is ahead:\n%s", got)
	}
}

// A figure in which a peer may turn out ahead has its reason.
func TestEveryCaseSaysWhyAPeerMayBeAhead(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range cases(time.Second) {
		if seen[c.name] {
			t.Errorf("there are two cases %q", c.name)
		}
		seen[c.name] = true
		if c.why.alone == "" || c.why.replicas == "" || len(c.measures) == 0 {
			t.Errorf("%s lacks a reason or a figure: %+v", c.name, c)
		}
	}
}

func TestAResultFileKeepsEverything(t *testing.T) {
	r := fixture(t)
	path := filepath.Join(t.TempDir(), "below", "run.json")
	if err := r.save(path); err != nil {
		t.Fatal(err)
	}
	again, err := load(path)
	if err != nil {
		t.Fatal(err)
	}
	if one, other := table(t, r), table(t, again); one != other {
		t.Errorf("saved and read again, the table is another:\n%s\n%s", one, other)
	}
	if len(again.Turns) != len(r.Turns) || again.Machine.CPU != "Some CPU" {
		t.Errorf("%d turns on %q came back of %d", len(again.Turns), again.Machine.CPU, len(r.Turns))
	}
}

func TestAResultFileOfOtherCasesIsRefused(t *testing.T) {
	r := fixture(t)
	r.Turns = append(r.Turns, turn{"what was measured last year", "mosquitto", scenario.Result{}})
	if _, err := r.markdown(); err == nil || !strings.Contains(err.Error(), "what was measured last year") {
		t.Errorf("error %v, want one that names the case", err)
	}
	path := filepath.Join(t.TempDir(), "empty.json")
	if err := os.WriteFile(path, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := load(path); err == nil {
		t.Error("a file without turns was read as a run")
	}
}

func TestTheMiddleOfTurns(t *testing.T) {
	for _, c := range []struct {
		of   []float64
		want float64
	}{{[]float64{3}, 3}, {[]float64{9, 1}, 5}, {[]float64{7, 1, 2}, 2}} {
		if got := middle(c.of); got != c.want {
			t.Errorf("the middle of %v is %v, want %v", c.of, got, c.want)
		}
	}
	if !math.IsNaN(middle(nil)) {
		t.Error("nothing has a middle")
	}
}

func TestTheMachineIsDescribed(t *testing.T) {
	m := inspect()
	if m.CPU == "" || m.Cores < 1 || m.Memory < 1 || !strings.Contains(m.System, ".") || m.Go == "" {
		t.Errorf("the machine is %+v", m)
	}
	m.steal()
	if m.Stolen < 0 || m.Stolen > 100 {
		t.Errorf("%v %% stolen", m.Stolen)
	}
}

func TestTheFloorIsMeasured(t *testing.T) {
	f, err := measureFloor(t.TempDir())
	if err != nil || f.P50 <= 0 || f.P99 < f.P50 {
		t.Errorf("floor %+v, error %v", f, err)
	}
}
