// Package peer starts the brokers that are measured beside each other: ours, alone and
// as two replicas, Debian's mosquitto, and mochi-mqtt and nats-server, which are built
// from their modules by tools/peers (a go.mod of its own, so that nothing of them
// reaches the broker's). Each is a process of its own on loopback, or several, over a
// folder of its own, keeps what it can keep, with its limits raised as far as the
// scenarios need and everything else as it comes.
//
// A Kind is what can be measured and says what its acknowledgment means; Start gives a
// Running, which is a scenario's target, can be killed and mended, and is stopped.
package peer
