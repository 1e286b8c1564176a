package natsserver

import (
	"fmt"
	"time"

	"maestrohub.io/uns/tools/localcluster/proxy"
)

// Holder is a way to a server that holds every byte the server sends for a
// while, and lets what goes to it through at once: a slow NATS.
type Holder struct{ *proxy.Proxy }

// Hold opens a way to a server on a free port.
func Hold(s *Server) (*Holder, error) {
	p, err := proxy.Open(s.Address)
	if err != nil {
		return nil, fmt.Errorf("hold the replies of %s: %w", s.Name, err)
	}
	return &Holder{p}, nil
}

// URL is where an account's user connects.
func (h *Holder) URL(account string) string {
	return fmt.Sprintf("nats://%s:%s@%s", account, account, h.Address)
}

// Set holds what the server sends from now on for d.
func (h *Holder) Set(d time.Duration) { h.Hold(d) }

// Release holds nothing any more, and waits until what was held has left.
func (h *Holder) Release() {
	h.Hold(0)
	h.Drain()
}
