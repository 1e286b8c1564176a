// Package proxy is a TCP way to a server that can be harmed: for tests and for
// the local cluster, which put one between every two programs whose network they
// want to break.
//
// A way is whole, until told otherwise:
//
//   - Hold lets what goes to the server through at once and holds every byte it
//     sends for a while: a slow server.
//   - Cut closes every connection and each new one at once: a network that
//     refuses.
//   - Freeze forwards nothing in either direction and leaves connections open,
//     new ones too: a network that swallows packets, a hung server. What was sent
//     meanwhile arrives after Heal, as TCP does it.
//   - Heal ends all three.
//   - Strand carries nothing any more over the connections there are, in either
//     direction, and leaves them open: a network that has forgotten them. New ones are
//     whole. Nothing brings those back.
//
// A way may tell those who take it apart (OpenLanes): each has a lane of its own then,
// which is harmed alone.
//
// Close ends the way and every connection over it.
package proxy
