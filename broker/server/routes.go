package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"maestrohub.io/uns/broker/cluster"
	"maestrohub.io/uns/broker/mesh"
	"maestrohub.io/uns/broker/session"
	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/topic"
)

// ownRoutes are the filters this replica's connected sessions are fed live by,
// each written to mqtt-routes once, whoever else has it.
type ownRoutes struct {
	shared *shared
	mu     sync.Mutex           // after client.lock
	count  map[string]*ownRoute // by filter
	// highest is the highest revision written.
	highest uint64
}

// routeMember is a subscription behind a filter.
type routeMember struct{ client, filter string }

// ownRoute is one filter. Its record is written by one writer at a time.
type ownRoute struct {
	members  map[routeMember]byte // granted QoS
	writing  bool
	written  []byte // what the record holds now; nil: there is none
	revision uint64
	// again: the record is to be written though it holds what it should. A value may be
	// on its way here for those behind the filter already, and is not for who comes to
	// them now: the others' reports of a new revision say that no such value is left.
	again bool
	// landed is closed when everything asked for before is written.
	landed chan struct{}
}

// filters are those under which a session is fed live by a subscription of its: the
// subscription's own for a clean session, and for a persistent one only what the
// session log does not bring it. A shared one also says that the member is connected.
func (c *connection) liveFilters(sub *session.Subscription) []string {
	if !c.session.Persistent || sub.Share != "" || sub.QoS == 0 || c.server.options.Config.LiveMirror.QoS == 0 {
		return []string{sub.Filter}
	}
	var filters []string
	for _, f := range []string{c.server.grammar.Alerts(c.session.Workspace, "#"), c.server.grammar.Errors(c.session.Workspace, c.identity)} {
		if topic.Intersects(sub.Bare, f) {
			filters = append(filters, f)
		}
	}
	return filters
}

// add notes a subscription of a connected session and returns channels that are
// closed once its routes are written; anew, for a SUBSCRIBE, even if others have them.
func (o *ownRoutes) add(c *connection, sub *session.Subscription, anew bool) []<-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	var landed []<-chan struct{}
	for _, filter := range c.liveFilters(sub) {
		r := o.count[filter]
		if r == nil {
			r = &ownRoute{members: make(map[routeMember]byte)}
			o.count[filter] = r
		}
		r.members[routeMember{c.session.ClientID, sub.Filter}] = sub.QoS
		r.again = r.again || anew
		landed = append(landed, o.write(filter, r))
	}
	return landed
}

// remove forgets a subscription. by, if not nil, is the one that replaces it: what that is
// fed live by stays.
func (o *ownRoutes) remove(c *connection, sub, by *session.Subscription) {
	var stay []string
	if by != nil {
		stay = c.liveFilters(by)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, filter := range c.liveFilters(sub) {
		if r := o.count[filter]; r != nil && !slices.Contains(stay, filter) {
			key := routeMember{c.session.ClientID, sub.Filter}
			if _, in := r.members[key]; in {
				delete(r.members, key)
				o.write(filter, r)
			}
		}
	}
}

// revision is the highest revision of a route written here.
func (o *ownRoutes) revision() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.highest
}

// forget drops everything at a fence: the routes are the ended incarnation's, and
// the sweep takes them away.
func (o *ownRoutes) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.count = make(map[string]*ownRoute)
}

// write has the route's record brought up to date. mu is held.
func (o *ownRoutes) write(filter string, r *ownRoute) <-chan struct{} {
	if r.landed == nil {
		r.landed = make(chan struct{})
	}
	landed := r.landed
	if !r.writing {
		r.writing = true
		o.shared.server.background(func(ctx context.Context) { o.writeOut(ctx, filter, r) })
	}
	return landed
}

