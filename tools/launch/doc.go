// Package launch starts programs on this machine for tests and benchmarks: the
// broker itself, third-party clients and brokers. What it starts listens on
// loopback only and is ended by process id, never by name, however its starter
// ends.
//
// The life of a process:
//
//  1. Ports come from Reserve: free, outside the range from which the kernel
//     gives ports to outgoing connections, and held by a lock file until the
//     reserving process ends, so that a program can be killed and started again
//     on the same port while others look for one.
//  2. Start runs it in a process group of its own, with its output kept.
//  3. WaitFor waits for a line of its output; Exited closes when it has ended.
//  4. Stop asks with SIGTERM and kills after a grace; Kill is kill -9 at once.
//     If the starter itself dies, the kernel kills the program (Pdeathsig).
//
// Broker (broker.go) is such a process with a generated folder: config.yaml,
// clients.yaml, certificates, data. It can be killed and started again over the
// same folder, and knows when it is ready to serve.
package launch
