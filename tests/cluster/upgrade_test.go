package cluster_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	membership "maestrohub.io/uns/broker/cluster"
	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/tools/launch"
)

// TestRowRollingUpgrade replaces this release by the next one, replica by replica, and
// tries to roll back. The next release is this one built with -tags nextrelease: it
// reads and writes one more format and speaks one more version of the mesh.
func TestRowRollingUpgrade(t *testing.T) {
	next, err := launch.BuildBroker("-tags=nextrelease")
	if err != nil {
		t.Fatal(err)
	}
	distant, err := launch.BuildBroker("-tags=distantrelease")
	if err != nil {
		t.Fatal(err)
	}
	c := start(t)
	old := *binary
	t.Cleanup(func() { // its floor has risen: this release can do nothing with it any more
		if shared == c {
			shared = nil
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	l := c.startLoad(t)

	// Two releases without a version of the mesh in common serve and do not link.
	c.upgrade(t, 0, distant)
	until(t, generous, "the refusal of a link", func() (bool, string) {
		for i := range c.Replicas {
			if c.printed(i, "no mesh protocol version in common") > 0 {
				return true, ""
			}
		}
		return false, "nobody has said so"
	})
	for i, b := range c.brokers {
		if s := status1(t, b); s.Links != len(c.brokers)-2 && i > 0 || i == 0 && s.Links != 0 {
			t.Errorf("%s has %d links", c.Replicas[i].ID, s.Links)
		}
	}
	l.flows(t, time.Now())
	rollMesh.was(t, "0 links")
	c.upgrade(t, 0, old)
	c.awaitLinked(t)

	// The upgrade. For as long as one old replica is there, the old format is written.
	var last time.Time
	for i := range c.Replicas {
		last = time.Now()
		c.upgrade(t, i, next)
		rollDevices.took(t, l.flows(t, last))
		c.awaitLinked(t)
		if i == len(c.Replicas)-1 {
			break
		}
		stay(ttl + 5*time.Second) // the sweep raises the floor every 5 s, if it may
		if f := c.floor(t); f != membership.Oldest {
			t.Fatalf("the floor is %d while an old replica is there", f)
		}
		if f := c.writes(t); f != membership.Oldest {
			t.Fatalf("records are written in format %d while an old replica is there", f)
		}
		rollOld.was(t, fmt.Sprint(uint64(membership.Oldest)))
	}
	until(t, ttl+15*time.Second+generous, "the floor to rise", func() (bool, string) {
		f := c.floor(t)
		return f == membership.Oldest+1, fmt.Sprint(f)
	})
	rollNew.took(t, time.Since(last))
	until(t, generous, "records to be written in the new format", func() (bool, string) {
		f := c.writes(t)
		return f == membership.Oldest+1, fmt.Sprint(f)
	})

	// No way back: an old release under the newer floor does not serve.
	r := c.Replicas[0]
	if err := r.Stop(30 * time.Second); err != nil {
		t.Fatal(err)
	}
	r.SetBinary(old)
	if err := r.Launch(); err != nil {
		t.Fatal(err)
	}
	said := ""
	until(t, ttl+generous, "the old release to say why it does not serve", func() (bool, string) {
		if !r.Alive() {
			said = "ended"
			return true, ""
		}
		if response, err := http.Get("http://" + r.HTTP + "/health/ready"); err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				t.Fatal("it serves")
			}
		}
		return strings.Contains(c.lastLife(0), "belowFormatFloor") || strings.Contains(c.lastLife(0), "below the format floor"), c.lastLife(0)
	})
	if said == "" {
		said = "not ready, and says that it is below the format floor"
	}
	rollBack.was(t, said)
	l.flows(t, time.Now())
	r.Kill()
	c.upgrade(t, 0, next)
	c.awaitLinked(t)
	l.finish(t)
}

// upgrade stops a replica as an operator would and starts it as another program.
func (c *cluster) upgrade(t *testing.T, i int, program string) {
	t.Helper()
	if err := c.Replicas[i].Upgrade(t.Context(), program); err != nil {
		t.Fatal(err)
	}
}

// lastLife is what a replica has printed since its last start.
func (c *cluster) lastLife(i int) string { return c.Replicas[i].Process().Output() }

// floor is the cluster's format floor.
func (c *cluster) floor(t *testing.T) membership.Format {
	t.Helper()
	m, err := c.jetstream(t).GetLastMsg("KV_"+state.ClusterFloor, "$KV."+state.ClusterFloor+".>")
	if err != nil {
		t.Fatal(err)
	}
	f, err := membership.DecodeFloor(m.Data)
	if err != nil {
		t.Fatal(err)
	}
	return f.Format
}

// writes is the format of what a device's CONNECT leaves behind.
func (c *cluster) writes(t *testing.T) membership.Format {
	t.Helper()
	c.brokers[0].Client(t, "device", "format-witness")
	m, err := c.jetstream(t).GetLastMsg("KV_"+state.Sessions, "$KV."+state.Sessions+".format-witness")
	if err != nil {
		t.Fatal(err)
	}
	return membership.Format(m.Data[0]) // a uvarint below 128
}
