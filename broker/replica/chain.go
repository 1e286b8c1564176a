package replica

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"maestrohub.io/uns/broker/access"
	"maestrohub.io/uns/broker/api"
	"maestrohub.io/uns/broker/certificate"
	"maestrohub.io/uns/broker/cluster"
	"maestrohub.io/uns/broker/config"
	"maestrohub.io/uns/broker/ingest"
	"maestrohub.io/uns/broker/listener"
	"maestrohub.io/uns/broker/model"
	"maestrohub.io/uns/broker/retained"
	"maestrohub.io/uns/broker/server"
	"maestrohub.io/uns/broker/topic"
	"maestrohub.io/uns/broker/value"
)

func (r *Replica) openAccess(ctx context.Context) error {
	a, err := access.Open(ctx, r.store, accessOptions(r.config, r.grammar()))
	if err != nil {
		return fmt.Errorf("open API clients: %w", err)
	}
	r.access = a
	r.closers = append(r.closers, func() error { a.Close(); return nil })
	if r.config.ClientsFile != "" {
		r.seeder = &seeder{path: r.config.ClientsFile, check: access.CheckSeed, seed: a.Seed, log: r.log}
		return r.seeder.once(ctx)
	}
	return nil
}

func (r *Replica) openModel(context.Context) error {
	f := r.parts.Model
	if f == nil {
		var err error
		if f, err = model.Open(r.config.ModelFile, r.log); err != nil {
			return fmt.Errorf("model: %w", err)
		}
	}
	r.model = f
	r.closers = append(r.closers, func() error { f.Close(); return nil })
	return nil
}

// openChain makes the server and the chain its clients' values go through. Each
// needs the other: the server publishes, and the chain delivers to its clients.
func (r *Replica) openChain(ctx context.Context) error {
	kept, err := retained.Open(ctx, r.store)
	if err != nil {
		return fmt.Errorf("open retained messages: %w", err)
	}
	r.retained = kept
	kept.Retaining(func(v *value.Value) bool {
		ws, ok := r.model.Current().Workspace(v.Workspace)
		return ok && ws.Topic(v.Topic).Retain
	})
	r.closers = append(r.closers, func() error { kept.Close(); return nil })
	c := r.config
	r.server = server.New(server.Options{Config: c, Access: r.access, Retained: kept, Store: r.store, Metrics: r.metrics, Log: r.log, LogID: r.logID,
		FixedIdentifiers: r.parts.FixedIdentifiers})
	r.ingest = ingest.New(ingest.Options{
		Grammar: r.grammar(), Model: r.model.Current, Historian: r.historian, Logs: r.store, Retained: kept, Live: r.server, Wanted: r.server,
		Metrics: r.metrics, Logger: r.log, LiveQoS: c.LiveMirror.QoS,
		MaxTopicBytes: c.Limits.MaxTopicBytes, MaxTopicLevels: c.Limits.MaxTopicLevels,
		MaxAge: c.Historian.MaxAge, MaxPayloadBytes: c.Broker.MaxPacketBytes, MaxRecordBytes: r.maxRecordBytes(),
		AppendWait: c.SessionLogAppendWait, StoreBudget: c.Historian.RetryBudget,
		HungWrite: c.Historian.HungWriteTimeout, QuarantineAfter: c.Historian.QuarantineAfter, MayAct: r.mayAct(),
	})
	r.server.SetIngest(r.ingest)
	return nil
}

// maxRecordBytes is the largest record the session logs take: both kinds of store
// keep less than logOverhead beside one.
func (r *Replica) maxRecordBytes() int64 {
	const logOverhead = 1 << 10
	most := r.config.SessionLogMaxBytes
	if shared, ok := r.store.(interface{ MaxPayload() int64 }); ok && shared.MaxPayload() > 0 {
		most = min(most, shared.MaxPayload())
	}
	return most - logOverhead
}

// logID names the session log of a workspace by the workspace's id, which stays
// when its slug changes.
func (r *Replica) logID(workspace string) string {
	if ws, ok := r.model.Current().Workspace(workspace); ok {
		return ws.ID
	}
	return workspace
}

func (r *Replica) openCertificates(context.Context) error {
	b, h := r.config.Broker.TLS, r.config.HTTP.TLS
	var err error
	if b.Enabled() {
		o := listener.CertificateOptions{CertFile: b.CertFile, KeyFile: b.KeyFile, ClientCAFile: b.ClientCAFile, Log: r.log, Reloaded: r.reloaded}
		if r.certificates, err = listener.OpenCertificates(o); err != nil {
			return fmt.Errorf("modules.uns.embeddedBroker.tls: %w", err)
		}
		r.closers = append(r.closers, func() error { r.certificates.Close(); return nil })
		r.metrics.CertificateExpiry.From(func() float64 { return float64(r.certificates.NotAfter().Unix()) })
	}
	if h.CertFile != "" {
		if r.webCertificates, err = listener.OpenCertificates(listener.CertificateOptions{CertFile: h.CertFile, KeyFile: h.KeyFile, Log: r.log}); err != nil {
			return fmt.Errorf("modules.uns.http.tls: %w", err)
		}
		r.closers = append(r.closers, func() error { r.webCertificates.Close(); return nil })
	}
	return nil
}

