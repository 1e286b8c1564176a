// Package server serves MQTT connections: from accept to close, and the sessions
// that outlive them.
//
// Data moves one way. A PUBLISH goes from connection.onPublish into the chain
// (package ingest) with the connection as its completion; its outcome comes back
// in any order and leaves as an acknowledgment in the order of the PUBLISHes
// (ackRing). The live copy comes to Server.Deliver, the session log's entries to
// feed, and both end in connection.transmit, the one place that writes a PUBLISH.
//
// The life of a connection:
//
//  1. handshake reads the CONNECT within connectTimeout, signs the client in, and
//     claims its client identifier; whoever holds it is ended (0x8E) and what it
//     had sent is settled first.
//  2. attach gives it the session, sends the CONNACK, then what the session has
//     to send again.
//  3. serve reads packets. It stops reading while the client has too much in the
//     lanes or does not read our answers; the keep-alive clock stands still then.
//  4. end takes it apart, once, from wherever: the session is let go at once, the
//     last bytes are written, the socket is drained and closed.
//  5. settled: every outcome of its publishes is known. Only then may the next
//     connection of the same client serve.
//
// The life of a session: made by the first CONNECT, resumed by later ones, ended
// by its expiry (agenda), by a Clean Start, or by the bound on offline sessions
// (sweep). A Last Will waits in its client while its delay runs.
//
// What a subscriber is sent, it is sent by exactly one path: a clean session and
// QoS 0 by Deliver, a persistent session's QoS 1 and 2 by the session log. At the
// tail of the log one feed per workspace serves all sessions from one read; a
// session that is behind has a pump of its own until it has caught up; the feed's
// directory tells it which entries are worth reading.
//
// # In a cluster
//
// SetCluster makes the server one of several (shared). A persistent session is then
// in memory only while it is connected here; what it is lives in its records, each
// written on the condition that it is as this connection left it:
//
//	mqtt-sessions        which connection holds the client identifier (owner.go, owners.go)
//	mqtt-session-state   identity, expiry, subscriptions
//	mqtt-session-cursor  everything outbound: position, unfinished deliveries, retained
//	                     messages still to be sent
//	mqtt-session-qos2    everything inbound: QoS 2 identifiers taken
//	mqtt-session-will    the will, from before the CONNACK
//	mqtt-routes          what this incarnation's sessions are fed live (routes.go)
//
// The take-up of a client identifier: claim by a conditional write over the owner
// record this replica knows of, and read the session's records beside it → ask the owner
// before, if it still holds it, over the mesh to let go, which settles and flushes
// (forward.go, flush), and read again → confirm by a conditional write on each record →
// serve. A write of an owner before then fails, and its connection ends. The conditions
// decide, not the order of the reads: owner.go says why that is enough, and how often a
// CONNECT waits for the shared state.
//
// A claim that comes to nothing (its replica dies, its device gives up, its budget runs
// out) has written over the record of who held the identifier before. So the owner record
// also names the claims before it that may not have let go, and whoever claims next asks
// them all: else a QoS 2 PUBLISH that one of them has stored and not yet recorded would be
// taken for a new one. Of two claims that meet, the newer goes on: it was made over the
// other, so it knows the other's connection (giveUp).
//
// Every record names the connection that wrote it. A write that meets a conflict is a
// takeover only if another's stands there, and not one's own whose outcome was never told
// (standing.go).
//
// What leaves only after a record has landed waits in its recorder: a PUBREL, and a QoS 2
// PUBLISH that may not go ahead of it (ahead.go), for the cursor, a PUBREC and a PUBCOMP for
// the identifiers taken.
//
// What persistent sessions want is an index of every replica's own, derived from
// mqtt-session-state (wanted.go); live values go to the replicas with routes for them
// (forward.go). A SUBACK follows when the values matched before it have their outcome
// here (ingest.Settled), and the other replicas have reported the same of theirs. Before
// the retained messages of a subscription are looked up, this replica catches up with what
// was acknowledged until then (asked.go).
//
// Nothing is done for an incarnation after its fence: whatever writes asks the
// connection's deadline immediately before, and Fence ends every connection without a
// write.
//
// Limits of this package are those of config.Limits, per replica.
package server
