// Package peer starts the brokers that are measured beside each other: ours,
// Debian's mosquitto and nats-server (built from its module by tools/peers, which
// has a go.mod of its own so that nothing of it reaches the broker's). Each is a
// process of its own on loopback, over a folder of its own, with its limits
// raised as far as the scenarios need and everything else as it comes.
package peer
