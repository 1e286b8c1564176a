// Package value holds the one thing the broker moves: a value, a data point
// with the MQTT properties it travels under.
//
// A value is made once, at admission (package ingest), and is immutable from
// the moment it is handed to the historian. The same object is stored, appended
// to a session log, kept as retained, delivered to local subscribers and framed
// for other replicas, so everything a later step needs is in it: who published
// it, when, at which QoS, when it expires, and every MQTT 5 property that the
// standard wants forwarded unchanged.
//
// The life of a value:
//
//  1. ingest builds it from a PUBLISH, a REST write or a Last Will.
//  2. historian stores it and sets Position, the last field to change.
//  3. AppendRecord encodes it for the session log, the retained bucket and the
//     mesh; DecodeRecord reads it back on the other side.
//  4. session delivers it; what differs between subscribers (packet id, granted
//     QoS, subscription identifiers, remaining expiry) is not part of it.
//
// The package imports nothing of the broker: it is below all others.
package value
