package mesh

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"
)

// shakeHands does a handshake over a TLS connection until the link stands. f keeps what was read beyond it:
// the dialer's first frames may follow its resume at once. Only a refusal leaves a replica that may not act.
func shakeHands(conn *tls.Conn, f *frames, h *handshake, mayAct func() bool) error {
	write := func(b []byte, refusal bool) error {
		if len(b) == 0 {
			return nil
		}
		if !refusal && !mayAct() {
			return errFenced
		}
		_, err := conn.Write(b)
		return plain(err)
	}
	if err := write(h.begin(), false); err != nil {
		return err
	}
	for {
		k, payload, _, ok, err := f.next()
		if err != nil {
			return err
		}
		if !ok {
			n, err := conn.Read(f.space())
			if f.end += n; n == 0 && err != nil {
				return plain(err)
			}
			continue
		}
		out, done, err := h.step(k, payload)
		if werr := write(out, err != nil); err == nil {
			err = werr
		}
		if err != nil {
			return err
		}
		if done {
			return nil
		}
	}
}

// plain leaves the ports out of a network error, so that the same trouble is the same text again.
func plain(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil {
		return fmt.Errorf("%s: %w", op.Op, op.Err)
	}
	return err
}

// dial keeps the link with a peer of a higher id, until the mesh is closed.
func (p *peer) dial() {
	failures := 0
	for {
		p.mu.Lock()
		pr, address := p.pair, p.known.Address
		p.mu.Unlock()
		wait := time.Duration(-1) // until looked at again
		if pr != nil && p.m.o.MayAct() {
			began := time.Now()
			err := p.connect(pr, address)
			if err == nil && time.Since(began) >= p.m.timing.retry {
				failures = 0
			}
			wait = p.m.timing.pause(failures)
			failures++
			if err != nil {
				var r *refusal
				if errors.As(err, &r) && r.lasting() {
					wait = p.m.timing.refused
				}
				p.failed(err)
				if p.m.ctx.Err() == nil && p.m.said.anew(p.id, err.Error()) {
					p.m.o.Logger.Warn("mesh: no link", "peer", p.id, "address", address, "reason", err.Error())
				}
			}
		} else if pr != nil {
			wait = p.m.timing.retry
		}
		var elapsed <-chan time.Time
		if wait >= 0 {
			elapsed = time.After(wait)
		}
		select {
		case <-p.m.ctx.Done():
			return
		case <-p.kick:
			failures = 0
		case <-elapsed:
		}
	}
}

// connect makes one attempt to link. It returns nil after a link that stood has ended.
func (p *peer) connect(pr *pair, address string) error {
	ctx, cancel := context.WithTimeout(p.m.ctx, p.m.timing.greet)
	defer cancel()
	raw, err := p.m.o.Dial(ctx, address)
	if err != nil {
		return plain(err)
	}
	w := newWire(raw)
	defer w.Close()
	defer context.AfterFunc(p.m.ctx, func() { w.Close() })()
	w.SetDeadline(time.Now().Add(p.m.timing.greet))
	conn := tls.Client(w, p.m.tls)
	if err := conn.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("TLS: %w", plain(err))
	}
	p.mu.Lock()
	p.attempt++
	own := hello{versions: p.m.o.Versions, from: p.m.o.Replica, incarnation: pr.local, to: p.id, attempt: p.attempt}
	p.mu.Unlock()
	h := handshake{dialing: true, own: own}
	h.admit = func(theirs hello) (hello, uint64, *refusal) {
		var es effects
		defer es.run(p.m)
		p.mu.Lock()
		defer p.mu.Unlock()
		now, r := p.admit(theirs.incarnation, &es)
		if r != nil {
			return own, 0, r
		}
		if now.local != pr.local {
			return own, 0, &refusal{code: refusedEnded, reason: fmt.Sprintf("incarnation %d of replica %s is over", pr.local, own.from)}
		}
		pr = now
		return own, pr.in.handled, nil
	}
	var f frames
	if err := shakeHands(conn, &f, &h, p.m.o.MayAct); err != nil {
		return err
	}
	return p.serve(newLink(p, pr, w, conn, h.version, own.attempt), f, h.resumed)
}

// serve runs a link from its handshake, after which rest was read, to its end.
func (p *peer) serve(l *link, rest frames, resumed uint64) error {
	l.wire.gathering()
	l.wire.SetDeadline(time.Time{})
	if err := p.establish(l, resumed); err != nil {
		return err
	}
	l.run(rest)
	return nil
}

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
	conn := tls.Server(w, m.tls)
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
	if p.link == nil && (pr == nil || p.pair == pr) {
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
