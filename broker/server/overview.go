package server

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"maestrohub.io/uns/broker/cluster"
	"maestrohub.io/uns/broker/state"
)

// Overview is what all replicas share, as one of them reads it for people. It is read
// from the store each time, some records for each client: not for every request.
type Overview struct {
	// Owners counts the client identifiers each replica holds a connection of.
	Owners map[string]int
	// Persistent counts the persistent sessions of all workspaces, Offline those of
	// them that have no connection.
	Persistent, Offline int
	// WillsWaiting counts the wills of connections that have ended.
	WillsWaiting int
	// Sessions are the persistent ones of the workspace that was asked for, those
	// furthest behind first.
	Sessions []SessionOverview
	// Logs are the session logs that somebody wants something of.
	Logs []LogOverview
}

// SessionOverview is one persistent session.
type SessionOverview struct {
	ClientID, Identity string
	// Replica holds its connection; "" while it has none.
	Replica string
	// Behind is about how many entries its log has beyond what it has read; Unfinished
	// counts deliveries that wait for their acknowledgment.
	Behind     uint64
	Unfinished int
	// Unknown: it has no stored position that says how far behind it is.
	Unknown bool
	// Missed counts values its log dropped before it read them.
	Missed uint64
	// Expires is when it ends unless its client comes back; zero while connected.
	Expires time.Time
	// Subscriptions it has.
	Subscriptions int
}

// LogOverview is one workspace's session log.
type LogOverview struct {
	Workspace   string
	Bytes, Most int64 // Most is sessionLogMaxBytes; Bytes is -1 if it is not known
}

// Overview reads what is shared, and the sessions of one workspace; "" means of all.
func (s *Server) Overview(ctx context.Context, workspace string) (Overview, error) {
	o := Overview{Owners: map[string]int{}}
	ends, err := s.logs(ctx, &o)
	if err != nil {
		return o, err
	}
	if s.shared != nil {
		err = s.shared.overview(ctx, workspace, ends, &o)
	} else {
		s.overview(workspace, ends, &o)
	}
	slices.SortFunc(o.Sessions, func(a, b SessionOverview) int {
		return cmp.Or(cmp.Compare(b.Behind, a.Behind), cmp.Compare(a.ClientID, b.ClientID))
	})
	return o, err
}

// logEnd is where an open log ends.
type logEnd struct {
	log  state.Log
	next uint64
}

// logs describes the open logs and returns where each ends, by workspace.
func (s *Server) logs(ctx context.Context, o *Overview) (map[string]logEnd, error) {
	ends := make(map[string]logEnd)
	slugs := s.slugs()
	slices.Sort(slugs)
	for _, slug := range slugs {
		log, err := s.workspace(slug).openLog(ctx)
		if err != nil {
			return ends, fmt.Errorf("open session log %q: %w", slug, err)
		}
		if log == nil {
			continue
		}
		_, last, err := log.Bounds(ctx)
		if err != nil {
			return ends, fmt.Errorf("read the bounds of session log %q: %w", slug, err)
		}
		ends[slug] = logEnd{log, last + 1}
		l := LogOverview{Workspace: slug, Bytes: -1, Most: int64(s.options.Config.SessionLogMaxBytes)}
		if sized, ok := log.(state.Sizer); ok {
			if l.Bytes, err = sized.Size(ctx); err != nil {
				return ends, err
			}
		}
		o.Logs = append(o.Logs, l)
	}
	return ends, nil
}

// openLog returns the workspace's log where there must be one: this replica follows it, or
// a persistent session somewhere wants something. nil: nobody needs one, and none is made.
func (w *workspace) openLog(ctx context.Context) (state.Log, error) {
	if f := w.feed.Load(); f != nil {
		return f.log, nil
	}
	if w.wanted.Len() == 0 {
		return nil, nil
	}
	return w.server.options.Store.Log(ctx, w.server.options.LogID(w.slug))
}

// behind is how many entries lie between the next one to read and the end.
func (e logEnd) behind(next uint64) uint64 {
	if e.log == nil || next >= e.next {
		return 0
	}
	return state.Span(e.log, next, e.next)
}

