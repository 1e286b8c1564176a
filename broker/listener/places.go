package listener

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
)

// places counts the connections between accept and CONNACK.
type places struct {
	limit   int
	observe func(n int)
	taken   atomic.Int64
}

// take takes a place; false when all are taken.
func (p *places) take() bool {
	n := p.taken.Add(1)
	if int(n) > p.limit {
		p.taken.Add(-1)
		return false
	}
	if p.observe != nil {
		p.observe(int(n))
	}
	return true
}

func (p *places) free() {
	n := p.taken.Add(-1)
	if p.observe != nil {
		p.observe(int(n))
	}
}

// sources counts the connections of each address.
type sources struct {
	limit int
	mu    sync.Mutex // owns held
	held  map[netip.Prefix]int
}

// take takes a place for address a; false when it has as many as it may.
func (s *sources) take(a netip.Addr) bool {
	key := source(a)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[key] >= s.limit {
		return false
	}
	if s.held == nil {
		s.held = make(map[netip.Prefix]int)
	}
	s.held[key]++
	return true
}

func (s *sources) free(a netip.Addr) {
	key := source(a)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[key]--; s.held[key] <= 0 {
		delete(s.held, key)
	}
}

// source is what one holder of address a can choose from: an IPv4 address, an IPv6 /64.
func source(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := 64
	if a.Is4() {
		bits = 32
	}
	return netip.PrefixFrom(a, bits).Masked()
}

// peer is the address at the other end of the socket.
func peer(nc net.Conn) netip.Addr {
	if a, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// trusted reports whether a lies in one of the networks.
func trusted(networks []netip.Prefix, a netip.Addr) bool {
	for _, n := range networks {
		if n.Contains(a.WithZone("")) {
			return true
		}
	}
	return false
}

// release gives back what a connection holds, each thing once.
type release struct {
	listener    *Listener  // nil = of none: no place to give back
	source      netip.Addr // invalid = none taken
	established atomic.Bool
	closed      atomic.Bool
}

func (r *release) pending() {
	if !r.established.Swap(true) && r.listener != nil {
		r.listener.places.free()
	}
}

func (r *release) all() {
	r.pending()
	if !r.closed.Swap(true) && r.source.IsValid() {
		r.listener.sources.free(r.source)
	}
}
