package timescale

import (
	"bytes"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"maestrohub.io/uns/tools/launch/postgres"
)

// proxy stands between a historian and its server and cuts connections.
type proxy struct {
	listener net.Listener
	server   string

	mu sync.Mutex
	// swallow: the next answer that ends a transaction is not passed on, the
	// connection is cut instead.
	swallow bool
	cuts    int
	// budget, if not nil, gives each connection the number of bytes of answers after
	// which it is cut.
	budget func() int
}

// newProxy returns a proxy and the URL of a database through it.
func newProxy(t *testing.T, s *postgres.Server, url string) (*proxy, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, server: s.Address()}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { p.serve(client) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		serving.Wait()
	})
	return p, strings.Replace(url, s.Address(), l.Addr().String(), 1)
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(server, client) // ended by either side
		server.Close()
	}()
	left := -1
	p.mu.Lock()
	if p.budget != nil {
		left = p.budget()
	}
	p.mu.Unlock()
	buf := make([]byte, 64<<10)
	for {
		n, err := server.Read(buf)
		if err != nil {
			return
		}
		answer := buf[:n]
		if p.swallows(answer) {
			return
		}
		if left >= 0 {
			if n >= left {
				_, _ = client.Write(answer[:left])
				p.mu.Lock()
				p.cuts++
				p.mu.Unlock()
				return
			}
			left -= n
		}
		if _, err := client.Write(answer); err != nil {
			return
		}
	}
}

// idle is the message that says a transaction has ended: ReadyForQuery, idle.
var idle = []byte("Z\x00\x00\x00\x05I")

func (p *proxy) swallows(answer []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.swallow {
		return false
	}
	if bytes.HasSuffix(answer, idle) {
		p.swallow = false
		p.cuts++
		return true
	}
	return false
}

func (p *proxy) set(f func(*proxy)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p)
}

func (p *proxy) cutCount() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cuts
}
