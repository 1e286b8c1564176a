// Package conformance shows, over the wire and against a real broker, that every
// normative statement of MQTT 5 and 3.1.1 with a server part holds.
//
// testdata/ids.csv lists the statements of both standards in our words, and the
// duties MQTT 5 states without an id (D5-…). testdata/statements.csv maps each to
// the tests that show it. A test marks what it shows:
//
//	shows(t, "5 MQTT-3.1.2-22", "3.1.1 MQTT-3.1.2-24")
//
// and TestEveryStatementHasATest fails if a statement is missing from the table, if
// the table names a test that does not exist, or if marks and table differ. After
// changing marks, go test -run TestEveryStatementHasATest -rewrite brings the table in
// line with them; notes and tests of other packages are kept.
//
// A broker that several tests share runs for the whole binary (TestMain): one, or with
// -replicas 2 as many that share NATS and a history, to which connections go in turn. Tests keep
// out of each other's way by topics and client identifiers of their own. What the
// standard measures in seconds takes seconds here; such tests run beside others.
//
// The broker's own rules shape what can be seen: a client publishes into its inbox,
// and the live copy it causes is what subscribers see. So the RETAIN flag of a
// PUBLISH to an inbox is cleared and the model says which topics retain; and the
// copy of a QoS 0 value has QoS 1 (liveMirror.qos). Notes in the table say where
// a statement is met by those rules.
package conformance
