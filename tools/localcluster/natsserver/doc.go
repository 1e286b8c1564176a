// Package natsserver starts clusters of real nats-servers on this machine, each a
// process of its own on loopback over a folder of its own, for tests and for the
// local cluster. The program is built from its module by tools/peers.
//
// The life of a cluster:
//
//  1. Start reserves ports, writes the configurations and starts the servers;
//     Ready waits until JetStream answers on all that run.
//  2. Accounts keep what is done in one apart from the others: every test can
//     have streams of the same names. URLs gives the servers for one account.
//  3. A server is killed (kill -9), paused (SIGSTOP: its connections stay open
//     and say nothing), resumed, stopped (SIGTERM, which hands its leaderships
//     over first) and started again over what it had stored.
//  4. Hold holds what a server sends for a while; OpenWaves counts how many round
//     trips to it follow one another.
//  5. StepDown moves a stream's leadership; Leader says where it is.
//  6. Close ends all servers by process id. If the starter dies, the kernel
//     ends them.
package natsserver
