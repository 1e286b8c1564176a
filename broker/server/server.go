package server

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"maestrohub.io/uns/broker/access"
	"maestrohub.io/uns/broker/cluster"
	"maestrohub.io/uns/broker/config"
	"maestrohub.io/uns/broker/ingest"
	"maestrohub.io/uns/broker/listener"
	"maestrohub.io/uns/broker/metrics"
	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/broker/retained"
	"maestrohub.io/uns/broker/session"
	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/topic"
)

// Ingest is the door every value goes through.
type Ingest interface {
	Publish(p ingest.Publish)
	// Check says what Publish would say of a topic name alone.
	Check(name string, g *access.Grants) ingest.Outcome
	// Settled is closed once what was accepted in the workspace before has its outcome.
	Settled(workspace string) <-chan struct{}
}

// Access signs clients in and tells when what it said no longer holds.
type Access interface {
	SignIn(ctx context.Context, userName string, password []byte, remote netip.Addr) (*access.Grants, error)
	// Standing is an API client as the store has it, to renew its grants.
	Standing(ctx context.Context, id string) (*access.Standing, error)
	OnChange(ctx context.Context) <-chan string
	// Present are the grants of an API client, for a will sent in its name.
	Present(ctx context.Context, id string) (*access.Grants, error)
	// Deleted reports whether an API client was deleted: its sessions end.
	Deleted(ctx context.Context, id string) (bool, error)
}

// Options are what a Server is made of. All of them are needed.
type Options struct {
	Config   *config.Config
	Access   Access
	Retained *retained.Retained
	Store    state.Store
	// LogID returns the id under which a workspace's session log is kept.
	LogID   func(workspace string) string
	Metrics *metrics.Metrics
	Log     *slog.Logger
	// FixedIdentifiers is how many packet identifiers follow from places in the session
	// log, the same at every replica; 0: session.FixedSpan, which is the most.
	FixedIdentifiers uint64
}

// Server is the broker's side of every MQTT connection of this replica.
//
// Locks, in the order they are taken: a workspace's feed, Server.mu, client.lock, then
// ownRoutes.mu; shared.mu under none of them. Under each of them those that take no other of
// this package: of the agenda, the directory, owed, the known owners, an index, arriving.
// Membership and the mesh are asked under any of them, and call back under no lock of theirs
// but for AppliedRevisions, which takes none. A lane is told of an arrival, and nothing else,
// under client.lock. None is held over I/O or over any other call into ingest, access or the state.
type Server struct {
	options Options
	limits  config.Limits
	grammar topic.Grammar
	ingest  Ingest
	metrics *metrics.Metrics
	log     *slog.Logger

	// ctx ends when the server has stopped.
	ctx     context.Context
	cancel  context.CancelFunc
	started time.Time
	tasks   sync.WaitGroup
	ending  sync.RWMutex // of waits
	waits   bool         // Stop waits for tasks: no more are counted
	agenda  *agenda
	// authenticating holds a token for each CONNECT in its credential check.
	authenticating chan struct{}
	stopping       atomic.Bool
	missed         atomic.Uint64 // values the logs dropped unread
	readsHeld      atomic.Int64  // sessions whose log reads wait for the store
	// claims are the connections (*connection) from their claim of a client identifier until
	// they are settled, or the claim is taken back. A stop that cut off what is written last
	// would leave a device that said goodbye for one that was lost: its will would be sent.
	claims sync.Map

	mu         sync.Mutex
	clients    map[string]*client              // by client identifier
	credential map[string]map[*connection]bool // connections by API client
	connected  int
	workspaces map[string]*workspace // by slug

	// generation moves with every change of any workspace's index.
	generation atomic.Uint64

	// shared is this server's part in a cluster; nil on a single node.
	shared *shared
	// fenced: no CONNECT is accepted until Serve. deadline is the serving
	// incarnation's; nil on a single node.
	fenced   atomic.Bool
	deadline atomic.Pointer[cluster.Deadline]
	life     atomic.Pointer[life] // nil before the first Serve
}

