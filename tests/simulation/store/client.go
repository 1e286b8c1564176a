package store

import (
	"context"
	"sync"
	"time"

	"maestrohub.io/uns/broker/cluster"
	"maestrohub.io/uns/broker/state"
)

// Client is one replica's way into the store. It implements state.Store and what a
// replica asks of a shared state beside it.
type Client struct {
	server        *Server
	name          string
	shared, lease *conn

	closing chan struct{}
	once    sync.Once

	mu      sync.Mutex // below
	lying   Lies
	buckets map[string]*bucket
	logs    map[string]*log
}

// Client returns a new way in for the replica of that name: one life of its process.
func (s *Server) Client(name string, lies Lies) *Client {
	c := &Client{server: s, name: name, closing: make(chan struct{}), lying: lies, buckets: map[string]*bucket{}, logs: map[string]*log{}}
	c.shared, c.lease = newConn(c, "shared", false), newConn(c, "lease", true)
	return c
}

func (c *Client) lies() Lies {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lying
}

// Lie changes what is done to every call.
func (c *Client) Lie(l Lies) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lying = l
}

// Which names connections of a client.
type Which uint8

// The two connections, and both.
const (
	Shared Which = 1
	Lease  Which = 2
	Both         = Shared | Lease
)

func (c *Client) each(w Which, do func(c *conn)) {
	if w&Shared != 0 {
		do(c.shared)
	}
	if w&Lease != 0 {
		do(c.lease)
	}
}

// Heal undoes what was done to connections.
func (c *Client) Heal(w Which) { c.each(w, func(c *conn) { c.become(up) }) }

// Cut keeps everything from passing, either way.
func (c *Client) Cut(w Which) { c.each(w, func(c *conn) { c.become(cut) }) }

// Hang stops the server at the other end.
func (c *Client) Hang(w Which) { c.each(w, func(c *conn) { c.become(hung) }) }

// Isolate leaves the server at the other end alone.
func (c *Client) Isolate(w Which) { c.each(w, func(c *conn) { c.become(isolated) }) }

// Hold has every answer take longer by d.
func (c *Client) Hold(d time.Duration) {
	c.each(Both, func(c *conn) { c.set(func() { c.hold = d }) })
}

// Freeze stops the process at this end, as far as its store can tell, or lets it run
// again: what it writes leaves once it runs, what comes is read then. Its timers go on,
// which no real one's do: what they do has its effect afterwards.
func (c *Client) Freeze(frozen bool) {
	c.each(Both, func(c *conn) {
		c.set(func() {
			if frozen && !c.frozen {
				c.froze = time.Now()
			}
			c.frozen = frozen
		})
	})
}

func (c *Client) closed() bool {
	select {
	case <-c.closing:
		return true
	default:
		return false
	}
}

// Bucket implements state.Store.
func (c *Client) Bucket(ctx context.Context, name string) (state.Bucket, error) {
	if err := state.CheckName("bucket", name); err != nil {
		return nil, err
	}
	// A stream is looked for before it is used.
	if err := c.shared.read(ctx, "bucket", func(bool, time.Time) error { return nil }); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.buckets[name]
	if b == nil {
		b = &bucket{client: c, conn: c.shared, name: name}
		c.buckets[name] = b
	}
	return b, nil
}

// Log implements state.Store.
func (c *Client) Log(ctx context.Context, workspaceID string) (state.Log, error) {
	if err := state.CheckName("workspace id", workspaceID); err != nil {
		return nil, err
	}
	var last uint64
	var inner state.Log
	err := c.shared.read(ctx, "log", func(stale bool, asOf time.Time) (err error) {
		if inner, err = c.server.log(workspaceID); err != nil {
			return err
		}
		last = (&log{inner: inner}).behind(stale, asOf)
		return nil
	})
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.logs[workspaceID]
	if l == nil {
		l = &log{client: c, workspace: workspaceID, inner: inner, turn: make(chan struct{}, 1), abandoned: make(chan struct{})}
		l.seen(last)
		c.logs[workspaceID] = l
	}
	return l, nil
}

// Probe implements state.Store.
func (c *Client) Probe(ctx context.Context) error {
	b, err := c.Bucket(ctx, state.SessionState)
	if err == nil {
		_, err = b.Put(ctx, state.ProbeKeys+c.name, nil)
	}
	return err
}

// Close implements state.Store. As a kill, it leaves what is out to its fate.
func (c *Client) Close() error {
	c.once.Do(func() { close(c.closing) })
	return nil
}

// OpenLease returns the bucket of the members, over the lease connection.
func (c *Client) OpenLease(context.Context) (cluster.Lease, error) {
	return &bucket{client: c, conn: c.lease, name: state.Members}, nil
}

// Silent is for how long the shared-state connection has received nothing.
func (c *Client) Silent() time.Duration { return c.shared.silent() }

// Configure has nothing to bring to this replica's settings.
func (c *Client) Configure(context.Context) error { return nil }
