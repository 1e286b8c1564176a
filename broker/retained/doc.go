// Package retained keeps the retained message of each topic: the last value, or
// none, in the bucket mqtt-retained of the shared state, with a copy of all of
// them in memory, indexed by topic level.
//
// What it promises:
//
//   - Put returning nil means that the store has, for each topic, the value given or
//     a newer one. Newer is a higher Position, the historian's: two replicas that
//     put values of one topic agree on the one stored last, whoever comes first.
//   - A value with an empty payload removes its topic's message and is itself not
//     kept as one [MQTT-3.3.1-6], [MQTT-3.3.1-7]. The removal is recorded with its
//     Position for an hour, so that an older value on its way does not bring the
//     message back.
//   - Match and Get answer from memory, never an expired message. What another
//     replica put shows once the watch tells, and by the end of a CatchUp begun after
//     it was confirmed; what this one put shows at once.
//
// How it is used:
//
//  1. Open loads the bucket and watches it; it returns once all is loaded.
//  2. ingest calls Put with the values of a lane's batch whose topics retain, before
//     they are acknowledged. A lane has one Put out at a time; rivals are decided by
//     the revision of the record.
//  3. server calls CatchUp and then Match for each new subscription. A filter visits only the part
//     of the topic tree it can match: "a/+/c" looks at the children of "a", not at
//     all messages.
//  4. Every minute expired messages and old removals are deleted from the bucket, on
//     the condition that nobody wrote them since; every replica may try.
//
// A message costs its record, about 300 bytes more for the value and the index, on
// every replica.
package retained
