package server

import (
	"cmp"
	"context"
	"slices"
	"time"

	"maestrohub.io/uns/broker/cluster"
	"maestrohub.io/uns/broker/session"
)

// sweepEvery is how often sessions of deleted API clients and the bound on offline
// sessions are looked at. Expiries do not wait for it: they have their own time.
const sweepEvery = 5 * time.Second

// sweep ends the sessions of API clients that were deleted, and keeps at most
// maxOfflineSessions sessions that have been offline for longer than willStopGrace, ending
// those offline longest. The grace keeps the devices of a moment's outage from counting.
func (s *Server) sweep(ctx context.Context) {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			s.endDisowned(ctx)
			s.endLongestOffline()
		}
	}
}

// away is a session without a connection.
type away struct {
	client  *client
	session *session.Session
	since   time.Time
}

// offline are the sessions without a connection, but for those that had one after limit.
func (s *Server) offline(limit time.Time) (list []away) {
	s.mu.Lock()
	clients := make([]*client, 0, len(s.clients))
	for _, cl := range s.clients {
		if !cl.online.Load() {
			clients = append(clients, cl)
		}
	}
	s.mu.Unlock()
	for _, cl := range clients {
		cl.lock.Lock()
		if cl.session != nil && cl.conn == nil && cl.offline.Before(limit) {
			list = append(list, away{cl, cl.session, cl.offline})
		}
		cl.lock.Unlock()
	}
	return list
}

// endDisowned ends the sessions without a connection whose API client was deleted: nobody
// can come back for them, and their client identifiers, subscriptions and shares of shared
// subscriptions are in the way of others. Of one that nobody can tell of now they stay.
func (s *Server) endDisowned(ctx context.Context) {
	deleted := map[string]bool{}
	for _, a := range s.offline(time.Now()) {
		id := a.session.Identity
		if _, asked := deleted[id]; !asked {
			bounded, cancel := context.WithTimeout(ctx, recheckTimeout)
			is, err := s.options.Access.Deleted(bounded, id)
			cancel()
			deleted[id] = is && err == nil
		}
		if deleted[id] {
			s.logDisowned(a.client.id, id)
			s.expire(a.client, a.session, cluster.SessionDisowned.String())
		}
	}
}

func (s *Server) logDisowned(client, identity string) {
	s.log.Info("embedded broker: session ended, its API client was deleted", "client_id", client, "user", identity)
}

func (s *Server) endLongestOffline() {
	list := s.offline(time.Now().Add(-s.options.Config.WillStopGrace))
	excess := len(list) - s.limits.MaxOfflineSessions
	if excess <= 0 {
		return
	}
	slices.SortFunc(list, func(a, b away) int { return cmp.Compare(a.since.UnixNano(), b.since.UnixNano()) })
	for _, a := range list[:excess] {
		s.log.Warn("embedded broker: session ended, more are offline than maxOfflineSessions", "client_id", a.client.id,
			"offline_since", a.since.UTC().Format(time.RFC3339), "limit", s.limits.MaxOfflineSessions)
		s.expire(a.client, a.session, "offline_limit")
	}
}

// background runs f beside the connections, until it returns or the server stops.
func (s *Server) background(f func(ctx context.Context)) {
	s.ending.RLock()
	counted := !s.waits
	if counted {
		s.tasks.Add(1)
	}
	s.ending.RUnlock()
	go func() {
		if counted {
			defer s.tasks.Done()
		} // else an outcome came after the stop, the context is over, and f only tidies up
		f(s.ctx)
	}()
}

// retry repeats f until it succeeds or ctx ends, ever more slowly.
func retry(ctx context.Context, f func() error) error {
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}
