package server

import (
	"context"
	"sync/atomic"
	"time"

	"maestrohub.io/uns/broker/mesh"
	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/broker/value"
)

// arrivals counts what the outcomes of a batch wait for: the acknowledgments of
// other replicas. done runs once, when the last has come.
type arrivals struct {
	left atomic.Int64
	done func()
}

// add counts one more, and returns what is to be called when it has come. nil
// arrivals count nothing.
func (a *arrivals) add() func() {
	if a == nil {
		return func() {}
	}
	a.left.Add(1)
	return a.drop
}

func (a *arrivals) drop() {
	if a != nil && a.left.Add(-1) == 0 {
		a.done()
	}
}

// DeliverLinked implements ingest.Linked: Deliver, here and at the replicas that
// have live subscribers. arrived is called once they have the values in their
// subscribers' queues, or are not linked any more.
func (s *Server) DeliverLinked(batch []*value.Value, arrived func()) bool {
	if s.shared == nil {
		s.Deliver(batch)
		return false
	}
	var outgoing []mesh.Outgoing
	for _, v := range batch {
		if m := s.workspace(v.Workspace).match(v.Name); len(m.peers) > 0 {
			outgoing = append(outgoing, mesh.Outgoing{Value: v, Peers: m.peers})
		}
	}
	sent := &arrivals{done: arrived}
	first := sent.add() // held until everything is on its way
	if len(outgoing) > 0 {
		s.shared.Mesh.SendValues(outgoing, sent.add())
	}
	s.deliver(batch, true, sent)
	if sent.left.Load() == 1 {
		return false // nothing left this replica, or it has arrived already
	}
	first()
	return true
}

// Values implements mesh.Handler: the live copies of another replica's values.
func (s *Server) Values(_ mesh.Peer, batch []mesh.Received) {
	values := make([]*value.Value, len(batch))
	for i := range batch {
		values[i] = batch[i].Value
	}
	s.deliver(values, false, nil)
}

// Share implements mesh.Handler: a value for one member of a shared subscription.
func (s *Server) Share(_ mesh.Peer, share mesh.Share, answer func(mesh.ShareOutcome)) {
	settled := func(taken bool) {
		if taken {
			answer(mesh.ShareTaken)
		} else {
			answer(mesh.ShareReturned)
		}
	}
	w := s.workspace(share.Value.Workspace)
	m, ok := w.match(share.Value.Name).member(value.Share{Key: share.Key, Session: share.Session})
	var started touched
	if !ok || m.local == nil || !m.local.deliver(&encoding{value: share.Value}, share.Key, settled, &started) {
		settled(false)
	}
	started.start()
}

// Release implements mesh.Handler: a CONNECT at another replica has claimed a client
// identifier that may be held here.
func (s *Server) Release(_ mesh.Peer, r mesh.Release, answer func(mesh.Released)) {
	s.mu.Lock()
	cl := s.clients[r.ClientID]
	s.mu.Unlock()
	if cl == nil {
		answer(mesh.Released{Ended: mesh.NotHeld})
		return
	}
	cl.lock.Lock()
	open, last := cl.conn, cl.last
	if open != nil && open.claimedOver(r.ConnectionID) {
		open, last = nil, nil // the asking claim is the older one: it has been overtaken
	}
	ended := mesh.NotHeld
	if cl.claimant != nil && cl.claimant.giveUp(r.ConnectionID) {
		ended = mesh.GaveUpClaim
	}
	released := mesh.Released{Ended: ended}
	if last != nil {
		released = mesh.Released{Ended: mesh.AlreadyLost, ConnectionID: last.held.owner.Connection.String()}
	}
	cl.lock.Unlock()
	if last == nil {
		answer(released)
		return
	}
	s.background(func(ctx context.Context) {
		if open != nil {
			released.Ended = mesh.ClosedByTakeover
			open.end(ending{why: "taken_over", code: mqtt.SessionTakenOver, reason: "another connection took over", notify: true, taken: true, elsewhere: true})
		}
		select {
		case <-last.settled:
			answer(released)
		case <-ctx.Done():
		}
	})
}

// giveUp asks a connection that is still claiming to give up for another's claim, and
// reports whether it has. Else it would serve until it learns of that claim, and what it
// takes meanwhile it could not record; what it has confirmed so far makes the other read
// again. It goes on if its own claim was made over the other's, which then gives up
// by the same rule; while its claim is out, that is decided when it has landed (claimed).
// The lock is held.
func (c *connection) giveUp(by string) bool {
	switch {
	case c.over == nil:
		c.asked = append(c.asked, by)
		return false
	case c.claimedOver(by):
		return false
	}
	c.gaveUp.Store(true)
	return true
}

// Returning implements mesh.Handler.
func (s *Server) Returning(_ mesh.Peer, client string) { s.shared.returns(client) }

// Applied implements mesh.Handler: how far another replica's index is.
func (s *Server) Applied(from mesh.Peer, a mesh.Applied) {
	sh := s.shared
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.reports[from.Replica] = report{from.Incarnation, a}
	close(sh.changed)
	sh.changed = make(chan struct{})
}

// LinksChanged implements mesh.Handler: who waits for reports looks again.
func (s *Server) LinksChanged() {
	sh := s.shared
	if sh == nil {
		return
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	close(sh.changed)
	sh.changed = make(chan struct{})
}

// subscribeWait bounds what a SUBACK waits for: the route of a clean session, and,
// for a persistent one, every member's report. The latter is the bound within which an
// index counts as fresh, so that a replica that has not reported by then holds its
// values until it is.
const (
	subscribeWait = 2 * time.Second
	reportsWait   = 3 * time.Second
)

// awaitSubscribed makes subscriptions known to the cluster before their SUBACK; late says
// that they may not be known everywhere yet.
func (c *connection) awaitSubscribed(ctx context.Context, landed []<-chan struct{}, named []string) (late bool, err error) {
	sh := c.server.shared
	var revision uint64
	if c.clustered() {
		var err error
		if revision, err = c.saveSession(ctx, named); err != nil {
			return false, err
		}
	}
	timeout, cancel := context.WithTimeout(ctx, subscribeWait)
	defer cancel()
	for _, l := range landed {
		select {
		case <-l:
		case <-timeout.Done():
			late = true
		}
	}
	if c.clustered() {
		var routes uint64
		if len(landed) > 0 { // of what no log brings, and of a share's member
			routes = sh.own.revision()
		}
		late = !sh.awaitReports(ctx, reportsWait, true, func(r report) bool { return r.applied.Sessions >= revision && r.applied.Routes >= routes }) || late
	} else if !late {
		routes := sh.own.revision()
		late = !sh.awaitReports(timeout, subscribeWait, false, func(r report) bool { return r.applied.Routes >= routes })
	}
	if late {
		c.server.metrics.SubscribeIndexWaitTimeouts.Inc()
	}
	return late, nil
}
