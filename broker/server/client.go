package server

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"maestrohub.io/uns/broker/session"
)

// client is what the server holds under one client identifier: its session, and
// the connection that serves it now, if any. It is in Server.clients while there
// is either, or a CONNECT that claims it.
type client struct {
	id string
	// claimed holds a token while a CONNECT takes the identifier over, so that
	// there is one at a time.
	claimed chan struct{}
	// claims counts CONNECTs that hold or wait for the token. Owner: Server.mu.
	claims int

	// lock guards what follows, and everything of conn that says so.
	lock    sync.Mutex
	session *session.Session
	conn    *connection
	// claimant is the CONNECT that is taking the identifier over in a cluster.
	claimant *connection
	// last is the connection before: what it sent may still be on its way.
	last *connection
	// online is conn != nil, readable without the lock.
	online atomic.Bool
	// offline is when the last connection ended.
	offline time.Time
	expiry  *task
	will    *waitingWill
	// asking are the SUBSCRIBEs under way or late, which note the newest position sent of
	// each topic: a retained message older than that is not sent after it.
	asking []*asked
}

// claim takes the client identifier for one CONNECT. The identifier is given
// back by unclaim.
func (s *Server) claim(ctx context.Context, id string) (*client, error) {
	s.mu.Lock()
	cl := s.clients[id]
	if cl == nil {
		cl = &client{id: id, claimed: make(chan struct{}, 1)}
		s.clients[id] = cl
	}
	cl.claims++
	s.mu.Unlock()
	select {
	case cl.claimed <- struct{}{}:
		return cl, nil
	case <-ctx.Done():
		s.unclaim(cl, false)
		return nil, fmt.Errorf("claim client id %q: %w", id, ctx.Err())
	}
}

func (s *Server) unclaim(cl *client, held bool) {
	if held {
		<-cl.claimed
	}
	s.mu.Lock()
	cl.claims--
	s.mu.Unlock()
	s.forget(cl)
}

// forget drops a client that has neither session nor connection, and nothing on
// its way.
func (s *Server) forget(cl *client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cl.claims > 0 {
		return
	}
	cl.lock.Lock()
	// The last connection is not forgotten before everything of it is settled: a CONNECT
	// that does not know of it would not wait.
	empty := cl.session == nil && cl.conn == nil && cl.last == nil && cl.will == nil
	cl.lock.Unlock()
	if empty && s.clients[cl.id] == cl {
		delete(s.clients, cl.id)
	}
}

// register counts a connection against the limits and returns the name of the
// one it would exceed, "" if it may be served.
func (s *Server) register(c *connection) (exceeded string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.stopping.Load():
		return "stopping"
	case s.connected >= s.limits.MaxClients:
		return "max_clients"
	case len(s.credential[c.identity]) >= s.limits.MaxConnectionsPerCredential:
		return "max_connections_per_credential"
	}
	set := s.credential[c.identity]
	if set == nil {
		set = make(map[*connection]bool)
		s.credential[c.identity] = set
	}
	set[c] = true
	s.connected++
	s.metrics.ClientsConnected.Set(float64(s.connected))
	return ""
}

func (s *Server) unregister(c *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	set := s.credential[c.identity]
	if !set[c] {
		return
	}
	delete(set, c)
	if len(set) == 0 {
		delete(s.credential, c.identity)
	}
	s.connected--
	s.metrics.ClientsConnected.Set(float64(s.connected))
}

// endSession takes the session away and returns what is left to do without the
// lock, which the caller holds. why is the metric's word for it.
func (s *Server) endSession(cl *client, why string) (after func()) {
	s.metrics.SessionsEnded.WithLabelValues(why).Inc()
	se := cl.session
	cl.session = nil
	s.agenda.cancel(cl.expiry)
	cl.expiry = nil
	return func() {
		w := s.workspace(se.Workspace)
		for _, sub := range se.Subscriptions() {
			w.remove(se, sub)
		}
		w.inherit(se, 0)
	}
}

// expire ends the session of a client that has not come back in time
// [MQTT-4.1.0-2].
func (s *Server) expire(cl *client, se *session.Session, why string) {
	cl.lock.Lock()
	if cl.session != se || cl.conn != nil {
		cl.lock.Unlock()
		return
	}
	after := s.endSession(cl, why)
	cl.lock.Unlock()
	after()
	s.sendWill(cl, nil)
	s.forget(cl)
}
