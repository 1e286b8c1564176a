package deployment

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// service is the one address of all replicas, as Kubernetes gives them one: each new
// connection goes to the next replica that says it is ready.
type service struct {
	listener net.Listener
	replicas []*Replica
	next     atomic.Uint64
	cancel   context.CancelFunc
	work     sync.WaitGroup

	mu    sync.Mutex // below
	ready map[*Replica]bool
	conns map[net.Conn]struct{} // nil: closed
}

// askEvery is how often each replica is asked whether it is ready; Kubernetes takes
// seconds where this takes less than one.
const askEvery = 200 * time.Millisecond

func openService(replicas []*Replica) (*service, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open the address of all replicas: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &service{listener: l, replicas: replicas, cancel: cancel, ready: map[*Replica]bool{}, conns: map[net.Conn]struct{}{}}
	for _, r := range replicas {
		s.work.Go(func() { s.follow(ctx, r) })
	}
	s.work.Go(s.accept)
	return s, nil
}

// follow asks a replica whether it is ready until ctx is done.
func (s *service) follow(ctx context.Context, r *Replica) {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		ready := r.ready(ctx)
		s.mu.Lock()
		s.ready[r] = ready
		s.mu.Unlock()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (r *Replica) ready(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.HTTP+"/health/ready", nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode == http.StatusOK
}

func (s *service) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.work.Go(func() { s.serve(c) })
	}
}

// serve joins a connection with a replica; without one that is ready it is closed.
func (s *service) serve(c net.Conn) {
	defer c.Close()
	to := s.dial()
	if to == nil {
		return
	}
	defer to.Close()
	if !s.keep(c, to) {
		return
	}
	defer s.forget(c, to)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(to, c)
		_ = to.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(c, to)
	c.Close()
	<-done
}

func (s *service) dial() net.Conn {
	first := s.next.Add(1)
	for i := range uint64(len(s.replicas)) {
		r := s.replicas[(first+i)%uint64(len(s.replicas))]
		s.mu.Lock()
		ready := s.ready[r]
		s.mu.Unlock()
		if !ready {
			continue
		}
		if c, err := net.DialTimeout("tcp", r.TCP, time.Second); err == nil {
			return c
		}
	}
	return nil
}

func (s *service) keep(conns ...net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns == nil {
		return false
	}
	for _, c := range conns {
		s.conns[c] = struct{}{}
	}
	return true
}

func (s *service) forget(conns ...net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range conns {
		delete(s.conns, c)
	}
}

func (s *service) close() {
	s.listener.Close()
	s.cancel()
	s.mu.Lock()
	for c := range s.conns {
		c.Close()
	}
	s.conns = nil
	s.mu.Unlock()
	s.work.Wait()
}
