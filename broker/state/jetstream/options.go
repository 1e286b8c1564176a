package jetstream

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Options say where the shared state is and how its streams are configured.
// Everything but MemberTTL may differ from what the streams have: Configure
// brings them up to it.
type Options struct {
	// Servers are the URLs of NATS servers; the others of the cluster are
	// learned from them. At least one.
	Servers []string
	// Replica is this replica's id, for the connections' names and the probe's
	// key. Required.
	Replica string
	// Credentials gives user and password at every connect, so that a rotated
	// Secret is met by the next reconnect. nil: none.
	Credentials func() (user, password string)
	// TLS secures both connections. nil: as the server demands, with the
	// system's roots.
	TLS *tls.Config
	// Roots are the authorities of servers' certificates, asked for at every connect, so that renewed ones are met by
	// the next reconnect. Only with TLS, instead of its RootCAs. nil: TLS's own.
	Roots func() *x509.CertPool

	// Replicas is how many copies each stream has: 1, 3 or 5. 0: 3.
	Replicas int
	// MemberTTL is how long an entry of the members' bucket outlives its last
	// write, 5 s to 2 min. 0: 10 s. The bucket's own is never changed: where
	// it differs, opening the bucket fails and names both.
	MemberTTL time.Duration
	// LogMaxBytes bounds each session log; JetStream reserves it on every
	// server that has a copy. 0: no bound and nothing reserved.
	LogMaxBytes int64
	// LogMaxAge is how long a session log keeps an entry. 0: no bound.
	LogMaxAge time.Duration

	// Silence is how long the shared-state connection may receive nothing at
	// all before it is given up and made again. Longer: a hung server is
	// noticed later; shorter: a slow one is taken for a hung one. 0: 15 s.
	Silence time.Duration
	// LeaseSilence is the same for the lease connection. 0: 8/10 of MemberTTL,
	// which leaves a heartbeat over another server time to land before the
	// fence at 7/6 of it.
	LeaseSilence time.Duration
	// ConnectTimeout bounds one attempt to connect, handshake included, which
	// takes two round trips. Longer: a hung server in the list delays a
	// reconnect more; shorter: a slow one cannot be connected to. 0: 10 s.
	ConnectTimeout time.Duration
	// LockLease is how long a lock whose holder does not renew it stays held.
	// The holder lets go after 2/3 of it without a renewal that landed. Over
	// 1.5 times the longest leader election (11.6 s measured), or an election
	// costs the lock. 0: 18 s.
	LockLease time.Duration
	// WatchBuffer is how many changes a slow watch may be behind before it
	// loses track and starts again. 0: 65,536.
	WatchBuffer int
	// RingBytes is how much of each followed log's end is kept in memory; a
	// tail further behind reads from the store. 0: 8 MiB.
	RingBytes int
	// PageBytes is how much of what sessions behind the tail have read is kept for
	// those that follow, for each log that is read. 0: 32 MiB.
	PageBytes int
	// Logger is told of connections lost and made, one line each. nil: nobody.
	Logger *slog.Logger
}

// withDefaults fills in what is 0 and says everything that is wrong.
func (o Options) withDefaults() (Options, error) {
	setDefault(&o.Replicas, 3)
	setDefault(&o.MemberTTL, 10*time.Second)
	setDefault(&o.Silence, 15*time.Second)
	setDefault(&o.LeaseSilence, o.MemberTTL*8/10)
	setDefault(&o.ConnectTimeout, 10*time.Second)
	setDefault(&o.LockLease, 18*time.Second)
	setDefault(&o.WatchBuffer, 1<<16)
	setDefault(&o.RingBytes, 8<<20)
	setDefault(&o.PageBytes, 32<<20)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	var wrong []error
	if len(o.Servers) == 0 {
		wrong = append(wrong, errors.New("servers: none given, at least one NATS URL is needed"))
	}
	if o.Replica == "" {
		wrong = append(wrong, errors.New("replica: empty, the replica's id is needed"))
	}
	if o.Roots != nil && o.TLS == nil {
		wrong = append(wrong, errors.New("roots: only with TLS"))
	}
	if o.Replicas != 1 && o.Replicas != 3 && o.Replicas != 5 {
		wrong = append(wrong, fmt.Errorf("replicas (%d) must be 1, 3 or 5", o.Replicas))
	}
	if o.MemberTTL < 5*time.Second || o.MemberTTL > 2*time.Minute {
		wrong = append(wrong, fmt.Errorf("memberTTL (%v) must be 5s to 2m", o.MemberTTL))
	}
	if o.LogMaxBytes < 0 || o.LogMaxBytes > 0 && o.LogMaxBytes < 64<<10 {
		wrong = append(wrong, fmt.Errorf("logMaxBytes (%d) must be 0 or at least 65536", o.LogMaxBytes))
	}
	if o.LogMaxAge < 0 || o.LogMaxAge > 0 && o.LogMaxAge < time.Second {
		wrong = append(wrong, fmt.Errorf("logMaxAge (%v) must be 0 or at least 1s", o.LogMaxAge))
	}
	return o, errors.Join(wrong...)
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
