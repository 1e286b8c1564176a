package server

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"testing/synctest"
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

// nothingIn is an ingest that is sent nothing.
type nothingIn struct{}

func (nothingIn) Publish(ingest.Publish) {}
func (nothingIn) Check(string, *access.Grants) (o ingest.Outcome) {
	return o
}
func (nothingIn) Settled(string) <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// credentialRig is a server on a store of its own, whose clients connect through pipes.
type credentialRig struct {
	t      *testing.T
	slow   *slowClients
	access *access.Access
	// elsewhere manages the clients as another replica does.
	elsewhere *access.Access
	server    *Server
}

func newCredentialRig(t *testing.T) *credentialRig {
	t.Helper()
	store, err := memory.Open(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := &credentialRig{t: t, slow: &slowClients{Store: store, reads: map[string]int{}}}
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
	r.server.SetIngest(nothingIn{})
	t.Cleanup(func() {
		_ = r.server.Stop(context.Background())
		r.access.Close()
		r.elsewhere.Close()
		kept.Close()
		store.Close()
	})
	return r
}

func (r *credentialRig) hold(held func(key string) time.Duration) {
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
func (r *credentialRig) connect(id, user, secret string) <-chan over {
	r.t.Helper()
	ours, theirs := net.Pipe()
	go r.server.Handle(&listener.Conn{Conn: theirs})
	p := mqtt.Connect{Version: mqtt.V5, ClientID: id, CleanStart: true, KeepAlive: 600, Username: user, HasUsername: true, Password: []byte(secret), HasPassword: true}
	if _, err := ours.Write(p.Append(nil, mqtt.V5)); err != nil {
		r.t.Fatal(err)
	}
	ack := make([]byte, 4)
	if _, err := io.ReadFull(ours, ack); err != nil || ack[3] != 0 {
		r.t.Fatalf("CONNECT of %s: %x, %v", id, ack, err)
	}
	if _, err := io.CopyN(io.Discard, ours, int64(ack[1])-2); err != nil {
		r.t.Fatal(err)
	}
	closed := make(chan over, 1)
	go func() {
		defer ours.Close()
		packet := make([]byte, 3)
		if _, err := io.ReadFull(ours, packet); err != nil || mqtt.PacketType(packet[0]>>4) != mqtt.DISCONNECT {
			closed <- over{0, time.Now()}
			return
		}
		closed <- over{mqtt.ReasonCode(packet[2]), time.Now()}
	}()
	return closed
}

func (r *credentialRig) add(id string) (secret string) {
	r.t.Helper()
	secret, err := r.elsewhere.Add(r.t.Context(), access.Client{ID: id, Workspace: "plant"}, "")
	if err != nil {
		r.t.Fatal(err)
	}
	return secret
}

// A credential that nobody can check ends its session when its grants end, however the
// store fails to answer: not one timeout later.
func TestASessionWhoseCredentialCannotBeCheckedEndsAtItsDeadline(t *testing.T) {
	const sla = time.Minute // the default of wsRevocationSLA
	for _, takes := range []time.Duration{4 * time.Second, 20 * time.Second, time.Hour} {
		t.Run(takes.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newCredentialRig(t)
				secret := r.add("press")
				synctest.Wait()
				began := time.Now()
				closed := r.connect("a", "press", secret)
				r.hold(func(string) time.Duration { return takes })
				time.Sleep(5 * sla)
				synctest.Wait()
				select {
				case o := <-closed:
					if takes < recheckTimeout || o.code != mqtt.ServerBusy || o.at.Sub(began) != sla {
						t.Errorf("closed for %v after %v", o.code, o.at.Sub(began))
					}
				default:
					if takes >= recheckTimeout {
						t.Error("not closed")
					}
				}
			})
		})
	}
}

// A client that is disabled at another replica loses all its connections at once: the
// store is asked once for all of them, and nobody waits for a client it does not answer for.
func TestAChangedClientIsLookedUpOnceForAllItsConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newCredentialRig(t)
		const connections, takes = 200, 6 * time.Second
		hung, pressed := r.add("hung"), r.add("press")
		synctest.Wait()
		var stay, leave []<-chan over
		for i := range connections {
			stay = append(stay, r.connect(fmt.Sprint("hung", i), "hung", hung))
			leave = append(leave, r.connect(fmt.Sprint("press", i), "press", pressed))
		}
		r.hold(func(key string) time.Duration {
			if key == "client/press" {
				return takes
			}
			return time.Hour
		})
		r.slow.mu.Lock()
		clear(r.slow.reads)
		r.slow.mu.Unlock()
		changed := time.Now()
		for _, id := range []string{"hung", "press"} {
			if err := r.elsewhere.Disable(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		for i := range leave {
			if o := <-leave[i]; o.code != mqtt.NotAuthorized || o.at.Sub(changed) > takes+time.Second {
				t.Fatalf("connection %d was closed for %v after %v, want %v after %v", i, o.code, o.at.Sub(changed), mqtt.NotAuthorized, takes)
			}
		}
		for i := range stay {
			if o := <-stay[i]; o.code != mqtt.ServerBusy || o.at.Sub(changed) > time.Minute {
				t.Fatalf("connection %d of a client nobody can check was closed for %v after %v", i, o.code, o.at.Sub(changed))
			}
		}
		r.slow.mu.Lock()
		defer r.slow.mu.Unlock()
		if n := r.slow.reads["client/press"]; n != 1 {
			t.Errorf("the store was asked %d times for one change, want once", n)
		}
	})
}
