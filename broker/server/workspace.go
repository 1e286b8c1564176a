package server

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"maestrohub.io/uns/broker/session"
	"maestrohub.io/uns/broker/topic"
	"maestrohub.io/uns/broker/value"
)

// workspace is what the sessions of one workspace share: the index of their
// subscriptions and the feed from their session log. Workspaces are walled: a
// value is only ever matched against the subscriptions of its own.
type workspace struct {
	server *Server
	slug   string
	index  topic.Index[indexKey, binding]
	// wanted is what the persistent sessions of the whole cluster want, connected
	// or not; empty on a single node, whose index has them.
	wanted topic.Index[wantedKey, wantedSub]

	// The matches of recent topics, each valid for one generation of the index.
	cacheMu sync.RWMutex
	cache   map[string]*matches

	turnMu sync.Mutex
	turns  map[string]*atomic.Uint64 // per shared subscription: whose turn it is

	// opening holds a token while the feed is opened, so that it is opened once. Who waits
	// for it waits for the store, and no longer than for that.
	opening chan struct{}
	feed    atomic.Pointer[feed]

	arriving   arriving
	redirected redirected
}

// indexKey tells a session's subscriptions with the same bare filter apart: its
// own, and one per share name.
type indexKey struct {
	session *session.Session
	share   string
}

// binding is one subscription in the index.
type binding struct {
	client  *client
	session *session.Session
	sub     *session.Subscription
}

// maxCachedTopics bounds the cache of matches; past it the cache starts anew.
const maxCachedTopics = 4096

// workspace returns the workspace of that slug.
func (s *Server) workspace(slug string) *workspace {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.workspaces[slug]
	if w == nil {
		w = &workspace{server: s, slug: slug, cache: make(map[string]*matches), turns: make(map[string]*atomic.Uint64), opening: make(chan struct{}, 1)}
		w.arriving.store, w.arriving.longest = s.options.Retained, 2*s.options.Config.SessionLogAppendWait
		s.workspaces[slug] = w
	}
	return w
}

// slugs are the workspaces there are.
func (s *Server) slugs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.workspaces))
}

func (w *workspace) add(cl *client, se *session.Session, sub *session.Subscription) {
	w.index.Set(sub.Bare, indexKey{se, sub.Share}, binding{cl, se, sub})
	w.server.generation.Add(1)
}

func (w *workspace) remove(se *session.Session, sub *session.Subscription) {
	w.index.Delete(sub.Bare, indexKey{se, sub.Share})
	w.server.generation.Add(1)
}

// matches are the subscriptions one topic name matches.
type matches struct {
	generation [3]uint64 // of the indexes it was made of
	targets    []target
	// peers are the replicas that have live subscribers.
	peers  []string
	shares []shareMatch
	// logged says that a persistent session's subscription at QoS 1 or 2 matches: the
	// session log has to hold a value of QoS 1 or 2.
	logged bool
}

// target is a session with all its own subscriptions that match.
type target struct {
	client  *client
	session *session.Session
	subs    []*session.Subscription
}

// match returns the subscriptions that match name, as of now.
func (w *workspace) match(name string) *matches {
	generation := w.generation()
	w.cacheMu.RLock()
	m := w.cache[name]
	w.cacheMu.RUnlock()
	if m != nil && m.generation == generation {
		return m
	}
	// The generation is read before matching: a change in between makes this match
	// old at once, never falsely new.
	m = &matches{generation: generation}
	places := make(map[*session.Session]int)
	w.index.Match(name, func(_ indexKey, b binding) {
		if b.sub.Share != "" {
			m.share(w, b.sub.Key()).add(member{client: b.session.ClientID, local: &b, qos: b.sub.QoS, persistent: b.session.Persistent})
			return
		}
		i, ok := places[b.session]
		if !ok {
			i = len(m.targets)
			places[b.session] = i
			m.targets = append(m.targets, target{client: b.client, session: b.session})
		}
		m.targets[i].subs = append(m.targets[i].subs, b.sub)
		m.logged = m.logged || b.session.Persistent && b.sub.QoS > 0
	})
	if sh := w.server.shared; sh != nil {
		w.wanted.Match(name, func(k wantedKey, sub wantedSub) {
			if k.share == "" {
				m.logged = m.logged || sub.qos > 0
				return
			}
			m.share(w, sub.key).add(member{client: sub.client, qos: sub.qos, persistent: true})
		})
		sh.remote.Match(name, func(_ string, r *remoteRoute) {
			replica := r.route.Incarnation.Replica
			if r.share == "" {
				if !slices.Contains(m.peers, replica) {
					m.peers = append(m.peers, replica)
				}
				return
			}
			for _, client := range r.route.Members {
				m.share(w, r.share+"/"+r.bare).add(member{client: client, replica: replica, qos: r.route.QoS})
			}
		})
	}
	w.cacheMu.Lock()
	if len(w.cache) >= maxCachedTopics {
		clear(w.cache)
	}
	w.cache[name] = m
	w.cacheMu.Unlock()
	return m
}

// share returns the shared subscription of that key, making it.
func (m *matches) share(w *workspace, key string) *shareMatch {
	for i := range m.shares {
		if m.shares[i].key == key {
			return &m.shares[i]
		}
	}
	m.shares = append(m.shares, shareMatch{key: key, turn: w.turn(key)})
	return &m.shares[len(m.shares)-1]
}

// generation is that of all the indexes a match is made of.
func (w *workspace) generation() [3]uint64 {
	g := [3]uint64{w.index.Generation(), w.wanted.Generation(), 0}
	if sh := w.server.shared; sh != nil {
		g[2] = sh.remote.Generation()
	}
	return g
}

func (w *workspace) turn(key string) *atomic.Uint64 {
	w.turnMu.Lock()
	defer w.turnMu.Unlock()
	t := w.turns[key]
	if t == nil {
		t = new(atomic.Uint64)
		w.turns[key] = t
	}
	return t
}

// Wanted implements ingest.Wanted: whether the session log has to hold v. It
// also chooses the members of v's shared subscriptions, so that the choice is in
// the log record.
func (s *Server) Wanted(v *value.Value) bool {
	m := s.workspace(v.Workspace).match(v.Name)
	logged := m.choose(v)
	return v.QoS > 0 && (m.logged || logged)
}

// Generation implements ingest.Wanted.
func (s *Server) Generation() uint64 { return s.generation.Load() }
