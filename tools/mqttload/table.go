package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// markdown returns what broker/README.md says of a run: on what it was measured, what
// an acknowledgment means, a row for each figure, what went wrong, and where a peer is
// ahead. A row has the median of every broker's turns, and in parentheses how far the
// first broker is ahead of that: ×2.0 means that it is twice as good.
func (r *run) markdown() (string, error) {
	measured, err := r.cases()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Measured %s on %s; %s of %s each where a case says no other; one fdatasync of %d bytes: p50 %.3f ms, p99 %.3f ms; "+
		"load average before: %.2f; %.1f %% of the cores' time went to other machines.\n\n",
		r.Measured.UTC().Format(time.DateOnly), &r.Machine, many(r.Rounds, "turn"), r.Duration, floorBytes, r.FloorP50, r.FloorP99, r.Machine.Load, r.Machine.Stolen)
	b.WriteString("| broker | version | an acknowledgment means |\n|---|---|---|\n")
	for _, k := range r.Brokers {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", k.Name, k.Version, k.Means)
	}
	b.WriteString("\n| case | figure |")
	for _, k := range r.Brokers {
		fmt.Fprintf(&b, " %s |", k.Name)
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---:|", len(r.Brokers)) + "\n")
	for _, c := range measured {
		for _, m := range c.measures {
			r.row(&b, c, m)
		}
	}
	if notes := r.notes(measured); notes != "" {
		b.WriteString("\n" + notes)
	}
	if behind := r.behind(measured); behind != "" {
		b.WriteString("\n" + behind)
	}
	return b.String(), nil
}

// mark stands behind a figure of a broker that did not do the whole job.
const mark = " †"

func (r *run) row(b *strings.Builder, c benchCase, m measure) {
	first := r.median(c.name, r.Brokers[0].Name, m)
	if m.apart && math.IsNaN(first) {
		return
	}
	fmt.Fprintf(b, "| %s | %s, %s |", c.name, m.name, m.unit)
	for i, k := range r.Brokers {
		v := r.median(c.name, k.Name, m)
		shown, marked := figure(v), ""
		if values := r.figures(c.name, k.Name, m); m.span && len(values) > 1 {
			shown = figure(slices.Min(values)) + " to " + figure(slices.Max(values))
		}
		if !m.count && !r.flaws(c, k.Name).none() {
			marked = mark
		}
		switch ratio := m.ratio(first, v); {
		case math.IsNaN(v):
			fmt.Fprintf(b, " –%s |", marked)
		case m.count:
			fmt.Fprintf(b, " %.0f |", v)
		case i == 0 && m.floor && r.FloorP50 > 0:
			fmt.Fprintf(b, " %s (%.1f fdatasync)%s |", figure(v), v/r.FloorP50, marked)
		case i == 0 || math.IsNaN(ratio):
			fmt.Fprintf(b, " %s%s |", shown, marked)
		default:
			fmt.Fprintf(b, " %s (×%s)%s |", shown, times(ratio), marked)
		}
	}
	b.WriteString("\n")
}

// flaws are what went wrong in the turns of a broker in a case.
type flaws struct {
	turns, bad                             int
	refused, missing, repeated, outOfOrder int64
	stalled                                int
	failures                               []string
}

func (f flaws) none() bool { return f.bad == 0 }

func (r *run) flaws(c benchCase, broker string) (f flaws) {
	// Where losses are a figure of the table, and QoS 1 repeats by right, neither is news.
	counted := slices.ContainsFunc(c.measures, func(m measure) bool { return m.count })
	for _, result := range r.of(c.name, broker) {
		if counted {
			result.Missing, result.Repeated = 0, 0
		}
		f.turns++
		if result.Failure == "" && !result.Stalled && !slices.ContainsFunc(c.measures, func(m measure) bool { return m.of(result) > 0 }) {
			result.Failure = "nothing came in the time measured"
		}
		if result.Refused+result.Missing+result.Repeated+result.OutOfOrder > 0 || result.Stalled || result.Failure != "" {
			f.bad++
		}
		f.refused += result.Refused
		f.missing += result.Missing
		f.repeated += result.Repeated
		f.outOfOrder += result.OutOfOrder
		if result.Stalled {
			f.stalled++
		}
		if result.Failure != "" && !slices.Contains(f.failures, result.Failure) {
			f.failures = append(f.failures, result.Failure)
		}
	}
	return f
}

// notes lists what went wrong: a fast broker that loses values is not fast.
func (r *run) notes(measured []benchCase) string {
	var b strings.Builder
	for _, c := range measured {
		for _, k := range r.Brokers {
			f := r.flaws(c, k.Name)
			if f.none() {
				continue
			}
			var wrong []string
			for _, n := range []struct {
				n    int64
				what string
			}{{f.refused, "refused"}, {f.missing, "missing"}, {f.repeated, "repeated"}, {f.outOfOrder, "out of order"}} {
				if n.n > 0 {
					wrong = append(wrong, fmt.Sprintf("%s %s", whole(float64(n.n)), n.what))
				}
			}
			if f.stalled > 0 {
				wrong = append(wrong, "stalled")
			}
			for _, failure := range f.failures {
				wrong = append(wrong, oneLine(failure))
			}
			fmt.Fprintf(&b, "- %s, %s, %d of %s: %s\n", c.name, k.Name, f.bad, many(f.turns, "turn"), strings.Join(wrong, ", "))
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "† What went wrong; a turn that failed or stalled gives no figure:\n\n" + b.String()
}

// noise is how far apart two figures are that say nothing.
const noise = 0.05

// behind lists the figures in which a peer is ahead, and why that is, those of one reason
// together.
func (r *run) behind(measured []benchCase) string {
	var reasons []string
	items := map[string][]string{} // by reason
	for _, c := range measured {
		var figures []string
		for _, m := range c.measures {
			first := r.median(c.name, r.Brokers[0].Name, m)
			var ahead []string
			for _, k := range r.Brokers[1:] {
				if ratio := m.ratio(first, r.median(c.name, k.Name, m)); ratio < 1-noise {
					ahead = append(ahead, fmt.Sprintf("%s ×%s", k.Name, times(ratio)))
				}
			}
			if len(ahead) > 0 {
				figures = append(figures, fmt.Sprintf("%s: %s", m.name, strings.Join(ahead, ", ")))
			}
		}
		if len(figures) == 0 {
			continue
		}
		reason := c.why.alone
		if r.Command == clusterCommand {
			reason = c.why.replicas
		}
		if items[reason] == nil {
			reasons = append(reasons, reason)
		}
		items[reason] = append(items[reason], fmt.Sprintf("**%s** (%s)", c.name, strings.Join(figures, "; ")))
	}
	if len(reasons) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("Where a peer is ahead, and why:\n\n")
	for _, reason := range reasons {
		fmt.Fprintf(&b, "- %s: %s.\n", strings.Join(items[reason], ", "), reason)
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
	return whole(v)
}

// times prints a ratio, also one that is close to nothing.
func times(ratio float64) string {
	if ratio < 0.095 {
		return fmt.Sprintf("%.3f", ratio)
	}
	return figure(ratio)
}

// whole prints a number without decimals, thousands separated.
func whole(v float64) string {
	digits := fmt.Sprintf("%.0f", v)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func many(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// oneLine is an error as a line of a list can hold it.
func oneLine(s string) string {
	first, _, _ := strings.Cut(s, "\n")
	return strings.ReplaceAll(first, "|", "/")
}
