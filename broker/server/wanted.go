package server

import (
	"context"
	"fmt"
	"strings"
	"time"

	"maestrohub.io/uns/broker/cluster"
	"maestrohub.io/uns/broker/mesh"
	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/topic"
)

// wantedKey tells the subscriptions of the cluster's persistent sessions apart.
type wantedKey struct{ client, share string }

// wantedSub is one subscription of a persistent session, wherever it is connected.
type wantedSub struct {
	client, key string
	qos         byte
}

// remoteRoute is a filter another replica's live subscribers have.
type remoteRoute struct {
	route       *cluster.Route
	share, bare string
}

// follow reads the session states and routes and follows their changes until the
// server stops. It returns once all that was there is applied.
func (sh *shared) follow(ctx context.Context) error {
	sessions, err := sh.sessions.Watch(sh.server.ctx, "")
	if err != nil {
		return fmt.Errorf("watch %s: %w", state.SessionState, err)
	}
	routes, err := sh.routes.Watch(sh.server.ctx, "")
	if err != nil {
		sessions.Stop()
		return fmt.Errorf("watch %s: %w", state.Routes, err)
	}
	ready := make(chan struct{}, 2)
	sh.server.background(func(context.Context) {
		sh.consume(sessions, ready, sh.applySession, sh.dropSessions, func(revision uint64) {
			sh.Fresh.Applied(revision)
			sh.advance(func(a *mesh.Applied) { a.Sessions = revision })
		}, sh.Fresh.Lost)
	})
	sh.server.background(func(context.Context) {
		sh.consume(routes, ready, sh.applyRoute, sh.dropRoutes, func(revision uint64) {
			sh.advance(func(a *mesh.Applied) { a.Routes = revision })
		}, func() {})
	})
	for range 2 {
		select {
		case <-ready:
		case <-ctx.Done():
			return fmt.Errorf("read what persistent sessions and other replicas want: %w", ctx.Err())
		}
	}
	return nil
}

// consume applies what one watch gives. drop takes away what was not repeated after
// a loss: it is given the keys that were.
func (sh *shared) consume(w state.Watch, ready chan<- struct{}, apply func(state.Update), drop func(kept map[string]bool), applied func(uint64), lost func()) {
	var kept map[string]bool // since the last loss; nil once ready
	kept = make(map[string]bool)
	first := true
	var highest uint64 // since the last loss
	for u := range w.Updates() {
		switch {
		case u.Lost:
			lost()
			highest = 0
			kept = make(map[string]bool)
		case u.Ready:
			drop(kept)
			kept = nil
			if first {
				first = false
				ready <- struct{}{}
			}
		default:
			if kept != nil {
				kept[u.Key] = true
			}
			apply(u)
		}
		highest = max(highest, u.Revision)
		if kept == nil && highest > 0 { // a list is complete only as a whole
			applied(highest)
		}
	}
}

// advance notes how far the index is. The report of it follows once every value
// that was matched before has its outcome: a SUBACK that waits for the report means that
// what this replica acknowledges from then on was matched with the subscription.
func (sh *shared) advance(set func(*mesh.Applied)) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	set(&sh.reached)
	if !sh.reporting {
		sh.reporting = true
		sh.server.background(sh.report)
	}
}

// report makes one report after the other, each behind the barrier of the lanes and
// of what devices have still to be told.
func (sh *shared) report(ctx context.Context) {
	for {
		sh.mu.Lock()
		if sh.reached == sh.reported() || ctx.Err() != nil {
			sh.reporting = false
			sh.mu.Unlock()
			return
		}
		reached := sh.reached
		sh.mu.Unlock()
		sh.settled(ctx)
		sh.applied.Store(&reached)
		sh.Mesh.ReportApplied(reached)
	}
}

// settled waits until what was matched or owed before has its outcome: reportsWait at
// most, however many workspaces wait for a store that does not answer.
func (sh *shared) settled(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, reportsWait)
	defer cancel()
	for _, w := range sh.server.slugs() {
		select {
		case <-sh.server.ingest.Settled(w):
		case <-ctx.Done():
		}
	}
	select {
	case <-sh.owed.settled():
	case <-ctx.Done():
	}
}

