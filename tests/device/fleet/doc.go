// Package fleet is devices that publish and persistent sessions that take all of
// it, while something is done to the broker, and the checker that says what became of
// every acknowledged value: for the tests of the cluster, for the local cluster's
// check, and for whoever drills an outage of a broker that runs.
//
// The life of a fleet:
//
//  1. Start connects the sessions, then the publishers: of QoS 1 and 2, of MQTT 5
//     and 3.1.1. All roam: they go on wherever Options.Address sends them.
//  2. Flows says since when everything flows, from every device to every session.
//  3. Finish ends the publishing, waits until everything is where it belongs, and
//     holds every record against every other: each acknowledged value in the
//     historian, received by each session, in order, and once where both sides are
//     QoS 2. Report says so in words.
//  4. EndSessions takes the saved sessions back, for a broker that goes on.
package fleet
