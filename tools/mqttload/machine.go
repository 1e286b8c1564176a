package main

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
)

// machine is what the brokers and the load generator shared.
type machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Memory int    `json:"memory"` // GiB
	System string `json:"system"`
	Go     string `json:"go"`
	// Load is the load average of the minute before: what else it did.
	Load float64 `json:"load"`
	// Stolen is what the hypervisor kept of the cores' time during the run, in percent.
	Stolen float64 `json:"stolen"`

	before []float64 // jiffies at the start
}

// inspect reads /proc; what it does not say stays empty.
func inspect() machine {
	m := machine{CPU: runtime.GOARCH, Cores: runtime.NumCPU(), System: "Linux", Go: strings.TrimPrefix(runtime.Version(), "go"), before: jiffies()}
	if found := regexp.MustCompile(`(?m)^model name\s*:\s*(.+)$`).FindStringSubmatch(read("/proc/cpuinfo")); found != nil {
		m.CPU = strings.TrimSpace(found[1])
	}
	if found := regexp.MustCompile(`MemTotal:\s*(\d+) kB`).FindStringSubmatch(read("/proc/meminfo")); found != nil {
		kilobytes, _ := strconv.ParseFloat(found[1], 64) // digits
		m.Memory = int(kilobytes/(1<<20) + 0.5)
	}
	if release := read("/proc/sys/kernel/osrelease"); release != "" {
		m.System += " " + strings.TrimSpace(release)
	}
	if fields := strings.Fields(read("/proc/loadavg")); len(fields) > 0 {
		m.Load, _ = strconv.ParseFloat(fields[0], 64) // the kernel's own
	}
	return m
}

// steal brings Stolen up to now.
func (m *machine) steal() {
	const stolen = 7 // user, nice, system, idle, iowait, irq, softirq, steal
	now, total := jiffies(), 0.0
	if len(now) <= stolen || len(m.before) <= stolen {
		return
	}
	for i := range stolen + 1 {
		total += now[i] - m.before[i]
	}
	if total > 0 {
		m.Stolen = 100 * (now[stolen] - m.before[stolen]) / total
	}
}

func (m *machine) String() string {
	return fmt.Sprintf("%s, %d cores, %d GiB, %s, Go %s", m.CPU, m.Cores, m.Memory, m.System, m.Go)
}

// jiffies are the first line of /proc/stat.
func jiffies() (all []float64) {
	line, _, _ := strings.Cut(read("/proc/stat"), "\n")
	for _, field := range strings.Fields(strings.TrimPrefix(line, "cpu")) {
		n, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return nil
		}
		all = append(all, n)
	}
	return all
}

func read(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(content)
}
