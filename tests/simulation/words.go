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
	}
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%+v", v)
}