// AppliedRevisions is how far this replica's index is, for its member entry. It takes no
// lock: whoever asks holds one.
func (s *Server) AppliedRevisions() cluster.Applied {
	if s.shared == nil {
		return cluster.Applied{}
	}
	a := s.shared.reported()
	return cluster.Applied{Sessions: a.Sessions, Routes: a.Routes}
}

// applySession brings the index of what persistent sessions want up to one record.
func (sh *shared) applySession(u state.Update) {
	if strings.HasPrefix(u.Key, state.ProbeKeys) {
		return
	}
	var next *cluster.Session
	if !u.Deleted {
		var err error
		if next, err = cluster.DecodeSession(u.Value); err != nil {
			sh.server.log.Error("broker cluster: a session record cannot be read", "client_id", u.Key, "error", err)
			return
		}
	}
	sh.mu.Lock()
	old := sh.known[u.Key]
	if old != nil && old.revision >= u.Revision {
		sh.mu.Unlock()
		return
	}
	if next == nil {
		delete(sh.known, u.Key)
	} else {
		sh.known[u.Key] = &knownSession{next, u.Revision}
	}
	sh.mu.Unlock()
	var before *cluster.Session
	if old != nil {
		before = old.session
	}
	sh.index(u.Key, before, next)
}

// index replaces a session's filters in the index: added before removed, so that
// one that is in both is never missing.
func (sh *shared) index(client string, before, after *cluster.Session) {
	in := make(map[string]bool)
	if after != nil {
		w := sh.server.workspace(after.Workspace)
		for _, sub := range after.Subscriptions {
			share, bare, _, err := topic.ParseShare(sub.Filter)
			if err != nil {
				continue
			}
			in[sub.Filter] = true
			w.wanted.Set(bare, wantedKey{client, share}, wantedSub{client: client, key: share + "/" + bare, qos: sub.QoS})
		}
	}
	if before != nil {
		w := sh.server.workspace(before.Workspace)
		for _, sub := range before.Subscriptions {
			if share, bare, _, err := topic.ParseShare(sub.Filter); err == nil && (!in[sub.Filter] || after.Workspace != before.Workspace) {
				w.wanted.Delete(bare, wantedKey{client, share})
			}
		}
	}
	sh.server.generation.Add(1)
}

func (sh *shared) dropSessions(kept map[string]bool) {
	sh.mu.Lock()
	gone := make(map[string]*cluster.Session)
	for key, k := range sh.known {
		if !kept[key] {
			gone[key] = k.session
			delete(sh.known, key)
		}
	}
	sh.mu.Unlock()
	for key, se := range gone {
		sh.index(key, se, nil)
	}
}

// applyRoute brings the index of other replicas' live subscribers up to one record.
func (sh *shared) applyRoute(u state.Update) {
	var next *cluster.Route
	if !u.Deleted {
		var err error
		if next, err = cluster.DecodeRoute(u.Value); err != nil {
			sh.server.log.Error("broker cluster: a route cannot be read", "key", u.Key, "error", err)
			return
		}
		if next.Incarnation.Replica == sh.Replica {
			return
		}
	}
	sh.replaceRoute(u.Key, next)
}

func (sh *shared) replaceRoute(key string, next *cluster.Route) {
	sh.mu.Lock()
	old := sh.foreign[key]
	if next == nil {
		delete(sh.foreign, key)
	} else {
		sh.foreign[key] = next
	}
	sh.mu.Unlock()
	if next != nil {
		if share, bare, _, err := topic.ParseShare(next.Filter); err == nil {
			sh.remote.Set(bare, key, &remoteRoute{next, share, bare})
		}
	} else if old != nil {
		if _, bare, _, err := topic.ParseShare(old.Filter); err == nil {
			sh.remote.Delete(bare, key)
		}
	}
	sh.server.generation.Add(1)
}

func (sh *shared) dropRoutes(kept map[string]bool) {
	sh.mu.Lock()
	var gone []string
	for key := range sh.foreign {
		if !kept[key] {
			gone = append(gone, key)
		}
	}
	sh.mu.Unlock()
	for _, key := range gone {
		sh.replaceRoute(key, nil)
	}
}

// Fresh implements ingest's freshness: whether what Wanted says is proven complete.
func (s *Server) Fresh() bool {
	return s.shared == nil || s.shared.Fresh.Fresh(time.Now())
}
