package mesh

import (
	"bufio"
	"net"
	"sync"
	"sync/atomic"
)

// wire is the connection below TLS. TLS writes and reads one record of 16 KiB at a time; wire gathers what
// it writes until flush, and reads as much as there is. Of a large frame it does not gather more than
// keptBytes: the other end would hear nothing while the whole of it is encrypted.
type wire struct {
	net.Conn
	in *bufio.Reader

	flushing sync.Mutex // before mu; held while what was gathered is written, so that it stays in order

	mu      sync.Mutex
	gather  bool // else writes go straight through: during the handshake
	pending []byte
	spare   []byte
	closed  atomic.Bool
}

func newWire(conn net.Conn) *wire {
	return &wire{Conn: conn, in: bufio.NewReaderSize(conn, readBytes)}
}

func (w *wire) Read(b []byte) (int, error) { return w.in.Read(b) }

func (w *wire) Write(b []byte) (int, error) {
	w.mu.Lock()
	if !w.gather {
		w.mu.Unlock()
		return w.Conn.Write(b)
	}
	w.pending = append(w.pending, b...)
	full := len(w.pending) >= keptBytes
	w.mu.Unlock()
	if full {
		if err := w.flush(); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

// gathering begins to gather writes.
func (w *wire) gathering() {
	w.mu.Lock()
	w.gather = true
	w.mu.Unlock()
}

// flush writes what was gathered.
func (w *wire) flush() error {
	w.flushing.Lock()
	defer w.flushing.Unlock()
	w.mu.Lock()
	b := w.pending
	w.pending = w.spare[:0]
	w.mu.Unlock()
	if len(b) == 0 {
		return nil
	}
	_, err := w.Conn.Write(b)
	if cap(b) > keptBytes {
		b = nil
	}
	w.spare = b
	return err
}

func (w *wire) Close() error {
	if w.closed.Swap(true) {
		return nil
	}
	return w.Conn.Close()
}
