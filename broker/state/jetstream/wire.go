package jetstream

import (
	"context"
	"net"
	"time"
)

// dialer makes the wires of a connection.
type dialer struct{ c *connection }

// dialTimeout is for TCP alone: a host that is gone must not hold up the next.
const dialTimeout = 5 * time.Second

func (d *dialer) Dial(network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	go func() {
		select {
		case <-d.c.closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	d.c.dialed.Store(&err)
	if err != nil {
		return nil, err
	}
	w := &wire{Conn: conn, c: d.c, made: time.Now()}
	d.c.mu.Lock()
	d.c.wire, d.c.up = w, false
	d.c.mu.Unlock()
	return w, nil
}

// wire is a TCP connection that notes when it last gave a byte.
type wire struct {
	net.Conn
	c      *connection
	made   time.Time
	broken bool // guarded by c.mu
}

func (w *wire) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	if n > 0 {
		w.c.heard.Store(int64(time.Since(w.c.born)))
	}
	if err != nil {
		w.c.lost(w)
	}
	return n, err
}

func (w *wire) Close() error {
	w.c.lost(w)
	return w.Conn.Close()
}
