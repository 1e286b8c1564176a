package simulation

import (
	"fmt"

	"maestrohub.io/uns/broker/cluster"
	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/tests/simulation/store"
)

// inWords is what a write of a device's record says.
func inWords(l store.Landing) string {
	if l.Op == state.OpDelete {
		return "nothing"
	}
	var v any
	var err error
	switch l.Bucket {
	case state.Sessions:
		var o cluster.Owner
		o, err = cluster.DecodeOwner(l.Value)
		v = fmt.Sprintf("connection %s of %s, %v", o.Connection, o.Incarnation, o.Ending)
	case state.SessionState:
		v, err = cluster.DecodeSession(l.Value)
	case state.SessionCursor:
		v, err = cluster.DecodeCursor(l.Value)
	case state.SessionQoS2:
		v, err = cluster.DecodeReceived(l.Value)
	case state.SessionWill:
		v, err = cluster.DecodeWill(l.Value)
	}
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%+v", v)
}

// watches reports whether a write is of a record of the watched device: its wills are
// keyed by their connections.
func (w *world) watches(l store.Landing) bool {
	if w.o.Watched == "" {
		return false
	}
	if will, err := cluster.DecodeWill(l.Value); l.Bucket == state.SessionWill && err == nil && will.Client == w.o.Watched {
		w.watchedWills.Store(l.Key, true)
	}
	_, will := w.watchedWills.Load(l.Key)
	return will || l.Key == w.o.Watched
}
