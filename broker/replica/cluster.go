package replica

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"strings"
	"time"

	"maestrohub.io/uns/broker/api"
	"maestrohub.io/uns/broker/certificate"
	"maestrohub.io/uns/broker/cluster"
	"maestrohub.io/uns/broker/config"
	"maestrohub.io/uns/broker/mesh"
	"maestrohub.io/uns/broker/server"
	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/state/jetstream"
)

// member is what a replica of a cluster has beside a single node's parts.
type member struct {
	r       *Replica
	mesh    *mesh.Mesh
	fresh   *cluster.Freshness
	sweeper *cluster.Sweeper
	member  *cluster.Member
	// opened is closed once everything an event needs is there.
	opened chan struct{}
}

// openShared opens the shared state in NATS.
func (r *Replica) openShared() (*jetstream.Store, error) {
	n := r.config.NATS
	o := jetstream.Options{Servers: jetstream.Spread(n.Servers, r.id), Replica: r.id, Replicas: n.Copies, MemberTTL: r.config.MemberTTL,
		LogMaxBytes: r.config.SessionLogMaxBytes, LogMaxAge: r.config.Limits.MaxSessionExpiry, Logger: r.log}
	if n.User != "" {
		p := &passwords{now: n.Password.Renewed}
		o.Credentials = func() (string, string) { return n.User, p.next() }
	}
	if err := r.natsTLS(&o); err != nil {
		return nil, fmt.Errorf("modules.uns.nats.tls: %w", err)
	}
	store, err := jetstream.Open(o)
	if err != nil {
		return nil, fmt.Errorf("open shared state: %w", err)
	}
	return store, nil
}

// natsTLS follows the certificates: renewed ones are met by the next connection. Without any it changes nothing.
func (r *Replica) natsTLS(o *jetstream.Options) error {
	t := r.config.NATS.TLS
	if t.CAFile == "" && t.CertFile == "" {
		return nil
	}
	files, err := r.followCertificate(certificate.Options{CertFile: t.CertFile, KeyFile: t.KeyFile, CAFile: t.CAFile, Prefix: clusterPrefix, Name: "NATS client certificate"})
	if err != nil {
		return err
	}
	r.metrics.NATSCertificateExpiry.From(func() float64 { return float64(files.Current().NotAfter().Unix()) })
	o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	if t.CAFile != "" {
		o.Roots = func() *x509.CertPool { return files.Current().Pool() }
	}
	if t.CertFile != "" {
		o.TLS.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return files.Current().Certificate, nil }
	}
	return nil
}

// meshIdentity follows the mesh certificate and its authorities.
func (r *Replica) meshIdentity() (func() mesh.Identity, error) {
	m := r.config.Mesh
	files, err := r.followCertificate(certificate.Options{CertFile: m.CertFile, KeyFile: m.KeyFile, CAFile: m.CAFile, Prefix: meshPrefix, Name: "certificate"})
	if err != nil {
		return nil, fmt.Errorf("modules.uns.brokerMesh: %w", err)
	}
	r.metrics.MeshCertificateExpiry.From(func() float64 { return float64(files.Current().NotAfter().Unix()) })
	return func() mesh.Identity {
		now := files.Current()
		return mesh.Identity{Certificate: *now.Certificate, Authorities: now.Authorities}
	}, nil
}

// openMember makes the replica a member of its cluster. It serves nobody before
// its entry has landed (NowServing).
func (r *Replica) openMember(ctx context.Context) error {
	store := r.shared
	if store == nil {
		return nil
	}
	m := &member{r: r, opened: make(chan struct{})}
	ends, err := r.openMesh()
	if err != nil {
		return err
	}
	listener := ends.Listener
	m.mesh, err = mesh.New(mesh.Options{Replica: r.id, Listener: listener, Identity: ends.identity, Dial: ends.Dial, MayAct: m.mayAct, Handler: r.server, Report: r.reported, Logger: r.log,
		Lost: func(_ string, n int) { r.metrics.MeshValuesLost.Add(float64(n)) }})
	if err != nil {
		_ = listener.Close()
		return err
	}
	r.closers = append(r.closers, func() error { m.mesh.Close(); return nil })
	r.metrics.MeshLinksUp.From(func() float64 { return float64(m.mesh.Status().LinksUp) })
	r.metrics.MeshLinksExpected.From(func() float64 { return float64(m.mesh.Status().LinksExpected) })
	sessions, err := store.Bucket(ctx, state.SessionState)
	if err != nil {
		return fmt.Errorf("open shared state: %w", err)
	}
	m.fresh = cluster.Probe(sessions, r.id)
	lease, err := store.OpenLease(ctx)
	if err != nil {
		return fmt.Errorf("open the lease: %w", err)
	}
	m.member, err = cluster.Start(context.WithoutCancel(ctx), cluster.Options{Replica: r.id, Newest: r.parts.Newest, TTL: r.config.MemberTTL, ConnectBudget: r.config.Limits.ConnectBudget,
		Mesh: m.address(listener.Addr()), Store: store, Lease: lease, Silent: store.Silent, Applied: m.applied, On: m.on, Logger: r.log})
	if err != nil {
		return err
	}
	m.sweeper = &cluster.Sweeper{Member: m.member, Store: store, Sweep: cluster.Sweep{Grace: r.config.WillStopGrace, Most: r.config.Limits.MaxSessionExpiry,
		Offline: r.config.Limits.MaxOfflineSessions, Since: r.server.OfflineSince}, ConnectBudget: r.config.Limits.ConnectBudget, Publish: r.server.PublishWill, Deleted: r.access.Deleted, Configure: store.Configure, Logger: r.log,
		Did: func(a *cluster.Act, _ *cluster.Will, outcome cluster.WillOutcome) { r.server.Swept(a, outcome) }}
	r.member = m
	r.metrics.Members.From(func() float64 { return float64(m.member.Status().Members) })
	defer close(m.opened)
	return r.server.SetCluster(ctx, server.Cluster{Replica: r.id, Member: m.member, Mesh: m.mesh, Fresh: m.fresh, Returning: m.sweeper.Returning})
}

