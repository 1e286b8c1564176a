package cluster_test

import (
	"fmt"
	"testing"
	"time"
)

// NATS replies held for as long as no replica may fence: 2, 4 and 6 s at the default T.
func TestRowNATSSlow(t *testing.T) {
	c := start(t)
	l := c.startLoad(t)
	for _, band := range []struct {
		seconds int
		fences  *promise
	}{{2, slow2Fences}, {4, slow4Fences}, {6, slow6Fences}} {
		d := slowBy(band.seconds)
		fences := c.fences()
		c.Slow(d)
		began := time.Now()
		t.Logf("every reply of NATS is held %v", d)
		if band.seconds == 2 {
			slow2Flows.took(t, l.flows(t, began))
		}
		stay(max(3*ttl, *long) - time.Since(began))
		n := c.fences() - fences
		band.fences.was(t, fmt.Sprintf("%d in %s", n, seconds(time.Since(began).Round(time.Second))))
		if n > 0 {
			t.Errorf("replicas fenced %d times while NATS was slow by %v", n, d)
		}
		if band.seconds == 2 {
			slow2Lost.was(t, len(l.events(began, "lost")))
		}
		c.Slow(0)
		l.flows(t, time.Now())
	}
	l.finish(t)
}

// Above, replicas step aside, again and again, and nothing is lost.
func TestRowNATSTooSlow(t *testing.T) {
	c := start(t)
	l := c.startLoad(t)
	for _, band := range []struct {
		seconds int
		fences  *promise
	}{{8, slow8Fences}, {10, slow10Fences}} {
		d := slowBy(band.seconds)
		before := make([]int, len(c.Replicas))
		for i := range c.Replicas {
			before[i] = c.printed(i, fencedLine)
		}
		fences := c.fences()
		c.Slow(d)
		began := time.Now()
		t.Logf("every reply of NATS is held %v", d)
		until(t, 4*fenceAfter+2*d+generous, "every replica to fence", func() (bool, string) {
			for i := range c.Replicas {
				if c.printed(i, fencedLine) == before[i] {
					return false, c.Replicas[i].ID + " serves"
				}
			}
			return true, ""
		})
		stay(*long - time.Since(began))
		band.fences.was(t, fmt.Sprintf("%d in %s", c.fences()-fences, seconds(time.Since(began).Round(time.Second))))
		c.Slow(0)
		healed := time.Now()
		c.awaitReady(t)
		slowBack.took(t, time.Since(healed))
		slowFlows.took(t, l.flows(t, healed))
	}
	l.finish(t)
}

// stay lets a state last: what must not happen has that long to happen.
func stay(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
}
