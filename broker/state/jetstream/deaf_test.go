package jetstream_test

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/state/jetstream"
)

// deaf is a way to a server. What clients send over the connections there are when it is
// made deaf is lost; what the server sends arrives.
type deaf struct {
	net.Listener
	life atomic.Int64 // connections of an earlier life lose what they are given
}

func openDeaf(t *testing.T, to string) *deaf {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &deaf{Listener: l}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				client.Close()
				continue
			}
			life := d.life.Load()
			go func() {
				_, _ = io.Copy(client, server)
				client.Close()
			}()
			go func() {
				defer server.Close()
				buf := make([]byte, 32<<10)
				for {
					n, err := client.Read(buf)
					if err != nil {
						return
					}
					if d.life.Load() != life {
						continue
					}
					if _, err := server.Write(buf[:n]); err != nil {
						return
					}
				}
			}()
		}
	}()
	return d
}

// buffer may be written and read at once.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// A connection that is not silent, for changes of others come over it, but loses all that
// is sent is left for another one. The server would notice after some minutes.
func TestAConnectionThatOnlyReceivesIsLeft(t *testing.T) {
	t.Parallel()
	site := sharedSite(t)
	account := site.account(t)
	other := site.open(t, account, nil)
	theirs, err := other.Bucket(t.Context(), state.Routes)
	if err != nil {
		t.Fatal(err)
	}
	var said buffer
	way := openDeaf(t, site.Servers[0].Address)
	store := site.open(t, account, func(o *jetstream.Options) {
		o.Servers = []string{strings.Replace(site.Servers[0].URL(account), site.Servers[0].Address, way.Addr().String(), 1)}
		o.Silence = 3 * time.Second
		o.Logger = slog.New(slog.NewTextHandler(&said, nil))
	})
	bucket, err := store.Bucket(t.Context(), state.Routes)
	if err != nil {
		t.Fatal(err)
	}
	watch, err := bucket.Watch(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	go func() {
		for range watch.Updates() {
		}
	}()
	if _, err := bucket.Put(t.Context(), "mine", nil); err != nil {
		t.Fatal(err)
	}
	way.life.Add(1)
	landed := make(chan error, 1)
	go func() {
		_, err := bucket.Put(t.Context(), "mine", []byte("again"))
		landed <- err
	}()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-landed:
			if err != nil {
				t.Errorf("a write over a connection that only receives: %v", err)
			}
			if text := said.String(); !strings.Contains(text, "NATS answers no ping") {
				t.Errorf("it was left for another reason:\n%s", text)
			}
			return
		case <-tick.C:
			if _, err := theirs.Put(t.Context(), "theirs", nil); err != nil {
				t.Fatal(err)
			}
		}
	}
}
