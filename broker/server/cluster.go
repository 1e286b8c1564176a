package server

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"maestrohub.io/uns/broker/cluster"
	"maestrohub.io/uns/broker/mesh"
	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/topic"
)

// Member is this replica's membership; *cluster.Member is one.
type Member interface {
	Floor() cluster.Format
	Ending(i cluster.Incarnation) cluster.Ending
	Members() []cluster.Entry
	Current(now time.Time) bool
	Refused()
}

// Cluster is what a server shares with the other replicas. All of it is needed.
type Cluster struct {
	Replica string
	Member  Member
	Mesh    *mesh.Mesh
	Fresh   *cluster.Freshness
	// Returning tells the sweep that a CONNECT of the client has arrived.
	Returning func(client string)
}

// shared is a server's part in a cluster; a single node has none.
//
// Its sessions live in the shared state: a persistent session is in memory only
// while it is connected here, and what every persistent session of the cluster
// wants is an index derived from mqtt-session-state.
type shared struct {
	Cluster
	server *Server

	owners, sessions, cursors, received, wills, routes state.Bucket

	// remote holds the filters of other replicas' live subscribers, by route key.
	remote topic.Index[string, *remoteRoute]
	own    ownRoutes
	owed   owed
	// holders are the owner records as this replica knows them.
	holders knownOwners
	// lostWills are the connections lost here whose wills wait, by client identifier.
	lostWills sync.Map // of *connection

	mu sync.Mutex // before the locks of Member and Mesh, under no other of the server
	// known are the persistent sessions of the cluster, by client identifier.
	known map[string]*knownSession
	// foreign are the routes in remote, by route key.
	foreign map[string]*cluster.Route
	// reached is how far this replica's index is; reports is how far the others are, by
	// replica. changed is closed and replaced when a report comes.
	reached   mesh.Applied
	reporting bool
	reports   map[string]report
	changed   chan struct{}

	// applied is how far this replica has reported its index to be. Outside mu: Member
	// asks for it under a lock of its own, and is asked itself under mu.
	applied atomic.Pointer[mesh.Applied]
}

// reported is how far this replica has reported its index to be.
func (sh *shared) reported() mesh.Applied {
	if a := sh.applied.Load(); a != nil {
		return *a
	}
	return mesh.Applied{}
}

// report is what another replica has said of its index.
type report struct {
	incarnation uint64
	applied     mesh.Applied
}

// knownSession is a persistent session as the index knows it.
type knownSession struct {
	session  *cluster.Session
	revision uint64
}

// SetCluster makes the server one of a cluster, before it serves. It follows the
// session states and routes until the server stops; Serve and Fence say when it
// may serve.
func (s *Server) SetCluster(ctx context.Context, c Cluster) error {
	sh := &shared{Cluster: c, server: s, known: make(map[string]*knownSession), foreign: make(map[string]*cluster.Route),
		reports: make(map[string]report), changed: make(chan struct{})}
	sh.holders.began, sh.holders.records, sh.holders.names = time.Now(), make(map[string]knownOwner), make(map[string]string)
	sh.own.shared = sh
	sh.own.count = make(map[string]*ownRoute)
	for name, b := range map[string]*state.Bucket{state.Sessions: &sh.owners, state.SessionState: &sh.sessions, state.SessionCursor: &sh.cursors,
		state.SessionQoS2: &sh.received, state.SessionWill: &sh.wills, state.Routes: &sh.routes} {
		var err error
		if *b, err = s.options.Store.Bucket(ctx, name); err != nil {
			return err
		}
	}
	s.shared = sh
	s.fenced.Store(true)
	if err := sh.follow(ctx); err != nil {
		return err
	}
	return sh.followOwners()
}

// Serve opens the server for an incarnation: under its deadline, until Fence.
func (s *Server) Serve(d *cluster.Deadline) {
	s.deadline.Store(d)
	ctx, end := context.WithCancel(s.ctx)
	s.life.Store(&life{ctx, end})
	s.fenced.Store(false)
}

// life is the time of one incarnation, from Serve to Fence.
type life struct {
	ctx context.Context
	end context.CancelFunc
}

// atFence has f called at the next fence, or now if the server is fenced, unless stop is
// called before.
func (s *Server) atFence(f func()) (stop func() bool) {
	if l := s.life.Load(); l != nil {
		return context.AfterFunc(l.ctx, f)
	}
	return func() bool { return true }
}

// Fence ends the incarnation: every connection is closed (MQTT 5: 0x8B), nothing
// that was theirs is written any more, and CONNECTs are refused until Serve.
func (s *Server) Fence() {
	s.fenced.Store(true)
	if l := s.life.Load(); l != nil {
		l.end() // CONNECTs under way are refused now, not when NATS answers
	}
	for _, c := range s.connections() {
		c.end(ending{why: "fenced", code: mqtt.ServerShuttingDown, reason: "the replica has lost the shared stores", notify: true, fenced: true})
	}
	s.letGoEnded()
	if s.shared != nil {
		s.shared.own.forget()
	}
}

// letGoEnded settles the connections that had ended before the fence and still waited
// for the store to take their last word, which it is not told any more. Whoever comes
// back under their client identifiers would wait for it in vain.
func (s *Server) letGoEnded() {
	s.mu.Lock()
	list := make([]*client, 0, len(s.clients))
	for _, cl := range s.clients {
		list = append(list, cl)
	}
	s.mu.Unlock()
	for _, cl := range list {
		cl.lock.Lock()
		if c := cl.last; c != nil && c.ended {
			c.fenced = true
			c.settle()
		}
		cl.lock.Unlock()
	}
}

// mayAct reports whether this incarnation may still do what others see: it is
// asked immediately before.
func (c *connection) mayAct() bool { return c.deadline == nil || c.deadline.MayAct(time.Now()) }

// MayAct reports whether the incarnation that is served may still do what others
// see.
func (s *Server) MayAct() bool { return !s.fenced.Load() && s.deadline.Load().MayAct(time.Now()) }

// HasLog implements ingest.LogKnower: whether the workspace is known to have a
// session log.
func (s *Server) HasLog(workspace string) bool {
	w := s.workspace(workspace)
	return w.feed.Load() != nil || w.wanted.Len() > 0
}

// incarnation is the one serving now; zero while none is.
func (s *Server) incarnation() cluster.Incarnation {
	if d := s.deadline.Load(); d != nil {
		return d.Incarnation()
	}
	return cluster.Incarnation{}
}