// New returns a server that serves no connection before SetIngest. It runs until
// Stop.
func New(o Options) *Server {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{
		options: o, limits: o.Config.Limits, grammar: topic.Grammar{Version: o.Config.TopicVersion},
		log: o.Log, metrics: o.Metrics, ctx: ctx, cancel: cancel, started: time.Now(),
		authenticating: make(chan struct{}, o.Config.Limits.MaxConnectsAuthenticating),
		clients:        make(map[string]*client),
		credential:     make(map[string]map[*connection]bool),
		workspaces:     make(map[string]*workspace),
	}
	if o.FixedIdentifiers == 0 {
		s.options.FixedIdentifiers = session.FixedSpan
	}
	s.agenda = newAgenda()
	o.Metrics.SessionsOnline.From(func() float64 { st := s.Stats(); return float64(st.Sessions - st.Offline) })
	o.Metrics.SessionsOffline.From(func() float64 { return float64(s.Stats().Offline) })
	o.Metrics.Subscriptions.From(func() float64 { return float64(s.Stats().Subscriptions) })
	s.tasks.Add(3)
	go func() { defer s.tasks.Done(); s.agenda.run(ctx) }()
	go func() { defer s.tasks.Done(); s.followCredentials(ctx) }()
	go func() { defer s.tasks.Done(); s.sweep(ctx) }()
	return s
}

// SetIngest gives the server the chain its clients' values go through; ingest
// itself is made with the server, to whose clients it delivers.
func (s *Server) SetIngest(i Ingest) { s.ingest = i }

// errStopping is why a connection is refused while the server stops.
var errStopping = errors.New("server shutting down")

// Handle serves one connection until it ends. It returns when the socket is
// closed; values the client has sent may still be on their way through the chain.
func (s *Server) Handle(nc *listener.Conn) {
	c := &connection{server: s, nc: nc, reader: newPacketReader(nc, nc.TCP()), settled: make(chan struct{})}
	c.out.nc, c.out.metrics = nc, s.metrics
	c.serve()
}

// Stop disconnects every client, MQTT 5 with 0x8B, and waits until what they
// had sent is settled, or ctx is done. New connections are refused.
func (s *Server) Stop(ctx context.Context) error {
	s.stopping.Store(true)
	for _, c := range s.connections() {
		c.close("stopping", mqtt.ServerShuttingDown, "server shutting down")
	}
	err := s.awaitClaims(ctx)
	s.cancel()
	s.ending.Lock()
	s.waits = true
	s.ending.Unlock()
	s.tasks.Wait()
	return err
}

// awaitClaims waits until nothing is to be written about any connection.
func (s *Server) awaitClaims(ctx context.Context) (err error) {
	for some := true; some && err == nil; {
		some = false
		s.claims.Range(func(c, _ any) bool {
			some = true
			select {
			case <-c.(*connection).settled:
			case <-ctx.Done():
				err = ctx.Err()
			}
			return err == nil
		})
	}
	return err
}

// connections returns the connections that are served now.
func (s *Server) connections() []*connection {
	s.mu.Lock()
	defer s.mu.Unlock()
	var open []*connection
	for _, set := range s.credential {
		for c := range set {
			open = append(open, c)
		}
	}
	return open
}

// Stats are the figures of the moment, of this replica.
type Stats struct {
	// Clients connected; MaxClients is the limit.
	Clients, MaxClients int
	// Sessions there are, those of them that are persistent, and those that have no
	// connection.
	Sessions, Persistent, Offline int
	// Subscriptions of all sessions.
	Subscriptions int
	// Missed counts values the session logs dropped before a session read them.
	Missed uint64
	// ReadsHeld are sessions whose reads of their log wait for the store.
	ReadsHeld int
}

// Stats counts clients and sessions. It visits each: for status pages, not for
// every message.
func (s *Server) Stats() Stats {
	st := Stats{MaxClients: s.limits.MaxClients, Missed: s.missed.Load(), ReadsHeld: int(s.readsHeld.Load())}
	s.mu.Lock()
	st.Clients = s.connected
	list := make([]*client, 0, len(s.clients))
	for _, c := range s.clients {
		list = append(list, c)
	}
	s.mu.Unlock()
	for _, c := range list {
		c.lock.Lock()
		if c.session != nil {
			st.Subscriptions += c.session.Len()
			st.Sessions++
			if c.session.Persistent {
				st.Persistent++
			}
			if c.conn == nil {
				st.Offline++
			}
		}
		c.lock.Unlock()
	}
	return st
}

// Connected describes one connected client.
type Connected struct {
	ClientID, Identity, Remote, Transport string
	Version                               mqtt.Version
	Since                                 time.Time
	Persistent                            bool
	Subscriptions                         int
}

// Connections lists the connected clients of a workspace.
func (s *Server) Connections(workspace string) []Connected {
	var list []Connected
	for _, c := range s.connections() {
		c.lock.Lock()
		if c.attached && !c.ended && c.session.Workspace == workspace {
			se := c.session
			list = append(list, Connected{ClientID: se.ClientID, Identity: se.Identity, Remote: c.nc.RemoteAddr().String(),
				Transport: c.nc.Transport, Version: c.version, Since: c.since, Persistent: se.Persistent, Subscriptions: se.Len()})
		}
		c.lock.Unlock()
	}
	return list
}
