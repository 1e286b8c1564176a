package proxy

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Proxy is one way to one server. Its methods may be used from any goroutine.
type Proxy struct {
	Address string // host:port to connect to instead of the server's

	backend  string
	listener net.Listener
	hold     atomic.Int64 // ns

	mu     sync.Mutex
	closed bool
	cut    bool
	frozen chan struct{} // nil: not frozen; closed by the end of the frost
	conns  map[net.Conn]struct{}
}

// Open opens a way to a server's address on a free loopback port.
func Open(backend string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open a way to %s: %w", backend, err)
	}
	p := &Proxy{Address: l.Addr().String(), backend: backend, listener: l, conns: map[net.Conn]struct{}{}}
	go p.accept()
	return p, nil
}

// Hold holds what the server sends from now on for d.
func (p *Proxy) Hold(d time.Duration) { p.hold.Store(int64(d)) }

// Cut closes every connection, and each that comes.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	p.thaw()
	p.closeAll()
}

// Freeze forwards nothing any more.
func (p *Proxy) Freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen == nil && !p.closed {
		p.frozen = make(chan struct{})
	}
}

// Heal makes the way whole again. What is being held leaves when it is due.
func (p *Proxy) Heal() {
	p.hold.Store(0)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = false
	p.thaw()
}

// State says in a word what is wrong with the way; "whole" if nothing.
func (p *Proxy) State() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch hold := time.Duration(p.hold.Load()); {
	case p.cut:
		return "cut"
	case p.frozen != nil:
		return "frozen"
	case hold > 0:
		return "held " + hold.String()
	}
	return "whole"
}

// Close ends the way and every connection over it.
func (p *Proxy) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.listener.Close()
	p.thaw()
	p.closeAll()
}

func (p *Proxy) thaw() {
	if p.frozen != nil {
		close(p.frozen)
		p.frozen = nil
	}
}

func (p *Proxy) closeAll() {
	for c := range p.conns {
		c.Close()
	}
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		go p.connect(client)
	}
}

func (p *Proxy) connect(client net.Conn) {
	if !p.add(client) {
		client.Close()
		return
	}
	p.pass() // a swallowed SYN: the server hears of it after the frost
	server, err := net.Dial("tcp", p.backend)
	if err != nil || !p.add(server) {
		if err == nil {
			server.Close()
		}
		client.Close()
		p.remove(client)
		return
	}
	go p.forward(client, server, func() time.Duration { return 0 })
	go p.forward(server, client, func() time.Duration { return time.Duration(p.hold.Load()) })
}

// add keeps a connection to be closed with the way; false: it may not be.
func (p *Proxy) add(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.cut {
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

func (p *Proxy) remove(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		delete(p.conns, c)
	}
}

// pass waits out a frost.
func (p *Proxy) pass() {
	for {
		p.mu.Lock()
		frozen := p.frozen
		p.mu.Unlock()
		if frozen == nil {
			return
		}
		<-frozen
	}
}

// piece is what one read brought.
type piece struct {
	due  time.Time
	data []byte
}

// forward copies from one to the other, each piece held for as long as it was
// told when the piece came. At the end of either both are closed.
func (p *Proxy) forward(from, to net.Conn, hold func() time.Duration) {
	pieces := make(chan piece, 1<<12)
	go func() {
		defer close(pieces)
		buf := make([]byte, 64<<10)
		for {
			n, err := from.Read(buf)
			if n > 0 {
				pieces <- piece{time.Now().Add(hold()), append([]byte(nil), buf[:n]...)}
			}
			if err != nil {
				return
			}
		}
	}()
	for next := range pieces {
		if wait := time.Until(next.due); wait > 0 {
			timer := time.NewTimer(wait)
			<-timer.C
		}
		p.pass()
		if _, err := to.Write(next.data); err != nil {
			break
		}
	}
	p.pass() // that one end has closed is not heard of either
	from.Close()
	to.Close()
	for range pieces { // until the reader has seen the end
	}
	p.remove(from, to)
}
