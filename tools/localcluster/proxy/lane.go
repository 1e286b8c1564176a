package proxy

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Lane is what the connections of one who takes a way have in common: what is wrong
// with them. Its methods may be used from any goroutine.
type Lane struct {
	hold    atomic.Int64 // ns
	drained *sync.Cond   // on mu, of pending

	mu     sync.Mutex // below
	closed bool
	cut    bool
	frozen chan struct{} // nil: not frozen; closed by the end of the frost
	lost   chan struct{} // closed and replaced by Strand
	conns  map[net.Conn]struct{}

	pending int // pieces read and not yet written on
}

func newLane() *Lane {
	l := &Lane{conns: map[net.Conn]struct{}{}, lost: make(chan struct{})}
	l.drained = sync.NewCond(&l.mu)
	return l
}

// Hold holds what the server sends from now on for d. What is being held already leaves
// when it is due: Drain waits for it.
func (l *Lane) Hold(d time.Duration) { l.hold.Store(int64(d)) }

// Drain waits until nothing is on its way.
func (l *Lane) Drain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.pending > 0 {
		l.drained.Wait()
	}
}

// count counts pieces that come and, below zero, that are written on or lost.
func (l *Lane) count(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pending += n; l.pending == 0 {
		l.drained.Broadcast()
	}
}

// Cut closes every connection, and each that comes.
func (l *Lane) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	l.thaw()
	l.closeAll()
}

// Freeze forwards nothing any more.
func (l *Lane) Freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.frozen == nil && !l.closed {
		l.frozen = make(chan struct{})
	}
}

// Strand leaves the connections there are open and carries nothing over them any more,
// for good.
func (l *Lane) Strand() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.lost)
	l.lost = make(chan struct{})
}

// Heal makes the way whole again. What is being held leaves when it is due.
func (l *Lane) Heal() {
	l.hold.Store(0)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = false
	l.thaw()
}

// State says in a word what is wrong with the way; "whole" if nothing.
func (l *Lane) State() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch hold := time.Duration(l.hold.Load()); {
	case l.cut:
		return "cut"
	case l.frozen != nil:
		return "frozen"
	case hold > 0:
		return "held " + hold.String()
	}
	return "whole"
}

func (l *Lane) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.thaw()
	l.closeAll()
}

func (l *Lane) thaw() {
	if l.frozen != nil {
		close(l.frozen)
		l.frozen = nil
	}
}

func (l *Lane) closeAll() {
	for c := range l.conns {
		c.Close()
	}
}

func (l *Lane) serve(client net.Conn, backend string) {
	if !l.add(client) {
		client.Close()
		return
	}
	l.mu.Lock()
	lost := l.lost
	l.mu.Unlock()
	l.pass() // a swallowed SYN: the server hears of it after the frost
	server, err := net.Dial("tcp", backend)
	if err != nil || !l.add(server) {
		if err == nil {
			server.Close()
		}
		client.Close()
		l.remove(client)
		return
	}
	go l.forward(client, server, lost, func() time.Duration { return 0 })
	go l.forward(server, client, lost, func() time.Duration { return time.Duration(l.hold.Load()) })
}

// add keeps a connection to be closed with the way; false: it may not be.
func (l *Lane) add(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.cut {
		return false
	}
	l.conns[c] = struct{}{}
	return true
}

func (l *Lane) remove(conns ...net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range conns {
		delete(l.conns, c)
	}
}

// pass waits out a frost.
func (l *Lane) pass() {
	for {
		l.mu.Lock()
		frozen := l.frozen
		l.mu.Unlock()
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
// told when the piece came. At the end of either both are closed, unless they were lost:
// then neither hears of the other's end.
func (l *Lane) forward(from, to net.Conn, lost <-chan struct{}, hold func() time.Duration) {
	pieces := make(chan piece, 1<<12)
	go func() {
		defer close(pieces)
		buf := make([]byte, 64<<10)
		for {
			n, err := from.Read(buf)
			if over(lost) {
				return // and what is sent fills the buffers
			}
			if n > 0 {
				l.count(1)
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
		l.pass()
		var err error
		if !over(lost) {
			_, err = to.Write(next.data)
		}
		l.count(-1)
		if err != nil {
			break
		}
	}
	l.pass() // that one end has closed is not heard of either
	if over(lost) {
		return
	}
	from.Close()
	to.Close()
	for range pieces { // until the reader has seen the end
		l.count(-1)
	}
	l.remove(from, to)
}

func over(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
