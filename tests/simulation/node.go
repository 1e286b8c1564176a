package simulation

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"maestrohub.io/uns/broker/cluster"
	"maestrohub.io/uns/broker/config"
	"maestrohub.io/uns/broker/model"
	"maestrohub.io/uns/broker/replica"
	"maestrohub.io/uns/tests/simulation/history"
	"maestrohub.io/uns/tests/simulation/store"
)

// certificate is the deployment's, made once for all runs.
var certificate = sync.OnceValue(func() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "mesh"}, NotAfter: time.Now().Add(100 * 365 * 24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
})

// node is a replica's place: its name, and the process that is there now.
type node struct {
	w    *world
	name string

	mu      sync.Mutex // below
	process *process   // nil: none runs
	started int
	ends    []ending       // of incarnations and processes, oldest first
	joins   []time.Time    // when incarnations began to serve, oldest first
	serving string         // the incarnation that serves now
	reads   cluster.Format // what it is started with: the newest format it reads; 0: this release's
	served  cluster.Format // what serves now reads
}

// ending is when a process or an incarnation of a replica ended.
type ending struct {
	at  time.Time
	why string
}

// process is one life of a replica's process.
type process struct {
	node    *node
	number  int
	host    *host
	store   *store.Client
	history *history.Client
	cancel  context.CancelFunc
	done    chan struct{} // Run has returned
	dead    bool          // owner: the node's mu
	reads   cluster.Format
}

// configuration is every replica's.
func (w *world) configuration(name string) *config.Config {
	c := config.Default()
	c.ReplicaID, c.NATS.Servers = name, []string{"nats://simulated"}
	c.DataDir = "/nonexistent"
	c.MemberTTL, c.WillStopGrace = w.o.MemberTTL, w.o.WillStopGrace
	c.Limits.MaxOfflineSessions = 1000
	c.Limits.AuthFailureBackoffMax = c.Limits.AuthFailureBackoff // a guest that was disabled is back before the end
	c.Mesh.Advertise = name + ":mesh"
	return c
}

// start starts a process, and another one whenever it fails to start.
func (n *node) start() {
	n.mu.Lock()
	if n.process != nil {
		n.mu.Unlock()
		return
	}
	n.started++
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{node: n, number: n.started, host: n.w.network.boot(n.name), cancel: cancel, done: make(chan struct{}), reads: n.reads}
	p.store = n.w.server.Client(n.name, n.w.lies)
	p.history = n.w.history.Client(n.name, n.w.dice, n.w.historyDelay, n.w.o.LostStores, &n.w.flights)
	n.process = p
	n.mu.Unlock()
	n.w.trace.say("! start %s (process %d)", n.name, p.number)
	mesh := n.w.network.listen(p.host, n.name+":mesh")
	n.w.processes.Go(func() { p.run(ctx, mesh) })
}

// run is the process.
func (p *process) run(ctx context.Context, mesh net.Listener) {
	defer close(p.done)
	n := p.node
	parts := replica.Parts{Shared: p.store, Historian: p.history, Model: model.Fixed(n.w.model), Unlistening: true, Newest: p.reads, FixedIdentifiers: n.w.o.FixedIdentifiers,
		Mesh: &replica.MeshParts{Listener: mesh, Certificate: certificate(), Dial: func(ctx context.Context, to string) (net.Conn, error) {
			return n.w.network.dial(ctx, p.host, to)
		}}}
	r, err := replica.Assemble(ctx, n.w.configuration(n.name), n.w.trace.logger(n.name, p.heard), "simulated", parts)
	if err != nil {
		_ = mesh.Close()
		n.w.trace.say("%s: did not start: %v", n.name, err)
		p.over("did not start")
		return
	}
	var clients sync.WaitGroup
	n.mu.Lock()
	var front *door
	if !p.dead {
		front = n.w.network.listen(p.host, n.name+":mqtt")
		clients.Go(func() {
			for {
				nc, err := front.Accept()
				if err != nil {
					return
				}
				clients.Go(func() { r.Serve(nc) })
			}
		})
	}
	n.mu.Unlock()
	if err := r.Run(ctx); err != nil {
		n.w.trace.say("%s: ended: %v", n.name, err)
	}
	if front != nil {
		_ = front.Close()
	}
	clients.Wait()
	p.over("stopped")
}

// over notes that the process has ended by itself, and has another one started.
func (p *process) over(why string) {
	n := p.node
	n.mu.Lock()
	gone := n.process == p && !p.dead
	if gone {
		n.process, n.serving = nil, ""
		n.ends = append(n.ends, ending{time.Now(), why})
	}
	n.mu.Unlock()
	_ = p.store.Close()
	_ = p.history.Close()
	if gone {
		n.w.network.kill(n.name, false)
		n.w.later(2*time.Second, n.start)
	}
}

// heard follows what the replica says of its membership; false: it is dead and says
// nothing.
func (p *process) heard(message string, attrs map[string]string) bool {
	n := p.node
	n.mu.Lock()
	defer n.mu.Unlock()
	if p.dead {
		return false
	}
	switch {
	case strings.Contains(message, "broker cluster: joined"):
		n.joins = append(n.joins, time.Now())
		n.serving, n.served = attrs["incarnation"], cmp.Or(p.reads, cluster.Newest)
	case strings.Contains(message, "broker cluster: fenced"):
		n.serving = ""
		n.ends = append(n.ends, ending{time.Now(), "fenced"})
	}
	return true
}

// kill ends the process as kill -9 does, or, silent, as the loss of its machine.
func (n *node) kill(silent bool) {
	n.mu.Lock()
	p := n.process
	if p == nil {
		n.mu.Unlock()
		return
	}
	p.dead, n.process, n.serving = true, nil, ""
	n.ends = append(n.ends, ending{time.Now(), "killed"})
	n.mu.Unlock()
	n.w.network.kill(n.name, silent)
	_ = p.store.Close()
	_ = p.history.Close()
	p.cancel()
}

// stop asks the process to end, as SIGTERM does.
func (n *node) stop() {
	n.mu.Lock()
	p := n.process
	if p != nil {
		n.ends = append(n.ends, ending{time.Now(), "asked to stop"})
	}
	n.mu.Unlock()
	if p != nil {
		p.cancel()
	}
}

// with calls f with the process that runs now, if one does.
func (n *node) with(f func(p *process)) {
	n.mu.Lock()
	p := n.process
	n.mu.Unlock()
	if p != nil {
		f(p)
	}
}

// serves reports whether an incarnation of it serves now.
func (n *node) serves() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.serving != ""
}

// joinedBetween reports whether an incarnation of it began to serve within a time.
func (n *node) joinedBetween(from, to time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.ContainsFunc(n.joins, func(at time.Time) bool { return !at.Before(from) && !at.After(to) })
}

// endedBetween reports whether a process or incarnation of it ended within a time.
func (n *node) endedBetween(from, to time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range n.ends {
		if !e.at.Before(from) && !e.at.After(to) {
			return true
		}
	}
	return false
}

func (n *node) String() string { return fmt.Sprintf("replica %s", n.name) }
