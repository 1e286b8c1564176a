// Package session is one client's session: what it subscribed to, what it has
// been sent and not yet finished, and which QoS 2 messages of its own are open.
//
// Everything here is a plain value: methods take an event and return what is to
// be sent. There is no lock, goroutine, clock or socket inside; package server
// holds the lock and does the sending.
//
// A session is fed by exactly one path for each value. A clean session (it ends
// with its connection) is fed live only, through a bounded Queue. A persistent
// session takes QoS 0 live while connected, and everything at QoS 1 and 2 from
// its workspace's session log, where its queue is a position: nothing is dropped
// by the broker, and the log's order is the session's order.
//
// The life of a session:
//
//  1. New makes it at a CONNECT that found none; Persistent says which kind.
//  2. Subscribe and Unsubscribe change it; Effective decides whether and how a
//     value goes to it.
//  3. Window.Send takes a packet identifier for a delivery at QoS 1 or 2, and SendFixed
//     the one that follows from its place in the log; Puback, Pubrec and Pubcomp finish it.
//  4. Inbound remembers the QoS 2 identifiers the client used, from the PUBREC to
//     the PUBREL.
//  5. A connection ends; Detach drops what does not outlive it. Resume lists what
//     has to be sent again, in order, when the client is back.
//
// Aliases are not session state [MQTT-3.3.2-7]: AliasIn and AliasOut live with
// the connection.
package session
