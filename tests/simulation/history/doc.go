// Package history is the historian of simulated clusters: one History in memory that all
// replicas append to, as they do to PostgreSQL, each over a Client of its own that can
// hang, be cut, and leave a write without an outcome. A Client to which nothing is done
// passes historian/historiantest.
package history
