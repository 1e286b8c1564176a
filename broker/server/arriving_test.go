package server

import (
	"testing"
	"testing/synctest"
	"time"

	"maestrohub.io/uns/broker/retained"
	"maestrohub.io/uns/broker/state/memory"
	"maestrohub.io/uns/broker/value"
)

// A value leaves here and is removed at another replica before anybody has looked: a
// subscription that follows is given neither it nor anything.
func TestARetainedMessageRemovedAtAnotherReplicaIsNotGivenOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := memory.Open(memory.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		here, err := retained.Open(t.Context(), store)
		if err != nil {
			t.Fatal(err)
		}
		defer here.Close()
		there, err := retained.Open(t.Context(), store)
		if err != nil {
			t.Fatal(err)
		}
		defer there.Close()
		const name = "mHv1.0/acme/line/1"
		a := &arriving{store: here, longest: time.Hour}
		set := &value.Value{Workspace: "acme", Name: name, Payload: []byte("1"), QoS: 1, Retain: true, Position: 7}
		a.add(set)
		if got := a.match("mHv1.0/acme/#"); len(got) != 1 || got[0] != set {
			t.Fatalf("on its way, %v is found, want the value", got)
		}
		if err := here.Put(t.Context(), []*value.Value{set}); err != nil {
			t.Fatal(err)
		}
		removal := &value.Value{Workspace: "acme", Name: name, QoS: 1, Retain: true, Position: 8}
		if err := there.Put(t.Context(), []*value.Value{removal}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := a.match("mHv1.0/acme/#"); len(got) != 0 {
			t.Errorf("after its removal %q at position %d is found", got[0].Payload, got[0].Position)
		}
	})
}
