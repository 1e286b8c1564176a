package mesh

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"
)

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
	conn := tls.Client(w, p.m.o.Identity().config())
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