// overview describes the sessions of a single node, which are in memory.
func (s *Server) overview(workspace string, ends map[string]logEnd, o *Overview) {
	s.mu.Lock()
	all := make([]*client, 0, len(s.clients))
	for _, cl := range s.clients {
		all = append(all, cl)
	}
	s.mu.Unlock()
	for _, cl := range all {
		cl.lock.Lock()
		if cl.will != nil {
			o.WillsWaiting++
		}
		if cl.conn != nil {
			o.Owners[""]++
		}
		if se := cl.session; se != nil && se.Persistent {
			o.Persistent++
			if cl.conn == nil {
				o.Offline++
			}
			if workspace == "" || workspace == se.Workspace {
				row := SessionOverview{ClientID: se.ClientID, Identity: se.Identity, Missed: se.Missed, Subscriptions: se.Len(),
					Behind: ends[se.Workspace].behind(se.Position), Unfinished: se.Window.Len()}
				if cl.conn == nil {
					row.Expires = expires(cl.offline, se.Expiry, s.limits.MaxSessionExpiry)
				}
				o.Sessions = append(o.Sessions, row)
			}
		}
		cl.lock.Unlock()
	}
}

// expires is when a session ends that went offline then.
func expires(offline time.Time, expiry uint32, most time.Duration) time.Time {
	lifetime := most
	if expiry != math.MaxUint32 {
		lifetime = min(lifetime, time.Duration(expiry)*time.Second)
	}
	return offline.Add(lifetime)
}

// overview describes the sessions of the cluster, from the records they are kept in.
func (sh *shared) overview(ctx context.Context, workspace string, ends map[string]logEnd, o *Overview) error {
	owners, err := sh.owners.List(ctx, "")
	if err != nil {
		return fmt.Errorf("read %s: %w", state.Sessions, err)
	}
	held := make(map[string]cluster.Owner, len(owners))
	for _, r := range owners {
		owner, err := cluster.DecodeOwner(r.Value)
		if err != nil {
			continue // the sweep reports it
		}
		if owner.Ending == cluster.Held {
			if how := sh.Member.Ending(owner.Incarnation); how != cluster.Held {
				owner = owner.End(how, time.Now()) // about: nobody has written it down yet
			}
		}
		held[r.Key] = owner
		if owner.Ending == cluster.Held {
			o.Owners[owner.Incarnation.Replica]++
		}
	}
	wills, err := sh.wills.List(ctx, "")
	if err != nil {
		return fmt.Errorf("read %s: %w", state.SessionWill, err)
	}
	for _, r := range wills {
		if w, err := cluster.DecodeWill(r.Value); err == nil && !holds(held[w.Client], w.Connection) {
			o.WillsWaiting++
		}
	}
	cursors, err := sh.cursors.List(ctx, "")
	if err != nil {
		return fmt.Errorf("read %s: %w", state.SessionCursor, err)
	}
	positions := make(map[string]*cluster.Cursor, len(cursors))
	for _, r := range cursors {
		if c, err := cluster.DecodeCursor(r.Value); err == nil {
			positions[r.Key] = c
		}
	}
	sh.mu.Lock()
	known := make(map[string]*cluster.Session, len(sh.known))
	for id, k := range sh.known {
		known[id] = k.session
	}
	sh.mu.Unlock()
	for id, se := range known {
		owner, owned := held[id]
		online := owned && owner.Ending == cluster.Held
		o.Persistent++
		if !online {
			o.Offline++
		}
		if workspace != "" && workspace != se.Workspace {
			continue
		}
		row := SessionOverview{ClientID: id, Identity: se.Identity, Subscriptions: len(se.Subscriptions)}
		if online {
			row.Replica = owner.Incarnation.Replica
		} else if owned {
			row.Expires = expires(time.Unix(0, owner.Ended), se.Expiry, sh.server.limits.MaxSessionExpiry)
		}
		if c := positions[id]; c != nil && c.Session == se.ID {
			row.Missed = c.Missed
			row.Behind = ends[se.Workspace].behind(c.Position.Sequence + 1)
			for _, d := range c.Deliveries {
				if d.Progress != cluster.Done {
					row.Unfinished++
				}
			}
		} else {
			row.Unknown = true
		}
		o.Sessions = append(o.Sessions, row)
	}
	return nil
}

// holds reports whether an owner record says that this connection is open.
func holds(o cluster.Owner, connection cluster.ID) bool {
	return o.Connection == connection && o.Ending == cluster.Held
}
