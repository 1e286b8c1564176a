package proxy

import (
	"fmt"
	"net"
	"sync"
)

// Proxy is one way to one server, with a lane for everybody who takes it. Its methods
// may be used from any goroutine.
type Proxy struct {
	*Lane // of everybody, unless the way tells them apart

	Address string // host:port to connect to instead of the server's

	backend  string
	listener net.Listener
	who      func(net.Conn) string

	mu     sync.Mutex // below
	closed bool
	lanes  map[string]*Lane
}

// Open opens a way to a server's address on a free loopback port.
func Open(backend string) (*Proxy, error) { return OpenLanes(backend, nil) }

// OpenLanes opens a way on which who names each that connects, and so the lane it
// takes. One without a name is turned away.
func OpenLanes(backend string, who func(net.Conn) string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open a way to %s: %w", backend, err)
	}
	p := &Proxy{Lane: newLane(), Address: l.Addr().String(), backend: backend, listener: l, who: who, lanes: map[string]*Lane{}}
	go p.accept()
	return p, nil
}

// Of is the lane of whom the way names so.
func (p *Proxy) Of(name string) *Lane {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.lanes[name]
	if l == nil {
		l = newLane()
		l.closed = p.closed
		p.lanes[name] = l
	}
	return l
}

// Close ends the way and every connection over it.
func (p *Proxy) Close() {
	p.listener.Close()
	p.mu.Lock()
	p.closed = true
	lanes := []*Lane{p.Lane}
	for _, l := range p.lanes {
		lanes = append(lanes, l)
	}
	p.mu.Unlock()
	for _, l := range lanes {
		l.close()
	}
}

func (p *Proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		go func() {
			lane := p.Lane
			if p.who != nil {
				name := p.who(c)
				if name == "" {
					c.Close()
					return
				}
				lane = p.Of(name)
			}
			lane.serve(c, p.backend)
		}()
	}
}
