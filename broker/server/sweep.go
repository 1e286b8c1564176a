package server

import (
	"cmp"
	"context"
	"slices"
	"time"

	"maestrohub.io/uns/broker/session"
)

// sweepEvery is how often the bound on offline sessions is looked at. Expiries
// do not wait for it: they have their own time.
const sweepEvery = 5 * time.Second

// sweep keeps at most maxOfflineSessions sessions that have been offline for
// longer than willStopGrace, ending those offline longest. The grace keeps the
// devices of a moment's outage from counting.
func (s *Server) sweep(ctx context.Context) {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			s.endLongestOffline()
		}
	}
}

func (s *Server) endLongestOffline() {
	type away struct {
		client  *client
		session *session.Session
		since   time.Time
	}
	s.mu.Lock()
	clients := make([]*client, 0, len(s.clients))
	for _, cl := range s.clients {
		if !cl.online.Load() {
			clients = append(clients, cl)
		}
	}
	s.mu.Unlock()
	limit := time.Now().Add(-s.options.Config.WillStopGrace)
	var list []away
	for _, cl := range clients {
		cl.lock.Lock()
		if cl.session != nil && cl.conn == nil && cl.offline.Before(limit) {
			list = append(list, away{cl, cl.session, cl.offline})
		}
		cl.lock.Unlock()
	}
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
