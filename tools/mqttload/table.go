package main

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"maestrohub.io/uns/tools/mqttload/peer"
	"maestrohub.io/uns/tools/mqttload/scenario"
)

// table gathers the turns and prints medians and ratios.
type table struct {
	kinds  []peer.Kind
	cases  []benchCase
	turns  map[string]map[string][]scenario.Result // by case and broker
	floors []floor
}

func newTable(kinds []peer.Kind) *table {
	return &table{kinds: kinds, turns: map[string]map[string][]scenario.Result{}}
}

func (t *table) addFloor(f floor) { t.floors = append(t.floors, f) }

func (t *table) add(bench benchCase, kind peer.Kind, r scenario.Result) {
	byKind := t.turns[bench.name]
	if byKind == nil {
		byKind = map[string][]scenario.Result{}
		t.turns[bench.name] = byKind
		t.cases = append(t.cases, bench)
	}
	byKind[kind.Name] = append(byKind[kind.Name], r)
}

// markdown returns the table of broker/README.md: a row for each figure, the
// median of every broker's turns, and in parentheses what that is of the first
// broker's figure: ×2.0 means that the first broker is twice as good.
func (t *table) markdown() string {
	var b strings.Builder
	p50, p99 := t.floorMedians()
	fmt.Fprintf(&b, "Measured %s on %d cores, %s; one fdatasync of %d bytes: p50 %.3f ms, p99 %.3f ms.\n\n",
		time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), kernel(), floorBytes, milliseconds(p50), milliseconds(p99))
	b.WriteString("| case | figure |")
	for _, k := range t.kinds {
		fmt.Fprintf(&b, " %s |", k.Name)
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---:|", len(t.kinds)) + "\n")
	for _, c := range t.cases {
		for _, m := range c.measures {
			t.row(&b, c, m, p50)
		}
	}
	if notes := t.notes(); notes != "" {
		b.WriteString("\n" + notes)
	}
	return b.String()
}

func (t *table) row(b *strings.Builder, c benchCase, m measure, floorP50 time.Duration) {
	fmt.Fprintf(b, "| %s | %s, %s |", c.name, m.name, m.unit)
	first := t.median(c, t.kinds[0], m)
	for i, k := range t.kinds {
		v := t.median(c, k, m)
		switch {
		case math.IsNaN(v):
			b.WriteString(" – |")
		case i == 0 && m.floor:
			fmt.Fprintf(b, " %s (%.1f fdatasync) |", figure(v), v/milliseconds(floorP50))
		case i == 0 || math.IsNaN(first):
			fmt.Fprintf(b, " %s |", figure(v))
		case m.lessBetter:
			fmt.Fprintf(b, " %s (×%.2f) |", figure(v), v/first)
		default:
			fmt.Fprintf(b, " %s (×%.2f) |", figure(v), first/v)
		}
	}
	b.WriteString("\n")
}

// median returns the middle of a broker's turns, NaN if none gave the figure.
func (t *table) median(c benchCase, k peer.Kind, m measure) float64 {
	var values []float64
	for _, r := range t.turns[c.name][k.Name] {
		if v := m.of(r); v > 0 {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return math.NaN()
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func (t *table) floorMedians() (p50, p99 time.Duration) {
	if len(t.floors) == 0 {
		return 0, 0
	}
	var low, high []time.Duration
	for _, f := range t.floors {
		low, high = append(low, f.P50), append(high, f.P99)
	}
	slices.Sort(low)
	slices.Sort(high)
	return low[len(low)/2], high[len(high)/2]
}

// notes lists what went wrong in a turn: a fast broker that loses values is not
// fast.
func (t *table) notes() string {
	var b strings.Builder
	for _, c := range t.cases {
		for _, k := range t.kinds {
			for i, r := range t.turns[c.name][k.Name] {
				var wrong []string
				for _, f := range []struct {
					n    int64
					what string
				}{{r.Refused, "refused"}, {r.Missing, "missing"}, {r.Repeated, "repeated"}, {r.OutOfOrder, "out of order"}} {
					if f.n > 0 {
						wrong = append(wrong, fmt.Sprintf("%d %s", f.n, f.what))
					}
				}
				if r.Stalled {
					wrong = append(wrong, "stalled")
				}
				if r.Failure != "" {
					wrong = append(wrong, r.Failure)
				}
				if len(wrong) > 0 {
					fmt.Fprintf(&b, "- %s, %s, turn %d: %s\n", c.name, k.Name, i+1, strings.Join(wrong, ", "))
				}
			}
		}
	}
	return b.String()
}

// figure prints a number with three significant digits, thousands separated.
func figure(v float64) string {
	switch {
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	}
	digits := fmt.Sprintf("%.0f", v)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// kernel returns the kernel's name and release.
func kernel() string {
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return runtime.GOOS
	}
	return "Linux " + strings.TrimSpace(string(release))
}
