package natsserver

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Holder is a way to a server that holds every byte the server sends for a
// while, and lets what goes to it through at once: a slow NATS.
type Holder struct {
	Address string // host:port

	backend  string
	listener net.Listener
	hold     atomic.Int64 // ns

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]struct{}
}

// Hold opens a way to a server on a free port.
func Hold(s *Server) (*Holder, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("hold the replies of %s: %w", s.Name, err)
	}
	h := &Holder{Address: l.Addr().String(), backend: s.Address, listener: l, conns: map[net.Conn]struct{}{}}
	go h.accept()
	return h, nil
}

// URL is where an account's user connects.
func (h *Holder) URL(account string) string {
	return fmt.Sprintf("nats://%s:%s@%s", account, account, h.Address)
}

// Set holds what the server sends from now on for d.
func (h *Holder) Set(d time.Duration) { h.hold.Store(int64(d)) }

// Close ends the way and every connection over it.
func (h *Holder) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	h.listener.Close()
	for c := range h.conns {
		c.Close()
	}
}

func (h *Holder) accept() {
	for {
		client, err := h.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", h.backend)
		if err != nil || !h.add(client, server) {
			client.Close()
			continue
		}
		go h.forward(client, server, func() time.Duration { return 0 })
		go h.forward(server, client, func() time.Duration { return time.Duration(h.hold.Load()) })
	}
}

func (h *Holder) add(conns ...net.Conn) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range conns {
		if h.closed {
			c.Close()
		} else {
			h.conns[c] = struct{}{}
		}
	}
	return !h.closed
}

// forward copies from one to the other, each piece held for as long as it was
// told when the piece came. At the end of either both are closed.
func (h *Holder) forward(from, to net.Conn, hold func() time.Duration) {
	type piece struct {
		due  time.Time
		data []byte
	}
	pieces := make(chan piece, 1<<16)
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
	for p := range pieces {
		if wait := time.Until(p.due); wait > 0 {
			timer := time.NewTimer(wait)
			<-timer.C
		}
		if _, err := to.Write(p.data); err != nil {
			break
		}
	}
	from.Close()
	to.Close()
	for range pieces { // until the reader has seen the end
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.conns, from)
	delete(h.conns, to)
}
