package cluster_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	membership "maestrohub.io/uns/broker/cluster"
	"maestrohub.io/uns/broker/state"
)

// jetstream is a connection of the tests' own to the shared state.
func (c *cluster) jetstream(t *testing.T) nats.JetStreamContext {
	t.Helper()
	if c.nats == nil {
		nc, err := nats.Connect(c.NATSURL(), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond), nats.PingInterval(time.Second), nats.MaxPingsOutstanding(3))
		if err != nil {
			t.Fatal(err)
		}
		c.nats = nc
	}
	js, err := c.nats.JetStream(nats.MaxWait(2 * time.Second))
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// entry waits until a member's entry can be read and is what is wanted, and returns
// when NATS took it.
func (c *cluster) entry(t *testing.T, replica int, within time.Duration, what string, want func(membership.Entry) bool) time.Time {
	t.Helper()
	js, id := c.jetstream(t), c.Replicas[replica].ID
	var at time.Time
	until(t, within, id+" "+what, func() (bool, string) {
		m, err := js.GetLastMsg("KV_"+state.Members, "$KV."+state.Members+"."+id)
		if err != nil {
			return false, err.Error()
		}
		e, err := membership.DecodeEntry(m.Data)
		if err != nil {
			t.Fatal(err)
		}
		at = m.Time
		return want(e), fmt.Sprintf("its entry says %v", e.Phase)
	})
	return at
}

// lastWrite returns when NATS took the last write of a replica's entry, which ended
// just now.
func (c *cluster) lastWrite(t *testing.T, replica int) time.Time {
	t.Helper()
	return c.entry(t, replica, ttl, "to have an entry", func(e membership.Entry) bool { return e.Phase != membership.Gone })
}

// awaitGone waits until a replica is judged gone and returns when it was.
func (c *cluster) awaitGone(t *testing.T, replica int) time.Time {
	t.Helper()
	return c.entry(t, replica, 17*ttl/10+generous, "to be taken for gone", func(e membership.Entry) bool { return e.Phase == membership.Gone })
}

// isGone reports whether a replica's entry says that it was judged gone.
func (c *cluster) isGone(t *testing.T, replica int) bool {
	t.Helper()
	m, err := c.jetstream(t).GetLastMsg("KV_"+state.Members, "$KV."+state.Members+"."+c.Replicas[replica].ID)
	if err != nil {
		return false
	}
	e, err := membership.DecodeEntry(m.Data)
	return err == nil && e.Phase == membership.Gone
}

// sweeps reports whether a replica holds the sweep lock.
func (c *cluster) sweeps(t *testing.T, replica int) bool {
	t.Helper()
	m, err := c.jetstream(t).GetLastMsg("KV_"+state.Locks, "$KV."+state.Locks+".>")
	return err == nil && strings.HasPrefix(string(m.Data), c.Replicas[replica].ID+" ")
}
