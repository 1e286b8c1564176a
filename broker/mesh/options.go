package mesh

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"time"

	"maestrohub.io/uns/broker/value"
)

// State is what a member's entry says of its life, as far as links need it.
type State byte

const (
	// Serving: linked with, and values are kept for it while it is not.
	Serving State = iota
	// Stopping: still linked; it hands over what it holds.
	Stopping
	// Fenced, Stopped and Gone end the life for good: the link is closed and what was kept is dropped.
	Fenced
	Stopped
	Gone
)

func (s State) ended() bool { return s >= Fenced }

// Peer is another replica, as its member entry shows it.
type Peer struct {
	Replica string
	// Incarnation is the number of its life. A higher one is a later life.
	Incarnation uint64
	// Address is the host and port of its mesh listener.
	Address string
	State   State
}

// Flags of a value travel with it; what they mean is for those who send and receive.
type Flags byte

// Outgoing is a value and who wants it.
type Outgoing struct {
	Value *value.Value
	Flags Flags
	// Peers are the replica ids of those who want it. Unknown ones are passed over.
	Peers []string
}

// Received is a value of another replica. Nothing in it is shared with other values.
type Received struct {
	Value *value.Value
	Flags Flags
}

// Applied are the revisions up to which a replica has taken in what is wanted.
type Applied struct {
	Routes   uint64 // of mqtt-routes
	Sessions uint64 // of mqtt-session-state
}

// Handler takes what peers send. The calls for one peer's life come one after the other, in the order of
// its frames, from the goroutine that reads the link: they must not block, and a frame is acknowledged once
// its call has returned. Those of different peers come at once.
//
// An answer may be given at any time, from anywhere; only the first counts, and none once the pair of lives has ended.
type Handler interface {
	// Values: the live copies of a peer's values, to be in the subscribers' queues on return. The slice is
	// the mesh's again after the call.
	Values(from Peer, batch []Received)
	// Share: a value for one member of a shared subscription. Hold it until its client has it.
	Share(from Peer, s Share, answer func(ShareOutcome))
	// Release: let go of a client id, and answer once everything of that client is settled.
	Release(from Peer, r Release, answer func(Released))
	// Returning: a CONNECT for a client id has arrived at the peer.
	Returning(from Peer, clientID string)
	// Applied: how far the peer is. Only the newest comes, and again with each link.
	Applied(from Peer, a Applied)
	// LinksChanged: Linked returns something else now. Any goroutine calls it, several at once too.
	LinksChanged()
}

// Identity is what a replica shows at a handshake, and whom it takes for its own deployment: who shows the same
// certificate, one of Authorities itself, or one that these have signed for a name that this replica's own has too.
type Identity struct {
	// Certificate is the deployment's, with its key. Every replica has the same, but while it is renewed.
	Certificate tls.Certificate
	// Authorities sign certificates of this deployment and no others. None: only Certificate is taken, byte for byte.
	Authorities []*x509.Certificate
}

// Options of a Mesh. Those up to Handler are needed.
type Options struct {
	// Replica is this replica's id.
	Replica string
	// Listener accepts links from replicas with lower ids. The Mesh closes it.
	Listener net.Listener
	// Identity is asked at each handshake: what this replica shows, and whom it links with. It must always be whole.
	Identity func() Identity
	// MayAct says whether anything may leave now: the fence deadline has not passed.
	MayAct  func() bool
	Handler Handler

	Logger *slog.Logger // nil: none
	// RingBytes bounds what is kept for one life of a peer, in bytes. 0: 64 MiB. Less loses values of shorter cuts,
	// more costs that much memory for each peer that is cut off.
	RingBytes int
	// Versions this replica speaks. Zero: Spoken.
	Versions Versions
	// Lost is told how many values for a peer an overflow dropped, under a lock: it must only count. nil: nobody.
	Lost func(replica string, values int)
	// Report is what this replica says of itself when a peer asks (Mesh.Report), MaxReport bytes at most. It is called from a
	// goroutine of its own, one for each question. nil: nothing.
	Report func() []byte
	// Dial opens a connection to a peer's address. nil: TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)

	timing *timing // nil: normalTiming
}

const defaultRingBytes = 64 << 20

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.RingBytes <= 0 {
		o.RingBytes = defaultRingBytes
	}
	if o.Versions == (Versions{}) {
		o.Versions = Spoken
	}
	if o.Lost == nil {
		o.Lost = func(string, int) {}
	}
	if o.Report == nil {
		o.Report = func() []byte { return nil }
	}
	if o.Dial == nil {
		o.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			d := net.Dialer{KeepAlive: -1} // links have pings of their own
			return d.DialContext(ctx, "tcp", address)
		}
	}
	if o.timing == nil {
		t := normalTiming
		o.timing = &t
	}
	return o
}

// pause returns how long to wait before the n-th attempt in a row, n from 0.
func (t *timing) pause(n int) time.Duration {
	if n == 0 {
		return 0
	}
	return min(t.retry/20<<min(n-1, 10), t.retry)
}
