package access

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/topic"
)

// Options of Open. The zero value is complete.
type Options struct {
	// Grammar is the broker's, for the names that grants are matched against.
	Grammar topic.Grammar
	// Issuers are accepted beside the broker's own tokens.
	Issuers []Issuer
	// TokenTTL is how long a token issued here is valid. 0: 1 h.
	TokenTTL time.Duration
	// Throttle of failed sign-ins.
	Throttle Throttle
	// Revocation is how long grants hold without Renew, and so how late a
	// revoked client is shut out if the news of it is lost. 0: 60 s.
	Revocation time.Duration
}

// Access signs API clients in and manages them. All methods may be called from
// any goroutine.
type Access struct {
	options   Options
	bucket    state.Bucket
	verifier  *verifier
	throttle  *throttle
	issuers   map[string]*issuer
	tokenKeys atomic.Pointer[tokenKeys]

	stop  context.CancelFunc
	ended chan struct{}

	mu      sync.Mutex          // before that of any changes
	clients map[string]*known   // as last read, written or watched
	gone    map[string]deletion // of the last hour: what is read of before does not count
	slow    int                 // of them with a slow secret
	// strangers are identities that the store has nothing of, not even a deletion: those of
	// other issuers. They are asked for once, until a deletion is told.
	strangers map[string]bool
	deletions int // told so far
	readers   map[*changes]struct{}
}

// deletion is when, and at which revision, a client was deleted.
type deletion struct {
	revision uint64
	at       time.Time
}

// known is a client as it was read at a revision, compiled.
type known struct {
	revision uint64
	client   Client
	rights   *rights
	slow     bool
	err      error // the record is damaged
}

// Open reads the API clients and follows them. Errors name the option that is
// wrong, or wrap the store's.
func Open(ctx context.Context, store state.Store, options Options) (*Access, error) {
	if options.TokenTTL <= 0 {
		options.TokenTTL = time.Hour
	}
	if options.Revocation <= 0 {
		options.Revocation = time.Minute
	}
	a := &Access{
		options: options, verifier: newVerifier(), throttle: newThrottle(options.Throttle), issuers: map[string]*issuer{},
		ended: make(chan struct{}), clients: map[string]*known{}, gone: map[string]deletion{}, strangers: map[string]bool{}, readers: map[*changes]struct{}{},
	}
	for _, i := range options.Issuers {
		made, err := newIssuer(i)
		if err != nil {
			return nil, err
		}
		if a.issuers[i.Issuer] != nil {
			return nil, fmt.Errorf("issuer %q: listed twice", i.Issuer)
		}
		a.issuers[i.Issuer] = made
	}
	bucket, err := store.Bucket(ctx, state.APIClients)
	if err != nil {
		return nil, fmt.Errorf("open bucket %s: %w", state.APIClients, err)
	}
	a.bucket = bucket
	if err := a.openTokenKeys(ctx); err != nil {
		return nil, err
	}
	following, stop := context.WithCancel(context.WithoutCancel(ctx))
	watch, err := bucket.Watch(following, "")
	if err != nil {
		stop()
		return nil, fmt.Errorf("watch bucket %s: %w", state.APIClients, err)
	}
	a.stop = stop
	ready := make(chan struct{})
	go a.follow(watch, ready)
	select {
	case <-ready:
		return a, nil
	case <-a.ended:
		return nil, fmt.Errorf("watch bucket %s: %w", state.APIClients, state.ErrUnavailable)
	case <-ctx.Done():
		a.Close()
		return nil, fmt.Errorf("watch bucket %s: %w", state.APIClients, ctx.Err())
	}
}

// Close ends the watch and what hangs on OnChange. The store stays open.
func (a *Access) Close() {
	a.stop()
	<-a.ended
}

// load returns a client as it stands in the store, nil if there is none. A read may be
// older than what the watch has told, or than what was written here: then that counts.
func (a *Access) load(ctx context.Context, id string) (*known, error) {
	if checkName(id) != nil {
		return nil, nil
	}
	record, err := a.bucket.Get(ctx, clientKeys+id)
	if errors.Is(err, state.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, unavailable("read API client", err)
	}
	k := a.learn(id, record)
	if k != nil && k.err != nil {
		return nil, unavailable("read API client", k.err)
	}
	return k, nil
}

// lastKnown is the client as this replica knew it last, without asking the store.
func (a *Access) lastKnown(_ context.Context, id string) (*known, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	k := a.clients[id]
	if k != nil && k.err != nil {
		return nil, unavailable("read API client", k.err)
	}
	return k, nil
}

// learn compiles a record, or finds it or a newer one compiled; nil if a newer deletion
// is known.
func (a *Access) learn(id string, record state.Record) *known {
	a.mu.Lock()
	k := a.clients[id]
	a.mu.Unlock()
	if k != nil && k.revision == record.Revision {
		return k
	}
	fresh := &known{revision: record.Revision}
	if fresh.client, fresh.err = decodeClient(id, record.Value); fresh.err == nil {
		fresh.rights = newRights(&fresh.client, a.options.Grammar)
		h, _ := parseHash(fresh.client.SecretHash)
		fresh.slow = h.slow
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if record.Revision < a.gone[id].revision {
		return nil
	}
	if k := a.clients[id]; k != nil && k.revision > record.Revision {
		return k
	}
	a.keep(id, fresh)
	return fresh
}

// keep notes a client, or with nil that there is none. mu is held.
func (a *Access) keep(id string, k *known) {
	if old := a.clients[id]; old != nil && old.slow {
		a.slow--
	}
	if k == nil {
		delete(a.clients, id)
		return
	}
	a.clients[id] = k
	if k.slow {
		a.slow++
	}
}

// slowShare is the share of the clients whose secret is a slow one.
func (a *Access) slowShare() float64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return float64(a.slow) / float64(max(len(a.clients), 1))
}
