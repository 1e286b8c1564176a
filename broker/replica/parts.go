package replica

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"maestrohub.io/uns/broker/cluster"
	"maestrohub.io/uns/broker/historian"
	"maestrohub.io/uns/broker/listener"
	"maestrohub.io/uns/broker/mesh"
	"maestrohub.io/uns/broker/model"
	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/state/jetstream"
)

// Parts are what a replica otherwise opens by itself, as its configuration says: for
// whoever runs replicas in a process of its own. What is nil is opened as usual.
type Parts struct {
	// Shared is the state of a cluster. The replica closes it.
	Shared Shared
	// Historian is closed by the replica.
	Historian historian.Historian
	Model     *model.File
	// Mesh replaces the sockets between the replicas of a cluster.
	Mesh *MeshParts
	// Unlistening: Run opens no listener. Connections come by Serve.
	Unlistening bool
	// Newest is the newest format it reads, as cluster.Options has it.
	Newest cluster.Format
	// FixedIdentifiers is server.Options'.
	FixedIdentifiers uint64
}

// MeshParts are one replica's end of the links to others.
type MeshParts struct {
	// Listener is closed by the replica; its address is what others dial.
	Listener    net.Listener
	Dial        func(ctx context.Context, address string) (net.Conn, error)
	Certificate tls.Certificate

	identity func() mesh.Identity
}

// Shared is the state that the replicas of a cluster share, as one of them reaches it.
type Shared interface {
	state.Store
	// OpenLease returns the way by which the member's own entry is written.
	OpenLease(ctx context.Context) (cluster.Lease, error)
	// Silent is for how long nothing at all has been received.
	Silent() time.Duration
	// Configure brings the store to this replica's settings.
	Configure(ctx context.Context) error
}

// inNATS is the shared state of a configured cluster.
type inNATS struct{ *jetstream.Store }

// OpenLease implements Shared.
func (s inNATS) OpenLease(ctx context.Context) (cluster.Lease, error) { return s.Lease(ctx) }

// Serve serves one connection of a device, over plain TCP or what behaves like it,
// until it ends.
func (r *Replica) Serve(nc net.Conn) {
	r.server.Handle(&listener.Conn{Conn: nc, Transport: listener.TCP})
}
