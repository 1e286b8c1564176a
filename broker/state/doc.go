// Package state is what the replicas of a broker share: keyed records with
// revisions and watches, the session log of each workspace, and locks.
//
// It has two implementations. state/memory keeps everything in one process (a
// single node, tests, the simulation of a cluster); state/jetstream keeps it in
// NATS JetStream. Both pass state/statetest unchanged, and the laws below are
// the ones that suite holds them to. The interface promises no more than
// JetStream can keep, so code that is right against it is right on a cluster.
//
// # What a caller may rely on
//
//   - Only a conditional write decides. Create, Update and Delete succeed for
//     exactly one of several rivals. A read is a hint: it may be older than a
//     write already acknowledged, its absence proves nothing, and it goes on
//     answering when the store can no longer accept a write.
//   - A write that failed with ErrUnknown may have landed, or land any time
//     later (measured: 14 s). The caller repeats it with the same condition
//     until it succeeds or conflicts, and after a conflict reads whose write
//     stands there. Any other error means that nothing was written.
//   - Revisions grow over a whole bucket. A record keeps its revision until it
//     is written again; a deletion is a write and has a revision too, so a late
//     conditional write meets a conflict and cannot bring an old life back.
//   - A watch gives every current record, then Ready, then every change in the
//     order of revisions. It loses nothing silently: if it cannot go on without
//     a gap it says Lost and starts again with all current records.
//   - A log keeps the order of appends; a batch is in it as a whole, at
//     consecutive sequences, or not at all. The oldest entries go first.
//
// # How it is used
//
//  1. A replica opens a store and asks it for the buckets named here; they are
//     made where they do not exist.
//  2. Each package that keeps something in a bucket owns its keys and the
//     format of its values, which begin with a format number.
//  3. It lists or watches once at the start, then writes conditionally on what
//     it saw.
//  4. Probe tells whether the store accepts writes at all, which no read does.
//
// Values handed in are copied; values handed out are shared and must not be
// changed.
package state
