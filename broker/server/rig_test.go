package server

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"maestrohub.io/uns/broker/access"
	"maestrohub.io/uns/broker/config"
	"maestrohub.io/uns/broker/ingest"
	"maestrohub.io/uns/broker/listener"
	"maestrohub.io/uns/broker/metrics"
	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/broker/retained"
	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/state/memory"
)

// slowClients is the store of API clients with an answer of its own, or none, for each
// that is read.
type slowClients struct {
	state.Store
	mu    sync.Mutex
	reads map[string]int
	held  func(key string) time.Duration // nil: none
}

func (s *slowClients) Bucket(ctx context.Context, name string) (state.Bucket, error) {
	b, err := s.Store.Bucket(ctx, name)
	return &slowBucket{b, s}, err
}

type slowBucket struct {
	state.Bucket
	slow *slowClients
}

func (b *slowBucket) Get(ctx context.Context, key string) (state.Record, error) {
	b.slow.mu.Lock()
	b.slow.reads[key]++
	held := b.slow.held
	b.slow.mu.Unlock()
	if held != nil {
		select {
		case <-time.After(held(key)):
		case <-ctx.Done():
			return state.Record{}, fmt.Errorf("%w: %w", state.ErrUnavailable, ctx.Err())
		}
	}
	return b.Bucket.Get(ctx, key)
}

// chain is an ingest that answers each publish as it is told; nil: it takes everything.
type chain struct {
	mu     sync.Mutex
	answer func(n int) ingest.Outcome // of the n-th publish, from 1
	seen   []ingest.Publish
	taken  []ingest.Publish
}

func (c *chain) Publish(p ingest.Publish) {
	c.mu.Lock()
	var o ingest.Outcome
	c.seen = append(c.seen, p)
	if c.answer != nil {
		o = c.answer(len(c.seen))
	}
	if o.Refusal == 0 {
		c.taken = append(c.taken, p)
	}
	c.mu.Unlock()
	p.Done.Complete(p.Slot, o)
}

func (*chain) Check(string, *access.Grants) (o ingest.Outcome) { return o }

func (*chain) Settled(string) <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// rig is a server on a store of its own, whose clients connect through pipes.
type rig struct {
	t      *testing.T
	slow   *slowClients
	access *access.Access
	// elsewhere manages the clients as another replica does.
	elsewhere *access.Access
	server    *Server
	chain     *chain
}

func newRig(t *testing.T) *rig {
	t.Helper()
	store, err := memory.Open(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, slow: &slowClients{Store: store, reads: map[string]int{}}}
	kept, err := retained.Open(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	for into, s := range map[**access.Access]state.Store{&r.access: r.slow, &r.elsewhere: store} {
		if *into, err = access.Open(t.Context(), s, access.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	r.server = New(Options{Config: config.Default(), Access: r.access, Retained: kept, Store: store, LogID: func(w string) string { return w },
		Metrics: metrics.New(), Log: slog.New(slog.DiscardHandler)})
	r.chain = &chain{}
	r.server.SetIngest(r.chain)
	t.Cleanup(func() {
		_ = r.server.Stop(context.Background())
		r.access.Close()
		r.elsewhere.Close()
		kept.Close()
		store.Close()
	})
	return r
}

func (r *rig) hold(held func(key string) time.Duration) {
	r.slow.mu.Lock()
	defer r.slow.mu.Unlock()
	r.slow.held = held
}

// over is how a connection ended: 0 without a DISCONNECT.
type over struct {
	code mqtt.ReasonCode
	at   time.Time
}

// connect opens a connection and returns a channel that tells how it ended.
func (r *rig) connect(id, user, secret string) <-chan over {
	r.t.Helper()
	closed, _ := r.dial(mqtt.Connect{ClientID: id, CleanStart: true, Username: user, Password: []byte(secret)})
	return closed
}

// dial opens a connection; drop ends it as a lost network does.
func (r *rig) dial(p mqtt.Connect) (closed <-chan over, drop func()) {
	r.t.Helper()
	ours, theirs := net.Pipe()
	go r.server.Handle(&listener.Conn{Conn: theirs})
	p.Version, p.KeepAlive, p.HasUsername, p.HasPassword = mqtt.V5, 600, true, true
	if _, err := ours.Write(p.Append(nil, mqtt.V5)); err != nil {
		r.t.Fatal(err)
	}
	ack := make([]byte, 4)
	if _, err := io.ReadFull(ours, ack); err != nil || ack[3] != 0 {
		r.t.Fatalf("CONNECT of %s: %x, %v", p.ClientID, ack, err)
	}
	if _, err := io.CopyN(io.Discard, ours, int64(ack[1])-2); err != nil {
		r.t.Fatal(err)
	}
	ended := make(chan over, 1)
	go func() {
		defer ours.Close()
		packet := make([]byte, 3)
		if _, err := io.ReadFull(ours, packet); err != nil || mqtt.PacketType(packet[0]>>4) != mqtt.DISCONNECT {
			ended <- over{0, time.Now()}
			return
		}
		ended <- over{mqtt.ReasonCode(packet[2]), time.Now()}
	}()
	return ended, func() { ours.Close() }
}

func (r *rig) add(id string) (secret string) {
	r.t.Helper()
	secret, err := r.elsewhere.Add(r.t.Context(), access.Client{ID: id, Workspace: "plant"}, "")
	if err != nil {
		r.t.Fatal(err)
	}
	return secret
}
