package cluster

import (
	"cmp"
	"slices"
	"time"

	"maestrohub.io/uns/broker/state"
)

// Stored is a decoded record as it stands in its bucket.
type Stored[T any] struct {
	Record   T
	Revision uint64
	Time     time.Time // when the store wrote it
}

// Stock is what the elected replica knows of the shared state, from watches: by
// client id, but for the routes, which are by their own key.
type Stock struct {
	Owners   map[string]Stored[Owner]
	Sessions map[string]Stored[*Session]
	Cursors  map[string]Stored[*Cursor]
	Received map[string]Stored[*Received]
	Wills    map[string]Stored[*Will] // by WillKey
	Routes   map[string]Stored[*Route]
	// Arrived is when the CONNECTs that are under way arrived, by client id.
	Arrived map[string]time.Time
	// Deleted are the identities that were deleted.
	Deleted map[string]bool
}

// Reason says why the sweep writes.
type Reason uint8

// The reasons. Each write is conditional on the revision it was decided on, so one
// that comes late, or meets a device that is back, does nothing.
const (
	// MarkEnded: the owner's incarnation ended without saying so in the record.
	MarkEnded Reason = iota
	// SessionExpired: it was offline for its Session Expiry Interval.
	SessionExpired
	// SessionSurplus: more than maxOfflineSessions were offline.
	SessionSurplus
	// SessionDisowned: the API client it belonged to was deleted.
	SessionDisowned
	// Leftover: a cursor or QoS 2 record of no session, or of an earlier one.
	Leftover
	// OwnerForgotten: nothing of the connection can matter any more.
	OwnerForgotten
	// WillForgotten: the will of a connection that another followed.
	WillForgotten
	// RouteForgotten: the route of an incarnation that ended.
	RouteForgotten
)

// String returns the reason as logs and metrics name it.
func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return "invalid reason"
}

var reasonNames = [...]string{"mark_ended", "expired", "offline_limit", "client_deleted", "leftover", "owner_forgotten", "will_forgotten", "route_forgotten"}

// Act is one conditional write of the sweep.
type Act struct {
	Reason Reason
	Bucket string
	Client string // or the filter of a route
	Write  state.Write
	// Session is the one that ends, and Cursor its cursor, nil if there is none: for who
	// inherits what it was chosen for. Landed is the revision of the write once it has.
	Session *Session
	Cursor  *Cursor
	Landed  uint64
}

// Sweep decides what the elected replica tidies up. Deleting is always a
// conditional tombstone, never a purge: the tombstone refuses the late writes of
// whoever had the record.
type Sweep struct {
	// Grace is willStopGrace: a session offline for less does not count.
	Grace time.Duration
	// Most is maxSessionExpiry.
	Most time.Duration
	// Offline is maxOfflineSessions, over the whole cluster.
	Offline int
	// Since is when this replica saw an owner's connection end, by its own clock; seen is
	// false if it did not, and the clock of who wrote it counts. nil: it saw none.
	Since func(client string, o *Owner) (since time.Time, seen bool)

	ownerless map[string]time.Time // when a session without an owner was first seen
}

// Decide returns the writes to make now. ending tells how an incarnation ended.
func (s *Sweep) Decide(now time.Time, floor Format, k *Stock, ending func(Incarnation) Ending) []Act {
	var acts []Act
	acts = s.owners(acts, now, floor, k, ending)
	acts = s.sessions(acts, now, k)
	acts = s.leftovers(acts, now, k)
	for key, r := range k.Routes {
		if ending(r.Record.Incarnation) != Held {
			acts = append(acts, remove(RouteForgotten, state.Routes, key, r.Record.Filter, r.Revision))
		}
	}
	slices.SortStableFunc(acts, func(a, b Act) int {
		return cmp.Or(cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Write.Key, b.Write.Key))
	})
	return acts
}

func remove(why Reason, bucket, key, client string, revision uint64) Act {
	return Act{Reason: why, Bucket: bucket, Client: client, Write: state.Write{Op: state.OpDelete, Key: key, Revision: revision}}
}

// end is the act that ends a session.
func (k *Stock) end(why Reason, client string) Act {
	r := k.Sessions[client]
	a := remove(why, state.SessionState, client, client, r.Revision)
	a.Session = r.Record
	if c, there := k.Cursors[client]; there && c.Record.Session == r.Record.ID {
		a.Cursor = c.Record
	}
	return a
}

