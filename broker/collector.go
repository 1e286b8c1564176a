package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Bounds of the garbage collector's percentage: the runtime's default, and what a
// broker under load gets. The memory limit (GOMEMLIMIT) holds whatever it is.
const (
	leastPercent = 100
	mostPercent  = 400
)

// collectSeldom lets the heap grow further between two collections while they follow
// one another fast: a broker's live heap is small, so with the default percentage it
// is marked several times a second under load, which took a fifth of its CPU time. Idle, it
// goes back, and memory with it. GOGC set by the operator is left alone.
func collectSeldom(ctx context.Context) {
	if _, set := os.LookupEnv("GOGC"); set {
		return
	}
	cycles := []metrics.Sample{{Name: "/gc/cycles/automatic:gc-cycles"}}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	percent, last := leastPercent, uint64(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		metrics.Read(cycles)
		now := cycles[0].Value.Uint64()
		if next := nextPercent(percent, now-last); next != percent {
			percent = next
			debug.SetGCPercent(percent)
		}
		last = now
	}
}

// nextPercent is the percentage after a second with so many collections.
func nextPercent(percent int, collections uint64) int {
	switch {
	case collections >= 3:
		return min(2*percent, mostPercent)
	case collections == 0:
		return max(percent/2, leastPercent)
	}
	return percent
}
