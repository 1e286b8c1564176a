// Package ingest is the one door every value goes through: a PUBLISH to an
// inbox, a Last Will and a REST write pass the same chain and get the same
// outcomes.
//
// What it promises:
//
//   - Every publish gets exactly one outcome. It is without refusal only if the
//     historian has the value durably, the session log has it if a persistent
//     session wants it, the retained store has it, or a newer one, if its topic
//     retains, and every linked replica that wants it has it in its subscribers'
//     queues.
//   - Live copies of a workspace leave in the order its values were accepted.
//     Outcomes given in the lane come in that order for each Completion. The log
//     has the values in that order too.
//   - A QoS 2 value's live copy leaves only once its log append has landed or none
//     is needed, so a refused one was never forwarded.
//   - Nothing waits on a timer while the stores answer, and a workspace without
//     values on their way has no goroutine.
//
// # The life of a value
//
//  1. Publish, in the caller's goroutine (admission.go): inbox grammar, whose
//     inbox, workspace, grant, payload and schema, then age and size (storable.go: what
//     could never be read, or never be in a session log, is not stored). The
//     device's retain flag is cleared: the model says what is retained. A value
//     without a timestamp gets one, and a row id. A refusal is an outcome, given
//     before Publish returns.
//  2. Room is reserved in the workspace's lane (room.go); without room Publish
//     waits, which is the back-pressure, and is refused NoRoom after AppendWait.
//  3. The lane writes batches to the historian (store.go, hung.go): while one is
//     out the next gathers. An unavailable historian is tried again for
//     StoreBudget from each value's admission; a batch that fails for one value's
//     sake loses that value only; a write that hangs is given up on and repeated,
//     and after QuarantineAfter hung writes its values are quarantined: refused,
//     logged and counted, and not acknowledged.
//  4. Stored values (settle.go) are matched with what persistent sessions want,
//     appended to the session log in one atomic batch at a time, put into the
//     retained store and delivered live. The append goes on until its outcome is
//     definite, however long that takes; the device is refused after AppendWait
//     (overdue.go).
//  5. The outcome is given; one that is a refusal says whether the value is stored
//     all the same (Kept). An entry that is not in the log is matched again if
//     Wanted's generation moved, and appended first; so it is, or held, if what Wanted
//     says is not proven complete. QoS 0 waits for none of step 4; its durable
//     steps still happen.
//
// A publish refused for time's sake (Refusal.Passing) takes along those of its connection on its
// topic that are in the lane behind it and in no log batch, because the device may
// send it again and must not be overtaken by itself. If the connection ends with a
// refusal (Ordered) it takes along all of them, and what the connection still
// publishes. A batch that is at the log when AppendWait passes: its QoS 1 values are
// refused and may be in the log twice once the device has sent them again; its
// QoS 2 values are reported Unresolved, and get their outcome when there is one.
//
// # Many replicas
//
// Three optional interfaces and one option are for a replica among others. Without
// them a single node does nothing of this.
//
//   - Live may be Linked (linked.go): the outcomes of a batch's QoS 1 and 2 values wait
//     until it has arrived at the other replicas, beside the log and the retained
//     store. Alerts and errors go in batches of their own, for which nothing waits.
//   - Wanted may be a Freshness, and Wanted or Logs a LogKnower (fresh.go). While
//     Wanted is not fresh, everything whose live copy has QoS 1 or 2 is appended,
//     wanted or not. No log is made for this: in a workspace without one, publishes
//     of QoS 1 and 2 are held until Wanted is fresh, looked at every 50 ms, and
//     refused LogTimeout after AppendWait, except that one of QoS 2, whose copy has
//     left, is reported Unresolved.
//   - Options.MayAct, Fence and Serve (fence.go): past the fence nothing leaves. What is
//     in the lanes gets Shed; it is sent again by its device, elsewhere, and may
//     then be stored once and in the log twice. An append that was out is abandoned
//     (the log's Abandon, if it has one) before the next life appends anything.
//   - A value found wanted late can land in the log behind a later one of its topic
//     (landings.go), which is counted. Other replicas' appends are not seen here.
//
// A connection that is to be settled counts its own outcomes; a planned stop is a
// Stop whose context gives the hand-over its time, and Outstanding says what is left.
//
// # The empty payload
//
// On a topic whose binding retains, it deletes the retained message: durably
// first, then forwarded live and, if wanted, through the log; it is no value and
// not stored. On an opaque topic it is a value of zero bytes, stored like any, and
// deletes the retained message if the topic retains. Elsewhere it is refused.
//
// # Alerts and errors
//
// Both are values that only live live: Position 0, in no log, never retained,
// without outcome and without errors of their own. A subscriber, of a persistent
// session too, gets them while it is connected; topic.Reserved(v.Topic) tells them
// from everything else that Live delivers.
//
// <version>/<workspace>/_alerts/<topic>, QoS 1, follows the live copy of a stored
// value that takes its topic into another level: "warn", "critical" or back to
// "normal". Values of bad quality say nothing. At most 200 a second per workspace,
// after a burst of 1000.
//
//	{"topic":"line/1/temp","value":97.2,"level":"critical",
//	 "threshold":"value 97.2 °C is above the critical threshold of 95 °C",
//	 "timestamp":"2026-01-01T00:00:00Z"}
//
// threshold is absent on the way back to normal; timestamp is the value's.
//
// <version>/<workspace>/_errors/<client>, QoS 0, says why a publish of the client
// was refused, in the client's own workspace whatever the name was. At most 10 a
// second per client, after a burst of 20.
//
//	{"topic":"mHv1.0/acme/_ingress/press/temp","reason":"range",
//	 "detail":"…","timestamp":"2026-01-01T00:00:00Z","qos":1}
//
// reason is Refusal.Reason, topic the name as published, qos the device's.
// Everything refused is also in the reject feed (Rejects), without a rate, the
// newest 1000 per workspace, and counted by reason.
//
// # Whom it calls
//
// Live, Wanted and Completions are called from lanes and must neither block nor
// call back. Time comes from package time.
package ingest
