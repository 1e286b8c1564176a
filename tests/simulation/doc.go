// Package simulation runs whole clusters in one process, in a bubble of virtual time:
// replicas as they are (broker/replica, with every part under it), a shared state that
// lies as JetStream does (store), one historian for all (history), links that are cut and
// stalled (network.go), and devices that publish, subscribe, move and leave. Faults are
// drawn from a seed and done at any instant. In the end a checker (check.go) holds what
// every device was told and given against what is promised.
//
//	go test ./tests/simulation -run Seed -v -seed 7      one seed, with its history
//
// Every device does what real ones do: it publishes and subscribes, unsubscribes, moves and
// leaves its connection open, all connect at once, and an operator takes rights from some
// and gives them back. Built with the tag nextrelease, a test also replaces a release by one
// with a newer format while all that goes on (rolling_test.go).
//
// Beside what a seed draws, every interleaving that the design was tested against is done on
// purpose (directed_test.go), and one exchange at QoS 2 is broken after each of its
// effects in turn, on its way in and out (steps_test.go). Package planted takes safeguards
// out of the broker and holds these tests to finding it.
//
// # What is real and what is not
//
// Real: everything in the replicas, with TLS 1.3 between them over connections in
// memory. Not real: sockets, NATS, PostgreSQL, the disk, and processes. A kill cuts a
// replica off from everything at once and lets what is left of it run out without effect;
// a freeze keeps back what it sends and is sent, but its timers go on, so that what a real
// one would do when it runs again it has done by then, to be seen only then.
//
// # What a seed decides
//
// The cluster, its devices, every fault and, call by call, what the store and the links
// do to each call. It does not decide which goroutine runs first where several can at the
// same virtual instant, nor the random identifiers inside the broker: a rerun does the same
// to a cluster that may do things in another order. A failure that depends on that comes
// back in some reruns only.
package simulation