// followCertificate follows a certificate until the replica is closed, and counts its renewals.
func (r *Replica) followCertificate(o certificate.Options) (*certificate.Follower, error) {
	first := true
	o.Log, o.Rejected = r.log, r.reloaded
	o.Taken = func(*certificate.Set) {
		if !first {
			r.reloaded(nil)
		}
		first = false
	}
	files, err := certificate.Open(o)
	if err != nil {
		return nil, err
	}
	r.closers = append(r.closers, func() error { files.Close(); return nil })
	return files, nil
}

// reloaded counts changed certificate files that were taken into use, or why not.
func (r *Replica) reloaded(err error) {
	result := "loaded"
	if err != nil {
		result = "rejected"
	}
	r.metrics.CertificateReloads.WithLabelValues(result).Inc()
}

func (r *Replica) openAPI() {
	r.api = api.New(api.Options{
		Access: r.access, History: r.historian, Values: r.ingest, Retained: r.retained, Grammar: r.grammar(), Metrics: r.metrics, Log: r.log,
		Ready: r.ready, Status: r.status, Overview: r.overview, Connections: r.connections, TrustClientAddresses: r.config.Limits.TrustClientAddresses,
		WriteWait: r.writeWait(),
	})
	m := r.metrics
	m.RetainedMessages.From(func() float64 { return float64(r.retained.Len()) })
	m.FormatUnreadable.From(func() float64 { return float64(cluster.NewerMet() + value.NewerMet()) })
	m.HistorianBytes.FromKnown(func() (float64, bool) { return bytesBelow(r.historyDir()) })
}

// writeWait is how long a write waits for its outcomes: it is answered with what the chain
// says in the end, so as long as the chain may take, and a little more.
func (r *Replica) writeWait() time.Duration {
	return r.config.Historian.RetryBudget + r.config.SessionLogAppendWait + headroom
}

// CheckFiles reads the files a configuration names as a start would, and returns
// everything that is wrong with them.
func CheckFiles(c *config.Config) error {
	var all []error
	if c.ModelFile != "" {
		data, err := os.ReadFile(c.ModelFile)
		if err == nil {
			_, err = model.Parse(data)
		}
		if err != nil {
			all = append(all, fmt.Errorf("model %s: %w", c.ModelFile, err))
		}
	}
	if c.ClientsFile != "" {
		data, err := readClients(c.ClientsFile)
		if err == nil {
			err = access.CheckSeed(data)
		}
		if err != nil {
			all = append(all, fmt.Errorf("clients file %s: %w", c.ClientsFile, err))
		}
	}
	for key, files := range map[string]certificate.Options{
		"modules.uns.embeddedBroker.tls": {CertFile: c.Broker.TLS.CertFile, KeyFile: c.Broker.TLS.KeyFile, CAFile: c.Broker.TLS.ClientCAFile},
		"modules.uns.http.tls":           {CertFile: c.HTTP.TLS.CertFile, KeyFile: c.HTTP.TLS.KeyFile},
		"modules.uns.brokerMesh":         {CertFile: c.Mesh.CertFile, KeyFile: c.Mesh.KeyFile, CAFile: c.Mesh.CAFile},
		"modules.uns.nats.tls":           {CertFile: c.NATS.TLS.CertFile, KeyFile: c.NATS.TLS.KeyFile, CAFile: c.NATS.TLS.CAFile},
	} {
		if err := certificate.Check(files); err != nil {
			all = append(all, fmt.Errorf("%s: %w", key, err))
		}
	}
	return errors.Join(all...)
}

func accessOptions(c *config.Config, grammar topic.Grammar) access.Options {
	l := c.Limits
	o := access.Options{Grammar: grammar, TokenTTL: c.OAuth2.TokenTTL, Revocation: c.RevocationSLA,
		Throttle: access.Throttle{Threshold: l.AuthFailureThreshold, Window: l.AuthFailureWindow, Backoff: l.AuthFailureBackoff, BackoffMax: l.AuthFailureBackoffMax}}
	for _, i := range c.OAuth2.Issuers {
		o.Issuers = append(o.Issuers, access.Issuer{Issuer: i.Issuer, JWKSURL: i.JWKSURL, Audience: i.Audience, ClientIDClaim: i.ClientIDClaim, Algorithms: i.Algorithms})
	}
	return o
}
