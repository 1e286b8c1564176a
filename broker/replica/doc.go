// Package replica builds one replica from a configuration and runs it.
//
// It is the only place that knows all parts; none of them knows it. What it adds
// itself: the order of start and stop, readiness, the clients file, the operator's
// socket and the format of the log.
//
// The life of a replica:
//
//  1. New opens the HTTP listener, which says that the replica lives and what its
//     start waits for, and then what must be there to serve at all, from the bottom
//     up: the shared state, the historian, API clients, retained messages, the server
//     and the chain between them. NATS that does not answer is waited for; an error
//     names what failed, and what was opened is closed again.
//  2. Run opens the other listeners (Started says when all are open), then serves
//     until its context ends.
//  3. The stop is in order and bounded (StopBound): no new connections; DISCONNECT
//     0x8B to every MQTT 5 client and an end to the others; what they had sent goes
//     through the chain and is acknowledged or not, but never half; HTTP requests
//     under way are answered; the stores are closed.
//  4. A crash at any moment loses nothing that was acknowledged: the stop is a
//     courtesy to clients, not what durability rests on.
//
// Readiness follows the stores: a background probe writes to each every 2 s. One
// that says it cannot serve (disk full) makes the replica unready at once, one that
// does not answer after 15 s. The replica serves on meanwhile, refusing what it
// cannot store, and is ready again by itself.
package replica