// owners marks what ended incarnations left held, from when the session counts as
// offline, and forgets what is over for good.
func (s *Sweep) owners(acts []Act, now time.Time, floor Format, k *Stock, ending func(Incarnation) Ending) []Act {
	for client, o := range k.Owners {
		if o.Record.Ending == Held {
			if how := ending(o.Record.Incarnation); how != Held {
				acts = append(acts, Act{Reason: MarkEnded, Bucket: state.Sessions, Client: client,
					Write: state.Write{Op: state.OpUpdate, Key: client, Value: o.Record.End(how, now).Encode(floor), Revision: o.Revision}})
			}
			continue
		}
		_, session := k.Sessions[client]
		if !session && now.Sub(s.ended(client, o)) >= s.Most+state.TombstoneAge {
			acts = append(acts, remove(OwnerForgotten, state.Sessions, client, client, o.Revision))
		}
	}
	return acts
}

// ended is when an owner's connection ended.
func (s *Sweep) ended(client string, o Stored[Owner]) time.Time {
	if s.Since != nil {
		if since, seen := s.Since(client, &o.Record); seen {
			return since
		}
	}
	if o.Record.Ended != 0 {
		return time.Unix(0, o.Record.Ended)
	}
	return o.Time
}

// sessions ends those offline of identities that were deleted, those offline for longer
// than they may be, and of those offline for longer than the grace the surplus, longest
// offline first.
func (s *Sweep) sessions(acts []Act, now time.Time, k *Stock) []Act {
	type offline struct {
		client string
		since  time.Time
	}
	var list []offline
	ownerless := map[string]time.Time{}
	for client, r := range k.Sessions {
		o, there := k.Owners[client]
		var since time.Time
		switch {
		case there && o.Record.Ending == Held:
			continue // connected, or not yet marked
		case there:
			since = s.ended(client, o)
		default:
			// The owners' bucket was lost: whether and since when it is offline
			// is not known, so it counts from now.
			var known bool
			if since, known = s.ownerless[client]; !known {
				since = now
			}
			ownerless[client] = since
		}
		if k.Deleted[r.Record.Identity] {
			acts = append(acts, k.end(SessionDisowned, client))
			continue
		}
		lifetime := r.Record.Lifetime(s.Most)
		if at, back := k.Arrived[client]; back && at.After(since) && at.Sub(since) < lifetime {
			continue // it was in time, and is being let in; one from before is the ended connection's own
		}
		if now.Sub(since) >= lifetime {
			acts = append(acts, k.end(SessionExpired, client))
		} else if now.Sub(since) > s.Grace {
			list = append(list, offline{client, since})
		}
	}
	s.ownerless = ownerless
	if surplus := len(list) - s.Offline; surplus > 0 {
		slices.SortFunc(list, func(a, b offline) int {
			return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.client, b.client))
		})
		for _, o := range list[:surplus] {
			acts = append(acts, k.end(SessionSurplus, o.client))
		}
	}
	return acts
}

// leftovers are records of a session that has ended. A new session writes its cursor
// before its state, so they count only once they are older than any write under way.
func (s *Sweep) leftovers(acts []Act, now time.Time, k *Stock) []Act {
	old := func(at time.Time) bool { return now.Sub(at) >= state.TombstoneAge }
	of := func(client string, id ID) bool {
		r, there := k.Sessions[client]
		return there && r.Record.ID == id
	}
	for client, c := range k.Cursors {
		if old(c.Time) && !of(client, c.Record.Session) {
			acts = append(acts, remove(Leftover, state.SessionCursor, client, client, c.Revision))
		}
	}
	for client, r := range k.Received {
		if old(r.Time) && !of(client, r.Record.Session) {
			acts = append(acts, remove(Leftover, state.SessionQoS2, client, client, r.Revision))
		}
	}
	for key, w := range k.Wills {
		o, there := k.Owners[w.Record.Client]
		if there && old(w.Time) && w.Record.dead(&o.Record) {
			acts = append(acts, remove(WillForgotten, state.SessionWill, key, w.Record.Client, w.Revision))
		}
	}
	return acts
}
