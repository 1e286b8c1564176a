package mqtttest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"maestrohub.io/uns/broker/config"
	"maestrohub.io/uns/broker/replica"
)

// Broker is a broker running in this process.
type Broker struct {
	// Config is the configuration it was started with; Replica the replica itself.
	Config  *config.Config
	Replica *replica.Replica

	log     lockedBuffer
	stop    context.CancelFunc
	ended   chan struct{}
	err     error // of Run, once ended is closed
	named   atomic.Int64
	removed string // a folder to remove at the end

	others []*Broker
	dialed atomic.Uint64
}

// Beside says that others are replicas of the same broker: connections go to one after
// the other from now on.
func (b *Broker) Beside(others ...*Broker) { b.others = others }

// next is the replica whose turn it is to be connected to.
func (b *Broker) next() *Broker {
	if turn := b.dialed.Add(1) % uint64(len(b.others)+1); turn > 0 {
		return b.others[turn-1]
	}
	return b
}

// Start starts a broker for a test and stops it at its end. change, if not nil,
// changes the configuration first. What the broker logged is printed if the test
// failed.
func Start(t testing.TB, change func(*config.Config)) *Broker {
	t.Helper()
	b, err := open(t.TempDir(), change)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Stop(); err != nil {
			t.Errorf("stop the broker: %v", err)
		}
		if t.Failed() {
			t.Logf("the broker logged:\n%s", b.Logged())
		}
	})
	return b
}

// Open starts a broker that several tests share, in a temporary folder of its own.
// Close it when the last has ended.
func Open(change func(*config.Config)) (*Broker, error) {
	dir, err := os.MkdirTemp("", "mqtttest-")
	if err != nil {
		return nil, fmt.Errorf("open a broker: %w", err)
	}
	b, err := open(dir, change)
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	b.removed = dir
	return b, nil
}

// Close stops a broker that was opened and removes its folder.
func (b *Broker) Close() error {
	err := b.Stop()
	if b.removed != "" {
		_ = os.RemoveAll(b.removed)
	}
	return err
}

func open(dir string, change func(*config.Config)) (*Broker, error) {
	model, seed, err := writeWorld(dir)
	if err != nil {
		return nil, err
	}
	c := config.Default()
	c.ModelFile, c.ClientsFile, c.DataDir, c.ReplicaID = model, seed, filepath.Join(dir, "data"), "test"
	c.Broker.TCPListen, c.Broker.TLSListen, c.HTTP.Listen = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	c.Broker.WebSocket.Enabled, c.Broker.WebSocket.Listen = true, "127.0.0.1:0"
	c.Log.Level = "debug"
	if change != nil {
		change(c)
	}
	b := &Broker{Config: c, ended: make(chan struct{})}
	if b.Replica, err = replica.New(context.Background(), c, replica.NewLogger(&b.log, c.Log), "test"); err != nil {
		return nil, fmt.Errorf("start a broker: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	b.stop = stop
	go func() {
		defer close(b.ended)
		b.err = b.Replica.Run(ctx)
	}()
	select {
	case <-b.Replica.Started():
		return b, nil
	case <-b.ended:
		stop()
		return nil, fmt.Errorf("start a broker: %w", b.err)
	}
}

// Stop stops the broker as SIGTERM does and returns what its Run returned. It
// may be called again.
func (b *Broker) Stop() error {
	b.stop()
	<-b.ended
	return b.err
}

// Address is where a listener ("tcp", "tls", "ws", "wss", "http") is open; "" if
// it is not.
func (b *Broker) Address(listener string) string { return b.Replica.Address(listener) }

// Logged is what the broker has logged so far.
func (b *Broker) Logged() string { return b.log.String() }

// Name makes a client identifier no other client of this broker has, of characters
// and length every version allows.
func (b *Broker) Name() string { return fmt.Sprintf("client%d", b.named.Add(1)) }

// lockedBuffer is a buffer many goroutines may write to.
type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.String()
}
