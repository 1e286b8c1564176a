package api

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"maestrohub.io/uns/broker/access"
	"maestrohub.io/uns/broker/historian"
	"maestrohub.io/uns/broker/ingest"
	"maestrohub.io/uns/broker/metrics"
	"maestrohub.io/uns/broker/topic"
	"maestrohub.io/uns/broker/value"
)

// Access is what the API needs of package access.
type Access interface {
	SignIn(ctx context.Context, userName string, password []byte, remote netip.Addr) (*access.Grants, error)
	// SignInToLook is SignIn for routes that show how the broker is, which must work while
	// the store does not.
	SignInToLook(ctx context.Context, userName string, password []byte, remote netip.Addr) (*access.Grants, error)
	Token(ctx context.Context, clientID, secret, scope string, remote netip.Addr) (access.Token, error)
	Clients
}

// History is the part of a historian the API reads.
type History interface {
	Read(ctx context.Context, q historian.Query) (historian.Page, error)
}

// Values is the chain a write passes and the feed of what it refused.
type Values interface {
	PublishBatch(batch []ingest.Publish)
	Rejects(workspace string, since uint64, limit int) []ingest.Reject
}

// Retained is the part of the retained store the API reads.
type Retained interface {
	Match(filter string, yield func(*value.Value) bool)
	// CatchUp returns once Match knows of what any replica has acknowledged before.
	CatchUp(ctx context.Context) error
}

// Options are what an API serves. All of them are needed.
type Options struct {
	Access   Access
	History  History
	Values   Values
	Retained Retained
	Grammar  topic.Grammar
	// Ready says why the replica cannot serve, nil if it can. The error's text
	// follows "broker-cluster-store: " unless it begins so itself.
	Ready func() error
	// Status describes the replica at the moment of the call.
	Status func() Status
	// Overview describes the cluster, with the sessions of one workspace ("": of all),
	// by the time ctx is done.
	Overview func(ctx context.Context, workspace string) Overview
	// Connections lists the MQTT clients of one workspace connected here.
	Connections func(workspace string) []Connection
	Metrics     *metrics.Metrics
	// TrustClientAddresses says that the socket's peer is the client itself and
	// not a proxy in front of many, so that failed sign-ins count against it.
	TrustClientAddresses bool
	// MaxRequests bounds the requests served at once, health and metrics apart; those
	// that carry values may take a quarter of it, so that tokens and management are
	// served while the historian holds up the rest. Of each, one client gets half and
	// one workspace three quarters at most (shares.go). 0 means 256.
	MaxRequests int
	// MaxWriteBytes bounds the body of a write. 0 means 4 MiB.
	MaxWriteBytes int64
	// WriteWait is how long a write waits for its outcomes; it must exceed what the
	// ingest chain itself takes to refuse. 0 means 45 s.
	WriteWait time.Duration
	Log       *slog.Logger
}

// Bounds that are not settings.
const (
	maxBodyBytes      = 64 << 10 // every body but that of a write
	maxHeaderBytes    = 16 << 10
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 30 * time.Second
	idleTimeout       = 2 * time.Minute

	// maxReads is how many pages of history are read at once: each may take
	// historian.PageBytes, and twice that as JSON. Others wait their turn.
	maxReads = 8
	// readBound is the longest a read may take, its turn included.
	readBound = 20 * time.Second
	// signInBound is the longest a credential check may take.
	signInBound = 10 * time.Second
)

// API serves the routes of openapi.yaml. It holds no state of its own.
type API struct {
	o Options
	// slots has a token for each request, all of them; the shares are those of the
	// signed-in ones, of those that carry values, and of the reads of history.
	slots                  chan struct{}
	requests, heavy, reads *shares
}

// New returns an API. It starts nothing.
func New(o Options) *API {
	if o.MaxRequests == 0 {
		o.MaxRequests = 256
	}
	if o.MaxWriteBytes == 0 {
		o.MaxWriteBytes = 4 << 20
	}
	if o.WriteWait == 0 {
		o.WriteWait = 45 * time.Second
	}
	return &API{o: o, slots: make(chan struct{}, o.MaxRequests), requests: newShares("requests are being served", o.MaxRequests),
		heavy: newShares("requests that carry values are being served", max(1, o.MaxRequests/4)),
		reads: newShares("pages of history are being read", maxReads)}
}

// Server returns an HTTP server for the handler, with every bound against slow
// and oversize requests set; the caller gives it a listener and shuts it down.
// WriteWait is that of Options.
func Server(handler http.Handler, writeWait time.Duration, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      readTimeout + writeWait,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		// What net/http has to say is about one peer's connection (a failed TLS
		// handshake); panics do not get there, guarded reports them.
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}