// writeOut writes the record until it holds what it should.
func (o *ownRoutes) writeOut(ctx context.Context, filter string, r *ownRoute) {
	incarnation := o.shared.server.incarnation()
	key := cluster.RouteKey(incarnation, filter)
	for {
		o.mu.Lock()
		if o.count[filter] != r || ctx.Err() != nil {
			r.writing = false
			if r.landed != nil {
				close(r.landed)
				r.landed = nil
			}
			o.mu.Unlock()
			return
		}
		record := r.encode(incarnation, filter, o.shared.Member.Floor())
		if string(record) == string(r.written) && (!r.again || record == nil) {
			r.writing = false
			if r.landed != nil {
				close(r.landed)
				r.landed = nil
			}
			if len(r.members) == 0 {
				delete(o.count, filter)
			}
			o.mu.Unlock()
			return
		}
		revision, again := r.revision, r.again
		r.again = false
		o.mu.Unlock()

		var err error
		switch {
		case record == nil:
			revision, err = o.shared.routes.Delete(ctx, key, revision)
		case revision == 0:
			revision, err = o.shared.routes.Create(ctx, key, record)
		default:
			revision, err = o.shared.routes.Update(ctx, key, record, revision)
		}
		if err != nil {
			if errors.Is(err, state.ErrConflict) || errors.Is(err, state.ErrUnknown) {
				// Nobody but this incarnation writes the key: an earlier try has landed.
				if rec, e := o.shared.routes.Get(ctx, key); e == nil {
					revision, record, err = rec.Revision, rec.Value, nil
				} else if errors.Is(e, state.ErrNotFound) {
					revision, record, err = 0, nil, nil
				}
			}
			if err != nil {
				o.shared.server.log.Warn("broker cluster: a route could not be written; tried again", "filter", filter, "error", err)
				select {
				case <-ctx.Done():
				case <-time.After(routeRetry):
				}
				continue
			}
		}
		o.mu.Lock()
		r.again = r.again || again && revision == r.revision // what was read is from before
		r.revision, r.written = revision, record
		o.highest = max(o.highest, revision)
		if record == nil {
			r.revision = 0
		}
		o.mu.Unlock()
	}
}

// routeRetry is the pause after a write that failed.
const routeRetry = 200 * time.Millisecond

// encode returns the record; nil if nobody is behind the filter any more.
func (r *ownRoute) encode(i cluster.Incarnation, filter string, floor cluster.Format) []byte {
	if len(r.members) == 0 {
		return nil
	}
	route := cluster.Route{Incarnation: i, Filter: filter}
	for m, qos := range r.members {
		route.QoS = max(route.QoS, qos)
		if strings.HasPrefix(filter, "$share/") {
			route.Members = append(route.Members, m.client)
		}
	}
	slices.Sort(route.Members)
	return route.Encode(floor)
}

// awaitReports waits until the other replicas are known to have applied a change
// of the index, or wait is over, and reports whether they are. every asks for all
// live members, linked or not; else those that are linked count.
func (sh *shared) awaitReports(ctx context.Context, wait time.Duration, every bool, reached func(r report) bool) bool {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		sh.mu.Lock()
		changed := sh.changed
		complete := true
		if every {
			if !sh.Member.Current(time.Now()) {
				complete = false // a member may not be seen yet: the wait is waited out
			}
			for _, m := range sh.Member.Members() {
				if m.Incarnation.Replica == sh.Replica || m.Phase.Over() {
					continue
				}
				r := sh.reports[m.Incarnation.Replica]
				viaEntry := report{m.Number, mesh.Applied{Routes: m.Applied.Routes, Sessions: m.Applied.Sessions}}
				complete = complete && (r.incarnation == m.Number && reached(r) || reached(viaEntry))
			}
		} else {
			for _, p := range sh.Mesh.Linked() {
				r := sh.reports[p.Replica]
				complete = complete && r.incarnation == p.Incarnation && reached(r)
			}
		}
		sh.mu.Unlock()
		if complete {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// errBusy says that a claim could not be made in time.
var errBusy = fmt.Errorf("the shared stores did not answer in time")

// errOvertaken says that a later claim of the client identifier goes before this one.
var errOvertaken = errors.New("another connection has claimed the client identifier")