// openMesh returns this replica's end of the mesh, listening.
func (r *Replica) openMesh() (*MeshParts, error) {
	if given := r.parts.Mesh; given != nil {
		ends := *given
		ends.identity = func() mesh.Identity { return mesh.Identity{Certificate: given.Certificate} }
		return &ends, nil
	}
	identity, err := r.meshIdentity()
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", r.config.Mesh.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen for the mesh on %s: %w", r.config.Mesh.Listen, err)
	}
	return &MeshParts{Listener: l, identity: identity}, nil
}

// applied is how far the index is, for the member entry.
func (m *member) applied() cluster.Applied {
	select {
	case <-m.opened:
		return m.r.server.AppliedRevisions()
	default:
		return cluster.Applied{}
	}
}

// address is where other replicas reach the mesh listener.
func (m *member) address(listening net.Addr) string {
	return meshAddress(m.r.config.Mesh.Advertise, m.r.id, listening.String())
}

func meshAddress(advertise, id, listening string) string {
	if advertise != "" {
		return strings.ReplaceAll(advertise, config.ReplicaIDPlace, id)
	}
	host, port, err := net.SplitHostPort(listening)
	if ip := net.ParseIP(host); err != nil || ip != nil && !ip.IsUnspecified() {
		return listening
	}
	return net.JoinHostPort(id, port)
}

// mayAct is the mesh's question before each write.
func (m *member) mayAct() bool {
	select {
	case <-m.opened:
	default:
		return false
	}
	return m.member.Deadline().MayAct(time.Now())
}

// run takes part in the cluster until ctx is done.
func (m *member) run(ctx context.Context, task func(func())) {
	task(func() { m.fresh.Run(ctx) })
	task(func() { m.sweeper.Run(ctx) })
}

// on follows the membership. Events come one after the other.
func (m *member) on(e cluster.Event) {
	<-m.opened
	switch e.Kind {
	case cluster.NowServing:
		// The index is unfresh before anybody can be served.
		m.fresh.Begin()
		m.mesh.Begin(e.Entry.Number) // not from the view of members, which follows by itself
		for _, entry := range m.member.Members() {
			m.peer(entry)
		}
		m.r.ingest.Serve()
		m.r.server.Serve(e.Deadline)
	case cluster.NowFenced:
		m.r.server.Fence()
		m.r.ingest.Fence()
		m.mesh.End()
		m.r.log.Warn("broker cluster: fenced: connections are closed and refused until the shared stores answer", "cause", e.Cause.String())
	case cluster.MemberChanged:
		m.peer(e.Entry)
	case cluster.MemberEnded:
		m.peer(e.Entry)
		if e.How == cluster.EndedGone {
			m.r.metrics.MembersGone.Inc()
		}
	case cluster.NotServing:
		m.r.log.Error("broker cluster: not serving", "cause", e.Cause.String())
	}
}

// peer tells the mesh what a member's entry says.
func (m *member) peer(e cluster.Entry) {
	states := map[cluster.Phase]mesh.State{cluster.Stopping: mesh.Stopping, cluster.Fenced: mesh.Fenced, cluster.Stopped: mesh.Stopped, cluster.Gone: mesh.Gone}
	m.mesh.SetPeer(mesh.Peer{Replica: e.Incarnation.Replica, Incarnation: e.Number, Address: e.Mesh, State: states[e.Phase]})
}

// unready says why the membership keeps the replica from serving, nil if it does
// not.
func (m *member) unready() error {
	s := m.member.Status()
	switch {
	case s.Serving:
		return nil
	case s.Duplicate:
		return fmt.Errorf("duplicateReplicaId: another process runs as replica %q", m.r.id)
	case s.Below:
		return fmt.Errorf("belowFormatFloor: the cluster writes a format this release does not read")
	case s.Cause != 0:
		return fmt.Errorf("fenced: %s", s.Cause)
	}
	return fmt.Errorf("joining the cluster")
}

// describe adds what the status page says of the cluster.
func (m *member) describe(c *api.ClusterStatus) {
	s, links := m.member.Status(), m.mesh.Status()
	c.Mesh, c.LinksUp = links.Address, links.LinksUp
	c.Members = c.Members[:0]
	for _, e := range m.member.Members() {
		c.Members = append(c.Members, e.Incarnation.Replica)
	}
	c.MemberCount = len(c.Members)
	c.Fenced, c.DuplicateReplicaID, c.BelowFormatFloor = !s.Serving && s.Cause != 0, s.Duplicate, s.Below
}

// mayAct is the chain's question before each effect; nil on a single node, which
// may always. It speaks of the incarnation the server serves under, not of a next one
// that has registered already: between the two the chain is fenced.
func (r *Replica) mayAct() func() bool {
	if !r.config.Clustered() {
		return nil
	}
	return r.server.MayAct
}
