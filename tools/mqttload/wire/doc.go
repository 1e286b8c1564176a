// Package wire drives many MQTT connections from one thread, at as little cost
// as a load generator that shares two cores with the broker can have: one epoll
// loop, one large read buffer for all connections, packets queued into a
// connection's buffer and written once per turn of the loop, no goroutine and
// no idle memory per connection.
//
// The life of a connection:
//
//  1. Loop.Dial begins a TCP connect and returns at once.
//  2. Handler.Up is called when it stands; the handler queues its CONNECT.
//  3. Handler.Packet is called for each whole packet received; what it queues
//     with Conn.Queue leaves at the end of the same turn in one write.
//  4. Handler.Down is called once, when either side closed or an error came up.
//
// Everything happens in Loop.Turn, in the goroutine that calls it: nothing here
// is locked. A turn lasts until something was received, or until the instant
// given to it, to a few microseconds (a timer file descriptor, because epoll
// itself counts milliseconds).
package wire
