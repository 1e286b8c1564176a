package mesh

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"
)

// unproven bounds the connections whose certificate was not seen yet; more are closed.
const unproven = 64

// accept takes connections until the listener is closed.
func (m *Mesh) accept() {
	slots := make(chan struct{}, unproven)
	for {
		raw, err := m.o.Listener.Accept()
		if err != nil {
			if m.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			if m.said.anew("/accept", err.Error()) {
				m.o.Logger.Error("mesh: links cannot be accepted", "error", err)
			}
			select {
			case <-m.ctx.Done():
				return
			case <-time.After(m.timing.tick):
			}
			continue
		}
		select {
		case slots <- struct{}{}:
			m.tasks.Go(func() { m.greet(raw, func() { <-slots }) })
		default:
			raw.Close()
		}
	}
}

// greet turns an accepted connection into a link and runs it. proven is called once the certificate was
// seen, or never will be.
func (m *Mesh) greet(raw net.Conn, proven func()) {
	w := newWire(raw)
	defer w.Close()
	defer context.AfterFunc(m.ctx, func() { w.Close() })()
	w.SetDeadline(time.Now().Add(m.timing.greet))
	conn := tls.Server(w, m.o.Identity().config())
	err := conn.HandshakeContext(m.ctx)
	proven()
	if err != nil {
		host, _, _ := net.SplitHostPort(raw.RemoteAddr().String())
		if m.ctx.Err() == nil && m.said.anew("/"+host, plain(err).Error()) {
			m.o.Logger.Warn("mesh: a connection was refused", "remote", raw.RemoteAddr().String(), "reason", "TLS: "+plain(err).Error())
		}
		return
	}
	a := admission{m: m}
	h := handshake{own: hello{versions: m.o.Versions, from: m.o.Replica}, admit: a.admit}
	var f frames
	err = shakeHands(conn, &f, &h, m.o.MayAct)
	if err == nil {
		err = a.peer.serve(newLink(a.peer, a.pair, w, conn, h.version, h.theirs.attempt), f, h.resumed)
	}
	if err != nil && m.ctx.Err() == nil {
		if p := m.peer(h.theirs.from); p != nil {
			p.refused(a.pair, err)
		}
		if m.said.anew(h.theirs.from, err.Error()) {
			m.o.Logger.Warn("mesh: no link", "peer", h.theirs.from, "remote", raw.RemoteAddr().String(), "reason", err.Error())
		}
	}
}

// refused notes why the peer's attempt came to nothing, unless it has a link.
func (p *peer) refused(pr *pair, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if (p.link == nil || p.link.lost) && (pr == nil || p.pair == pr) {
		p.reason = err.Error()
	}
}

// admission decides on the hello of a dialer.
type admission struct {
	m    *Mesh
	peer *peer
	pair *pair
}

// admit ends the peer's earlier link, and waits until nothing of it is being handled any more.
func (a *admission) admit(theirs hello) (hello, uint64, *refusal) {
	own := hello{versions: a.m.o.Versions, from: a.m.o.Replica, to: theirs.from, attempt: theirs.attempt}
	a.peer = a.m.peer(theirs.from)
	if a.peer == nil {
		return own, 0, &refusal{code: refusedUnknown, reason: fmt.Sprintf("replica %s is not known to be a member", theirs.from)}
	}
	p := a.peer
	var es effects
	p.mu.Lock()
	pr, r := p.admit(theirs.incarnation, &es)
	if r == nil && theirs.attempt <= pr.attempt {
		r = &refusal{code: refusedAttempt, reason: fmt.Sprintf("attempt %d of replica %s comes after attempt %d", theirs.attempt, p.id, pr.attempt)}
	}
	if r == nil {
		pr.attempt = theirs.attempt
	}
	old := p.link
	p.mu.Unlock()
	es.run(a.m)
	if r != nil {
		return own, 0, r
	}
	if old != nil {
		old.end(errReplaced, false)
		t := time.NewTimer(a.m.timing.greet)
		defer t.Stop()
		select {
		case <-old.finished:
		case <-a.m.ctx.Done():
			return own, 0, &refusal{code: refusedBusy, reason: errStops.Error()}
		case <-t.C:
			return own, 0, &refusal{code: refusedBusy, reason: "what came over the link before is still being handled"}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pair != pr || pr.attempt != theirs.attempt {
		return own, 0, &refusal{code: refusedAttempt, reason: errReplaced.Error()}
	}
	a.pair, own.incarnation = pr, pr.local
	return own, pr.in.handled, nil
}
