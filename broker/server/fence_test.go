package server

import (
	"testing"

	"maestrohub.io/uns/broker/cluster"
	"maestrohub.io/uns/broker/session"
)

// NATS does not answer: a publish is refused after sessionLogAppendWait, which closes an
// MQTT 3 connection, and its last word waits for NATS. Then the replica fences. The device
// that comes back must not wait for that word, which is not written any more.
func TestAFenceSettlesConnectionsThatHadEndedBefore(t *testing.T) {
	s := &Server{clients: map[string]*client{}}
	ended := func(id string, outcomes int) *connection {
		cl := &client{id: id}
		c := &connection{server: s, client: cl, lock: &cl.lock, session: &session.Session{ClientID: id}, settled: make(chan struct{}), attached: true, ended: true, detached: true}
		c.held = &holding{record: &cluster.Session{}, last: true, cursor: recorder{wanted: 2, landed: 1}}
		for range outcomes {
			c.acks.push(pending{id: 1, qos: 1})
		}
		cl.last = c
		s.clients[id] = cl
		return c
	}
	settled := func(c *connection) bool {
		select {
		case <-c.settled:
			return true
		default:
			return false
		}
	}
	waits, open := ended("waits", 0), ended("open", 1)
	for _, c := range []*connection{waits, open} {
		c.lock.Lock()
		c.settle()
		c.lock.Unlock()
		if settled(c) {
			t.Fatalf("%s settled before the store had its last word", c.client.id)
		}
	}
	s.Fence()
	if !settled(waits) {
		t.Error("its last word is waited for after the fence")
	}
	if settled(open) {
		t.Error("settled although the chain has not given the outcome of its publish")
	}
	open.lock.Lock()
	open.acks.at(0).done = true
	open.acknowledge()
	open.settle()
	open.lock.Unlock()
	if !settled(open) {
		t.Error("not settled by the last outcome")
	}
}
