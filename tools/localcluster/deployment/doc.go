// Package deployment starts a whole broker on this machine: replicas, the three
// NATS servers they share their state in and the PostgreSQL they store values in,
// each a real process on a loopback port of its own, from generated
// configurations, with one mesh certificate. Every network between two of them
// goes through a proxy that can be harmed.
//
//	d, err := deployment.Start(ctx, deployment.Options{Replicas: 2})
//	defer d.Close()
//	d.Replicas[0].Kill()              // kill -9
//	d.Replicas[1].NATS.Hold(2*time.Second)
//	d.NATS.Servers[2].Pause()
//	d.Do(ctx, "restart", "uns-0", "") // the same by name, for a command line
//
// The life of a deployment:
//
//  1. Start makes the folder, starts NATS and PostgreSQL, then the replicas, and
//     waits until each is ready to serve.
//  2. Any part is killed, paused, stopped, started and upgraded, any way cut,
//     frozen, slowed and healed, in any order. Ports, addresses and data stay.
//  3. Close ends every process by its id and removes the folder. If the starter
//     dies, the kernel ends them.
//
// Parts have names. uns-0, uns-1 ... are replicas, nats-0 to nats-2 servers,
// postgres the database; nats means all three servers, uns all replicas. Ways
// are uns-0/nats, from a replica to every NATS server; uns-0/uns-1, between two
// replicas; uns-0/mesh, between one and every other; nats and mesh, all of a kind.
package deployment
