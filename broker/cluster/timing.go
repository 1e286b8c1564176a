package cluster

import "time"

// Timing is every interval of membership; each follows from the TTL alone, so
// that replicas with the same TTL agree on all of them.
type Timing struct {
	// TTL is memberTTL, T: an entry expires T after the last write NATS took.
	TTL time.Duration
}

// Heartbeat is how often a replica rewrites its entry: T/10.
func (t Timing) Heartbeat() time.Duration { return t.TTL / 10 }

// Fence is how long after the sending of its last landed write a replica stops
// serving: T·7/6. Others judge it gone no earlier than 1.5 T after NATS took that
// write, which is after it was sent: T/3 later at least.
func (t Timing) Fence() time.Duration { return t.TTL * 7 / 6 }

// WriteBound bounds one membership write: T·7/6 − T/10. One that takes longer
// could no longer keep the lease, for the fence came before it.
func (t Timing) WriteBound() time.Duration { return t.Fence() - t.Heartbeat() }

// Decide is for how long after the sending of its last landed write a replica
// decides for others: T, before it could be taken for gone itself.
func (t Timing) Decide() time.Duration { return t.TTL }

// Proof is how long another replica's entry must have been seen unwritten when the
// own heartbeat is sent whose echo proves it: its expiry and a dwell of T/2, 1.5 T.
// With the wait for that heartbeat and its echo the judgment falls between 1.5 T and
// 1.7 T after the last write.
func (t Timing) Proof() time.Duration { return t.TTL * 3 / 2 }

// Quiet is how long no other life may have rewritten an entry before a start
// takes it over: three heartbeats.
func (t Timing) Quiet() time.Duration { return 3 * t.Heartbeat() }

// Apart is how far apart two heartbeats of an older life must be seen to show a
// living process: half a heartbeat. What a dead one left in a hung server comes
// all at once.
func (t Timing) Apart() time.Duration { return t.Heartbeat() / 2 }

// SilenceBound is how long the shared-state connection may receive nothing
// before the replica fences itself, whatever T.
const SilenceBound = 15 * time.Second
