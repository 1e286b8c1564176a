// Package cluster makes replicas act as one broker: who is a member, who may serve
// and decide, when another counts as gone, what becomes of the wills and sessions it
// had, which record format is written, and how fresh a replica's subscribe index is.
//
// It decides; it does not connect devices. Everything it knows it keeps in the shared
// state (package state) and believes of it only what its laws promise: a conditional
// write decides, a read is a hint, a write of unknown outcome may land later, an
// expiry gives no event.
//
// # Parts
//
// Each part is a state machine without goroutine, lock, clock or I/O (an event in,
// effects out), with a thin driver around it that reads package time:
//
//	timing.go        every interval, from memberTTL (T) alone
//	lease.go         the right to serve; deadline.go what every effect compares the clock with
//	registration.go  how an incarnation gets its entry, and what fences it at once
//	view.go          the others, and when one may be judged gone
//	core.go          the three together: a replica's membership; driver member.go
//	floor.go         joining under the format floor, raising it
//	freshness.go     how old the subscribe index can be at most
//	wills.go         when a will is due; sending.go how it is sent once
//	sweep.go         what the elected replica tidies up; driver sweeper.go, table.go
//	record_*.go      every record the replicas keep of each other, with codec
//
// # The life of an incarnation
//
//  1. Registering. The watch of the own key shows whether another process lives under
//     the id: then this one is a duplicate and waits. Else a conditional write of the
//     entry, whose revision orders the incarnations of one id.
//  2. Joining. The lease runs from the sending of that write, a heartbeat rewrites the
//     entry every T/10, and the floor record is touched.
//  3. Serving, under a Deadline that every landed heartbeat extends.
//  4. Fenced, for one of the Causes. The Deadline is over, for good; the entry goes on
//     being written and says fenced, until a write lands again (lease lost) or the
//     state connection receives anything (half-open). Then 1. with a new incarnation.
//  5. Stopping instead of 4.: the entry says stopping, the lease is renewed while the
//     server hands over, the last write says stopped.
//
// # Invariants, and what breaks without them
//
// The names are those of the interleavings the design was tested against.
//
//   - Nobody acts for an incarnation that may still serve. It fences T·7/6 after the
//     sending of its last landed write; it is judged no sooner than 1.5 T after NATS
//     took that write, which is later. A heartbeat's answer counts from its sending,
//     and nothing renews a lease that ran out (lease.go). A registration whose answer
//     came after its own fence is no lease: it may have been judged meanwhile.
//   - B7, absence read falsely. An entry that is not there proves nothing: the watch may
//     be blind, a cut-off server expires entries by itself and answers reads for as long
//     as it lives. So silence is proven by order: the echo of an own heartbeat that was
//     sent 1.5 T after the other's last write was seen, with none of the other's
//     before it in the same stream. Then the judgment is a conditional create of a
//     Gone entry, which fails while an entry lives, and it counts once it landed. Gone
//     stays gone: a late heartbeat may overwrite the key and changes nothing.
//   - B13, the heartbeat of an earlier life. A killed process's heartbeats can land for
//     14 s. Registering waits until no entry of another life was rewritten for three
//     heartbeats (stopped, gone and this process's own lives excepted). Once registered,
//     a late one is overwritten by the next own heartbeat; two that are apart are a
//     living process, and the one that registered second steps back; a newer life
//     fences at once.
//   - B19, checked and then paused. Every effect compares the clock with the Deadline it
//     began under, immediately before it leaves. A Deadline belongs to one incarnation,
//     so the answer to a write sent before a fence is never acted on after it (B10.4).
//   - B2, the index trusted while stale. A probe is a write to the bucket the index is
//     made of; once everything up to its echo is applied, the index is complete as of the
//     probe's sending. Unfresh after every start and unfence until the echo of a probe
//     sent 3 s after the entry landed, for until then others may not count this replica.
//   - B14, a format raised over an old replica. Joining writes the entry, then touches the
//     floor record; raising reads the floor, then proves its view of the members complete,
//     then writes at the revision it read. So the raiser sees the joiner, or one of the
//     two writes fails. What is written is the floor's format, nothing higher, or a
//     rollback meets records it cannot read.
//   - B10.1, a will of a CONNECT that never was. A will is dead if the owner record names
//     another connection, or says that this one left properly. Equality only: the
//     bucket may have been rebuilt and its revisions begun again. The owner record is
//     touched, not only read, for a read may be stale, its not-found too.
//   - B10.2, nobody could hand the will over. Waiting begins when the incarnation ended,
//     by its entry (fenced, stopping), a newer one or a judgment; nothing need be written
//     by who ended.
//   - B10.3, the sender dies. Its mark in the will's record fixes the timestamp; row id and
//     message id come from the connection id; whoever sends next stores the same row.
//   - B10.5, B10.7, the grace runs while nobody can return. It runs on the decider's own
//     clock, from when it first saw the will waiting, begins anew with every decider, stands
//     still while any member refuses CONNECTs for the store's sake, and a CONNECT that has
//     arrived holds its client's wills for a connectBudget, maxSessionExpiry in all.
//   - B10.6, a stop taken for a takeover. WillAtClaim: only the takeover of an open
//     connection follows the standard; in every other case the device is back.
//   - B8, a failover taken for a surplus. Only sessions offline for longer than the
//     grace count, those of a lost replica from when they were marked ended.
//   - B12, two lives of a session mixed. Every record carries the session's id, and the
//     sweep deletes by conditional tombstone: what comes late fails.
//
// # How a replica uses it
//
//  1. Start a Member; another memberTTL than the bucket's is an error here. Keep its
//     events: NowServing carries the Deadline to serve under, NowFenced says to close
//     every connection (MQTT 5: 0x8B) and refuse CONNECTs (0x88; 3.x: 3).
//  2. Run a Freshness beside the subscribe index, which calls Applied for every change
//     and Lost when its watch does; at NowServing call Begin, then accept CONNECTs.
//  3. A connection keeps the Deadline it was accepted under and asks MayAct right
//     before every flush, frame, append, retained put. Claims and records name
//     Deadline.Incarnation and are encoded with Member.Floor.
//  4. Call Refused with every CONNECT refused for the store's sake, and
//     Sweeper.Returning for every CONNECT that arrives, here or by the mesh.
//  5. Run a Sweeper; its Publish puts a will through the chain under the grants of its
//     identity. The will of a connection lost at this replica is sent with a WillSender
//     after WillWait, under Deadline.MayAct.
//  6. To stop: Stopping, hand over, Stop.
//
// # What is left to others
//
// The connections to NATS and their silence (state/jetstream), the claim of a client id
// and the take-up of a session (server), links and frames (mesh). A virtual machine that
// is suspended stops the monotonic clock: out of scope, as are clocks that step.
package cluster
