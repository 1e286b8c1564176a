package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"maestrohub.io/uns/broker/access"
	"maestrohub.io/uns/broker/api"
	"maestrohub.io/uns/broker/config"
	"maestrohub.io/uns/broker/historian"
	"maestrohub.io/uns/broker/historian/pebble"
	"maestrohub.io/uns/broker/historian/timescale"
	"maestrohub.io/uns/broker/ingest"
	"maestrohub.io/uns/broker/listener"
	"maestrohub.io/uns/broker/metrics"
	"maestrohub.io/uns/broker/model"
	"maestrohub.io/uns/broker/retained"
	"maestrohub.io/uns/broker/server"
	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/state/memory"
	"maestrohub.io/uns/broker/topic"
)

// StopBound is the longest a stop takes, within the 30 s Kubernetes gives it.
const StopBound = 25 * time.Second

// Replica is one replica of the broker. Its parts are set by New and never change.
type Replica struct {
	config  *config.Config
	log     *slog.Logger
	version string
	id      string
	begun   time.Time

	metrics   *metrics.Metrics
	parts     Parts
	store     state.Store
	shared    Shared  // store, in a cluster; nil on a single node
	member    *member // nil on a single node
	historian historian.Historian
	access    *access.Access
	model     *model.File
	retained  *retained.Retained
	server    *server.Server
	ingest    *ingest.Ingest
	api       *api.API
	front     *front  // nil of a replica that does not listen
	seeder    *seeder // nil without a clients file
	probes    []*probe
	overviews overviews
	// certificates are the MQTT listeners', webCertificates the HTTP listener's; nil
	// without.
	certificates, webCertificates *listener.Certificates

	// closers are called in reverse, at the end of Run or of a New that failed.
	closers  []func() error
	opening  atomic.Pointer[opening] // what a start is at, while doors is nil
	started  chan struct{}
	doors    atomic.Pointer[doors] // nil until they are open
	stopping atomic.Bool
}

// New builds a replica and opens its stores. It waits for those that do not answer until
// ctx is done, and says so at /health/ready; it serves nobody yet.
func New(ctx context.Context, c *config.Config, log *slog.Logger, version string) (*Replica, error) {
	return Assemble(ctx, c, log, version, Parts{})
}

// Assemble is New with parts of the caller's.
func Assemble(ctx context.Context, c *config.Config, log *slog.Logger, version string, parts Parts) (*Replica, error) {
	r := &Replica{config: c, log: slog.New(withPrefix(log.Handler())), version: version, id: c.ReplicaID, begun: time.Now(),
		metrics: metrics.New(), parts: parts, started: make(chan struct{})}
	if r.id == "" {
		host, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("replica id: %w (set modules.uns.replicaId)", err)
		}
		r.id = host
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := r.open(ctx); err != nil {
		r.giveUp()
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

// giveUp ends what runs of a replica that could not be made; it has served nobody.
func (r *Replica) giveUp() {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if r.server != nil {
		_ = r.server.Stop(ended)
	}
	if r.ingest != nil {
		_ = r.ingest.Stop(ended)
	}
	if r.member != nil {
		_ = r.member.member.Stop(ended)
	}
}

// open makes the parts from the bottom up, behind an HTTP listener that says how far it is.
// What needs no store comes first: what is wrong with it is known at once.
func (r *Replica) open(ctx context.Context) error {
	var telling sync.WaitGroup
	defer telling.Wait()
	over, cancel := context.WithCancel(ctx)
	defer cancel()
	r.opening.Store(&opening{does: "beginning", since: time.Now()})
	telling.Go(func() { r.tellOpening(over) })
	for _, s := range []struct {
		does string
		open func(context.Context) error
	}{
		{"reading the certificates", r.openCertificates},
		{"listening for HTTP", r.openFront},
		{"reading the model", r.openModel},
		{"opening the shared state", r.openState},
		{"opening the historian", r.openHistorian},
		{"reading the API clients", r.openAccess},
		{"reading the retained messages", r.openChain},
		{"joining the cluster", r.openMember},
	} {
		r.opening.Store(&opening{does: s.does, since: time.Now(), shared: r.shared})
		if err := s.open(ctx); err != nil {
			return err
		}
	}
	r.openAPI()
	r.probes = []*probe{{name: stateProbe, check: r.store.Probe}, {name: historianProbe, check: r.historian.Check}}
	r.opening.Store(&opening{does: "opening the listeners", since: time.Now(), shared: r.shared})
	return nil
}

func (r *Replica) openState(context.Context) error {
	c := r.config
	switch {
	case r.parts.Shared != nil:
		r.store, r.shared = r.parts.Shared, r.parts.Shared
	case c.Clustered():
		store, err := r.openShared()
		if err != nil {
			return err
		}
		r.shared = inNATS{store}
		r.store = r.shared
	default:
		store, err := memory.Open(memory.Options{Dir: filepath.Join(c.DataDir, "state"), Durable: []string{state.APIClients, state.Retained},
			LogMaxBytes: c.SessionLogMaxBytes, LogMaxAge: c.Limits.MaxSessionExpiry})
		if err != nil {
			return fmt.Errorf("open shared state in %s: %w", c.DataDir, err)
		}
		r.store = store
	}
	r.closers = append(r.closers, r.store.Close)
	return nil
}

func (r *Replica) openHistorian(ctx context.Context) error {
	c := r.config
	switch {
	case r.parts.Historian != nil:
		r.historian = r.parts.Historian
	case c.Historian.Type == config.Timescale:
		h, err := timescale.Open(ctx, c.Historian.TimescaleURL.Reveal(), timescale.Options{MaxAge: c.Historian.MaxAge, Logger: r.log})
		if err != nil {
			return fmt.Errorf("open historian: %w", err)
		}
		r.historian = h
	default:
		h, err := pebble.Open(r.historyDir(), pebble.Options{MaxAge: c.Historian.MaxAge, MaxBytes: c.Historian.MaxBytes, Logger: r.log})
		if err != nil {
			return fmt.Errorf("open historian in %s: %w", c.DataDir, err)
		}
		r.historian = h
	}
	r.closers = append(r.closers, r.historian.Close)
	return nil
}

func (r *Replica) historyDir() string { return filepath.Join(r.config.DataDir, "history") }

// grammar builds and takes apart the names of this installation.
func (r *Replica) grammar() topic.Grammar { return topic.Grammar{Version: r.config.TopicVersion} }

// close closes what was opened, in reverse.
func (r *Replica) close() error {
	var all error
	for i := len(r.closers) - 1; i >= 0; i-- {
		all = errors.Join(all, r.closers[i]())
	}
	r.closers = nil
	return all
}

// Access is the replica's API clients.
func (r *Replica) Access() *access.Access { return r.access }

// Started is closed when every listener is open.
func (r *Replica) Started() <-chan struct{} { return r.started }

// Address is where a listener ("tcp", "tls", "ws", "wss", "http", "admin") is
// open, "" if it is not.
func (r *Replica) Address(name string) string {
	if d := r.doors.Load(); d != nil {
		return d.addresses[name]
	}
	return ""
}
