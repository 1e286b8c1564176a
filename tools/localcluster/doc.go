// Command localcluster runs a whole clustered broker on this machine and lets a
// person break it: replicas, three NATS servers and PostgreSQL as real processes
// on loopback, every network between them through a proxy.
//
//	go run ./tools/localcluster up --replicas 3      until interrupted, or `down`
//	go run ./tools/localcluster status
//	go run ./tools/localcluster kill uns-0           kill -9; also nats-1, nats, postgres
//	go run ./tools/localcluster restart uns-0        starts what does not run
//	go run ./tools/localcluster pause nats-1         SIGSTOP; resume
//	go run ./tools/localcluster cut uns-1/nats       or freeze: half-open; heal
//	go run ./tools/localcluster slow nats 4s         every reply of NATS is held
//	go run ./tools/localcluster cut mesh             the links between replicas
//	go run ./tools/localcluster upgrade uns-0 bin/broker
//
// The commands reach the running cluster through a Unix socket. Package
// deployment says what the parts and ways are called, and is what the failure
// tests are built on.
package main
