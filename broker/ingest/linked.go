package ingest

import (
	"sync/atomic"

	"maestrohub.io/uns/broker/value"
)

// Linked is a Live whose copies also cross to other replicas. Its Deliver is
// never called: DeliverLinked is, for every batch.
type Linked interface {
	Live
	// DeliverLinked is Deliver, and has arrived called, once, when every linked
	// replica that wants any of the batch has it in its subscribers' queues or is no
	// longer linked. false: nothing left this replica, arrived is never called.
	// arrived may be called before DeliverLinked returns, from any goroutine.
	//
	// The slice is ingest's again after the call. How long arrived may take is
	// bounded by whoever calls it: there is no other bound here.
	DeliverLinked(batch []*value.Value, arrived func()) bool
}

// arrival is the way of one batch of live copies to the other replicas. The
// outcomes of its QoS 1 and 2 values wait for it: the subscriber of another replica
// must not miss a value because this one died right after the acknowledgment.
type arrival struct {
	lane  *lane
	state atomic.Int32
}

const (
	sending int32 = iota // in DeliverLinked
	away
	arrived
)

// came is what Linked calls. A call before DeliverLinked has returned needs no
// event: whoever delivers looks next.
func (a *arrival) came() {
	if a.state.Swap(arrived) == away {
		a.lane.post(func(ev *events) { ev.arrived = true })
	}
}

// here reports whether nobody has to be waited for.
func (a *arrival) here() bool { return a == nil || a.state.Load() == arrived }

// deliver gives a batch to Live. a is nil if no outcome waits for it.
func (s *step4) deliver(batch []*value.Value, a *arrival) {
	s.delivered = true
	switch {
	case s.linked == nil:
		s.lane.i.o.Live.Deliver(batch)
	case a == nil:
		s.linked.DeliverLinked(batch, nobodyWaits)
	case !s.linked.DeliverLinked(batch, a.came):
		a.state.Store(arrived)
	default:
		a.state.CompareAndSwap(sending, away)
	}
}

func nobodyWaits() {}
