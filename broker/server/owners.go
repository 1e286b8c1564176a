package server

import (
	"context"
	"slices"
	"sync"
	"time"

	"maestrohub.io/uns/broker/cluster"
	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/broker/state"
)

// knownOwners are the owner records of the cluster as the watch of mqtt-sessions and
// this replica's own writes have told. They are hints: a claim is a write on the
// condition that the record is as known here, so one that is behind costs a CONNECT
// another read and never decides anything.
type knownOwners struct {
	began time.Time
	mu    sync.Mutex // taken last, under any other lock
	// complete: everything there is has been told since the beginning or the last loss.
	complete bool
	records  map[string]knownOwner // by client identifier
	// names are the identities, workspaces and replicas of the records, each once.
	names map[string]string
}

type knownOwner struct {
	owner    cluster.Owner
	revision uint64
	// ended is when the connection was seen to end, as time since knownOwners.began; 0: it
	// was not, the record was there before.
	ended time.Duration
}

// learn notes a record, unless a newer one is known.
func (k *knownOwners) learn(id string, o cluster.Owner, revision uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	old := k.records[id]
	if old.revision >= revision {
		return
	}
	var ended time.Duration
	switch {
	case o.Ending == cluster.Held:
	case old.owner.Connection == o.Connection && old.owner.Ending != cluster.Held:
		ended = old.ended
	case k.complete:
		ended = time.Since(k.began)
	}
	o.Identity, o.Workspace, o.Incarnation.Replica = k.name(o.Identity), k.name(o.Workspace), k.name(o.Incarnation.Replica)
	o.Before = slices.Clone(o.Before)
	for i := range o.Before {
		o.Before[i].Incarnation.Replica = k.name(o.Before[i].Incarnation.Replica)
	}
	k.records[id] = knownOwner{o, revision, ended}
}

// maxNames bounds names; they are gathered anew beyond it.
const maxNames = 1 << 16

func (k *knownOwners) name(s string) string {
	n, ok := k.names[s]
	if !ok {
		if len(k.names) >= maxNames {
			clear(k.names)
		}
		k.names[s], n = s, s
	}
	return n
}

// gone notes that a record was deleted.
func (k *knownOwners) gone(id string, revision uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.records[id].revision < revision {
		delete(k.records, id)
	}
}

// lost notes that changes may be missing; ready, that kept holds everything there
// is.
func (k *knownOwners) lost() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.complete = false
}

func (k *knownOwners) ready(kept map[string]bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.complete = true
	for id := range k.records {
		if !kept[id] {
			delete(k.records, id)
		}
	}
}

// of returns what is known of a client identifier; ok is false if nothing can be
// said, and known.revision 0 if there is no record.
func (k *knownOwners) of(id string) (known knownOwner, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.records[id], k.complete
}

// offlineSince is when a connection ended: as this replica saw it by its own clock, or, of
// one that ended before, by the clock of who wrote it. seen says which.
func (k *knownOwners) offlineSince(id string, o *cluster.Owner) (since time.Time, seen bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if known := k.records[id]; known.ended > 0 && known.owner.Connection == o.Connection {
		return k.began.Add(known.ended), true
	}
	return time.Unix(0, o.Ended), false
}

// OfflineSince is when this replica saw the connection of an owner record end; seen is
// false if it did not.
func (s *Server) OfflineSince(client string, o *cluster.Owner) (since time.Time, seen bool) {
	if s.shared == nil {
		return time.Time{}, false
	}
	return s.shared.holders.offlineSince(client, o)
}

// overtaken reports whether another connection is known to have claimed the
// identifier after h.
func (k *knownOwners) overtaken(id string, h *holding) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	known := k.records[id]
	return known.revision > h.ownerRevision && known.owner.Connection != h.owner.Connection
}

// followOwners keeps what is known of owners, and closes connections whose client
// identifier another has claimed: clean sessions have no record whose write would
// fail.
func (sh *shared) followOwners() error {
	w, err := sh.owners.Watch(sh.server.ctx, "")
	if err != nil {
		return err
	}
	sh.server.background(func(context.Context) {
		kept := make(map[string]bool) // since the last loss; nil once ready
		for u := range w.Updates() {
			switch {
			case u.Lost:
				sh.holders.lost()
				kept = make(map[string]bool)
			case u.Ready:
				sh.holders.ready(kept)
				kept = nil
			case u.Deleted:
				sh.holders.gone(u.Key, u.Revision)
			default:
				if kept != nil {
					kept[u.Key] = true
				}
				sh.ownerChanged(u)
			}
		}
	})
	return nil
}

func (sh *shared) ownerChanged(u state.Update) {
	o, err := cluster.DecodeOwner(u.Value)
	if err != nil {
		sh.server.log.Error("broker cluster: an owner record cannot be read", "client_id", u.Key, "error", err)
		return
	}
	// Known before the connection is looked for: one that is being attached meanwhile
	// looks for what is known after it can be found.
	sh.holders.learn(u.Key, o, u.Revision)
	sh.server.mu.Lock()
	cl := sh.server.clients[u.Key]
	sh.server.mu.Unlock()
	if cl == nil {
		return
	}
	cl.lock.Lock()
	c := cl.conn
	taken := c != nil && c.held != nil && sh.holders.overtaken(u.Key, c.held)
	cl.lock.Unlock()
	if taken {
		c.givenUp()
	}
}

// givenUp ends a connection whose client identifier another has claimed. The claim
// asks this replica to let go, if it can; where the mesh is cut, this is how it is
// told. It is given the time to ask.
func (c *connection) givenUp() {
	c.server.agenda.add(time.Now().Add(releaseGrace), func() {
		go c.end(ending{why: "taken_over", code: mqtt.SessionTakenOver, reason: "another connection took over", notify: true, taken: true})
	})
}

// releaseGrace is how long a claim that was seen has to ask over the mesh.
const releaseGrace = 500 * time.Millisecond
