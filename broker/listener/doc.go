// Package listener accepts MQTT connections: over TCP, TLS, WebSocket and WSS, directly or through
// load balancers that speak the PROXY protocol. What it hands over is a stream of MQTT bytes, of which it
// knows only where packets begin: over WebSocket each is written as a message of its own, all packets of
// one Write in one write to the socket.
//
// The life of a connection:
//
//  1. Accepted. It takes one of MaxPending places; with all taken, it is the newest and is closed at
//     once, whatever the cost of those before it. It has until ConnectTimeout after the accept to send
//     its CONNECT; everything below counts against that.
//  2. Off the accept loop, on a goroutine of its own: the PROXY header, if it comes from a trusted proxy;
//     its place among its address's MaxPerSource (IPv6: its /64), if addresses are the devices' own; the
//     TLS handshake; the WebSocket handshake.
//  3. handle is called with it, on that goroutine, and owns it: it may keep the goroutine for the
//     connection's life, and closes the connection. The read deadline is still the ConnectTimeout's.
//  4. Established frees the pending place, when the CONNACK is sent. Close frees what is left.
//
// Stop ends accepting and leaves connections be; Close ends also those not handed over yet.
//
// Certificates are files, read again when they change: the next handshake uses the new ones.
package listener
