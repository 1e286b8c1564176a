// Package jetstream keeps the shared state in NATS JetStream: the store of a
// broker of several replicas.
//
// # What is where
//
// Every bucket is a stream KV_<bucket> that keeps one message a subject, every
// session log a stream LOG_mqtt-sessions-<workspace id>. They are made by this
// package with the settings in stream.go, so that no client library puts its own
// over them, and read with the nats command line as usual: key "a/b" of the
// bucket x is the subject $KV.x.a.b (subject.go has the escapes).
//
// Each has a stamp in its metadata, a random word given at its creation, by which one
// that is deleted and made again is told from the one before, however soon (gone.go):
//
//   - Settings leave it as it is (merge), in releases before it, too, and an operator's
//     metadata stands beside it.
//   - A stream without a stamp, of such a release or made by hand, never gets one: two
//     elected replicas in turn could give it two, and whoever saw the first would take it
//     for another stream for good. So one without is another than one with.
//   - A stamp that was written over says nothing: nobody is not ready for that.
//   - Of replicas that make one stream at once each brings a stamp of its own. One wins,
//     the others are refused for another configuration and read what is there.
//   - A backup has the stamp and a restore brings it back. One restored under running
//     replicas from a time before would pass for the same within goneFor: that is why
//     nothing is restored while replicas run, and the broker's command refuses it.
//   - A mirror is a stream of another name, or in another account with a configuration of
//     its own: replicas sent there meet the same stamp, or none, with the same sequences.
//
// # Two connections
//
// The shared-state connection carries everything but a member's own entry. The
// lease connection (Lease) carries that and nothing else. Both reconnect without
// end and keep nothing back while they are not connected: a write then waits in
// the caller's context, not in a buffer that would send it late. A connection on
// which not one byte came for Options.Silence is given up and made again, and the
// shared-state connection also when a ping has had no answer for twice that; Silent
// tells how long it has been silent.
//
// # Writes
//
// A write is sent under an id of its own and, if it has a condition, with the
// sequence its subject must be at. It is sent again after a reconnect, when its
// answer is overdue, and when the answer says nothing definite (no leader,
// another write of that key just in process), until it landed, met a conflict, or
// the context ended: then its outcome is ErrUnknown, or ErrUnavailable if no
// attempt can have reached a server that acts on it. An attempt that arrives late
// meets the id or the condition.
//
//   - A write that landed may have been replaced already when its answer comes;
//     for owning something a further conditional write is the proof.
//   - A server that lost its leadership unknowingly may answer ErrConflict for a
//     write that would have landed. Nothing was written.
//   - ErrConflict of a Create in the members' bucket, whose records expire, does
//     not exclude that an attempt before it lands once the record has expired.
//
// # Watches and tails
//
// Streams republish every message; one subscription for each bucket and log
// serves everybody in the process (feed.go). Sequences must follow one another;
// what is missing is read, what can no longer be read makes watches say Lost. A
// watch begins with a scan of the stream, which is complete because a record only
// ever moves towards the stream's end (read.go).
//
// # The session log
//
// A batch is one message, however many records it has (frame.go), so appending
// costs what one message costs and reading brings them together. Each writer has
// a subject of its own and makes each batch conditional on its last one, which
// makes sending again exact without any id (writer.go). Sequences of records are
// 1024 times the message's, plus the place in the batch: dense within a batch and
// sparse between them, so the difference of two is no count: state.Span says
// about how many entries it is. Abandon gives a batch up for good.
//
// # How it is used
//
//  1. Open checks the options and begins to connect.
//  2. Bucket and Log make their streams if there are none. The members' bucket
//     must have Options.MemberTTL, else they fail and name both.
//  3. The elected replica calls Configure, which brings the other settings of all
//     streams to the options.
//  4. Lease gives the lease connection.
//  5. ProbeAt writes a probe; its revision coming through a watch proves the
//     watch complete to the moment of sending.
//  6. Close ends everything that waits, with ErrClosed.
package jetstream
