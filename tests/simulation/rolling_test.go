//go:build nextrelease

package simulation

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"maestrohub.io/uns/broker/cluster"
)

// TestARollingUpgradeWritesWhatAllRead replaces a release that reads no format but the
// oldest by one that reads a newer one, replica after replica, takes one step back on the
// way, and tries another once the last is new: that one must not serve. Faults go on all
// the while. It is built with the tag of the release that has the newer format.
func TestARollingUpgradeWritesWhatAllRead(t *testing.T) {
	for _, seed := range []uint64{1, 2} {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			o := usual(seed)
			o.Replicas, o.Rolling, o.Long, o.Every = 3, true, 5*time.Minute, 20*time.Second
			o.Faults = schedule(seed, o.Replicas, o.Long, o.Every)
			step := func(at time.Duration, kind string, replica int) {
				o.Faults = append(o.Faults, fault{at: at, kind: kind, a: replica})
			}
			step(40*time.Second, "upgrade", 0)
			step(70*time.Second, "upgrade", 1)
			step(100*time.Second, "roll back", 1)
			step(130*time.Second, "upgrade", 2)
			step(160*time.Second, "upgrade", 1)
			step(210*time.Second, "roll back", 0)
			step(240*time.Second, "upgrade", 0)
			slices.SortStableFunc(o.Faults, func(a, b fault) int { return int(a.at - b.at) })
			r := simulate(t, o)
			r.hold(t)
			if cluster.Newest == cluster.Oldest || r.counted.Newer == 0 {
				t.Errorf("nothing was written in a newer format: %v", r.counted)
			}
			t.Log(r.counted)
		})
	}
}
