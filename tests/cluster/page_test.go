package cluster_test

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// page is rewritten by the run that measures: go test ./tests/cluster -rewrite. It has
// a table for each T that was ever measured; a run replaces the rows it measured.
const page = "../../runbooks/failure-table.md"

var rewrite = flag.Bool("rewrite", false, "write what was measured into runbooks/failure-table.md")

// writePage puts the run's rows into the page.
func writePage() error {
	text, err := os.ReadFile(page)
	if err != nil {
		return fmt.Errorf("rewrite the failure table: %w", err)
	}
	begin, end := marker("begin"), marker("end")
	head, rest, hasBegin := strings.Cut(string(text), begin)
	old, tail, hasEnd := strings.Cut(rest, end)
	if !hasBegin || !hasEnd {
		return fmt.Errorf("rewrite the failure table: %s needs a line %q and a line %q", page, strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	if err := os.WriteFile(page, []byte(head+begin+table(old)+end+tail), 0o644); err != nil {
		return fmt.Errorf("rewrite the failure table: %w", err)
	}
	return nil
}

func marker(which string) string {
	return fmt.Sprintf("<!-- measured at T = %s: %s -->\n", seconds(ttl), which)
}

// table is the new table: what was measured now, and for the rest what stood there.
func table(old string) string {
	before := map[string]string{}
	for line := range strings.Lines(old) {
		if cells := strings.Split(strings.TrimSpace(line), " | "); len(cells) == 5 {
			before[strings.TrimPrefix(cells[0], "| ")+"|"+cells[1]] = line
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s. The grace of wills (`willStopGrace`) was %s.\n\n", machine(), seconds(grace))
	b.WriteString("| What happens | What is measured | Promised | Measured | When, load |\n|---|---|---|---|---|\n")
	for _, p := range promises {
		event := scaled(p.event)
		if cell := p.cell(); cell != "" {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s, %s |\n", event, p.what, scaled(p.promised), cell, time.Now().UTC().Format(time.DateOnly), p.load)
		} else if line, there := before[event+"|"+p.what]; there {
			b.WriteString(line)
		}
	}
	b.WriteString("\n")
	return b.String()
}

// machine is what the run ran on.
func machine() string {
	model := runtime.GOARCH
	if f, err := os.Open("/proc/cpuinfo"); err == nil {
		defer f.Close()
		for s := bufio.NewScanner(f); s.Scan(); {
			if name, is := strings.CutPrefix(s.Text(), "model name\t: "); is {
				model = name
				break
			}
		}
	}
	return fmt.Sprintf("Machine: %d cores (%s), all processes of the cluster and all devices on it; %d replicas, three NATS servers, PostgreSQL", runtime.NumCPU(), model, *replicas)
}

// loadAverage is the machine's over the last minute, "" where it is not known.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "-"
	}
	one, _, _ := strings.Cut(string(text), " ")
	return one
}
