// Package store is the shared state of simulated clusters: state/memory behind
// connections that lie as JetStream was measured to.
//
// A Server is what the NATS servers hold together. Each replica has a Client, with the
// two connections a real one has: one for the shared state, one for its lease. With no
// Lies and no fault a Client hands every call straight on; it then passes
// state/statetest like the store under it.
//
// # What lies
//
//   - A write takes its time to land and its answer to come back. One that is late sits
//     in a server that hangs, for up to 14 s; its caller may be gone by then, or have
//     been told ErrUnknown, and it lands all the same, over or under the next writer's.
//     A caller is told the revision its write landed at though another has replaced it
//     since (JetStream's Duplicate). ErrUnknown comes for writes that landed, that will
//     and that never do; ErrConflict, rarely, for one that would have landed (a leader
//     that was deposed and does not know). A create that nobody waits for any more is
//     refused by a deletion that came after it had left, as JetStream does it: the message
//     names what it is to land over.
//   - A read shows what was there up to Lies.StaleBy ago, or that nothing was.
//   - A watch lags, is blind for a while, and then goes on or says Lost and begins anew. It
//     never leaves out a change unsaid, for that is what the law forbids.
//   - A log's readers lag, but never behind what this client has read or appended.
//
// # What is done to a connection
//
// Cut: nothing passes either way. Hung: requests wait in a server that does not answer and
// land when it does. Isolated: the server is alone; it answers reads, with what it had,
// and expires the members by its own clock, while writes have no outcome. Held: answers
// take longer. Frozen: the replica at this end does not run; see Client.Freeze.
//
// A Client's appends to a log are one at a time, and one that is out is resolved before
// the next, as the writer of state/jetstream does it; Abandon gives one up for good. What
// a killed client had out lands later or never.
//
// Snapshot and Restore are a backup with the replicas running and a restore with them
// stopped: revisions, sequences and the times of log entries are as they were, so that what
// is written next gets numbers that were given out before. Deletions are not in it, nor
// is when a record was written.
package store
