package mesh

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// peer is one other replica, over all its lives.
type peer struct {
	m     *Mesh
	id    string
	dials bool          // this end dials
	kick  chan struct{} // the dialer is to look again

	lost, unreadable, sent, received atomic.Uint64 // values

	// mu guards what follows, with the pair and the fields of the link that say so. Whoever
	// sends or answers may hold locks of its own: nothing of theirs is called under it (effects).
	mu      sync.Mutex
	known   Peer
	local   uint64 // this replica's life, 0: none
	pair    *pair  // nil: one of the two has no life
	link    *link  // the last until it has finished, also while it is lost; nil: none
	attempt uint64 // of the dialer
	reason  string // why there is no link
}

func newPeer(m *Mesh, id string, local uint64) *peer {
	return &peer{m: m, id: id, dials: m.o.Replica < id, kick: make(chan struct{}, 1), local: local, known: Peer{Replica: id, State: Gone}}
}

// live takes in this replica's life.
func (p *peer) live(local uint64, es *effects) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.local = local
	p.renew(ShareEnded, es)
}

// set takes in a member entry.
func (p *peer) set(entry Peer, es *effects) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if entry.Incarnation < p.known.Incarnation || entry.Incarnation == p.known.Incarnation && p.known.State.ended() && p.known.Incarnation != 0 {
		return
	}
	renewed := entry.Incarnation != p.known.Incarnation || entry.State.ended()
	moved := entry.Address != p.known.Address
	p.known = entry
	if renewed {
		p.renew(ShareInDoubt, es)
	} else if moved {
		p.look()
	}
}

// renew ends the pair and begins the one of the two present lives. mu is held.
func (p *peer) renew(shares ShareOutcome, es *effects) {
	if old := p.pair; old != nil {
		p.pair = nil
		es.changed = es.changed || old.live.linked()
		es.waits = old.out.unwait(es.waits)
		old.fail(ErrEnded)
		for _, settled := range old.shares {
			es.calls = append(es.calls, func() { settled(shares) })
		}
		if p.link != nil {
			p.link.end(errEnded, true)
		}
	}
	if p.local != 0 && p.known.Incarnation != 0 && !p.known.State.ended() {
		p.pair = &pair{local: p.local, remote: p.known.Incarnation, out: outbox{limit: p.m.o.RingBytes}, live: liveness{timing: p.m.timing},
			releases: map[uint64]chan releaseAnswer{}, reports: map[uint64]chan reportAnswer{}, shares: map[uint64]func(ShareOutcome){}}
	}
	p.look()
}

func (p *peer) look() {
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

// admit looks at a life that the other end says it is in, and returns the pair with it. mu is held.
func (p *peer) admit(incarnation uint64, es *effects) (*pair, *refusal) {
	switch {
	case p.local == 0 || !p.m.o.MayAct():
		return nil, &refusal{code: refusedBusy, reason: fmt.Sprintf("replica %s does not serve now", p.m.o.Replica)}
	case p.known.Incarnation == 0:
		return nil, &refusal{code: refusedUnknown, reason: fmt.Sprintf("replica %s is not known to be a member", p.id)}
	case incarnation < p.known.Incarnation, incarnation == p.known.Incarnation && p.known.State.ended():
		return nil, &refusal{code: refusedEnded, reason: fmt.Sprintf("incarnation %d of replica %s is over", incarnation, p.id)}
	case incarnation > p.known.Incarnation:
		p.known.Incarnation, p.known.State = incarnation, Serving
		p.renew(ShareInDoubt, es)
	}
	return p.pair, nil
}

// establish makes l the pair's link.
func (p *peer) establish(l *link, resumed uint64) error {
	var es effects
	defer es.run(p.m)
	p.mu.Lock()
	defer p.mu.Unlock()
	pr := l.pair
	if p.pair != pr || !p.dials && pr.attempt != l.attempt {
		return errReplaced
	}
	waits, err := pr.out.resume(resumed, es.waits)
	es.waits = waits
	if err != nil {
		return err
	}
	now := p.m.now()
	l.heard.Store(int64(now))
	p.link, p.reason = l, ""
	before := pr.live.linked()
	pr.live.established(now)
	p.turn(before, "", &es)
	p.m.said.up(p.id)
	p.m.o.Logger.Info("mesh: link up", "peer", p.id, "incarnation", pr.remote, "version", l.version, "kept", pr.out.kept.len()+pr.out.fresh.len())
	return nil
}

// lostLink takes in that l has ended.
func (p *peer) lostLink(l *link) {
	var es effects
	defer es.run(p.m)
	p.mu.Lock()
	defer p.mu.Unlock()
	l.lost = true
	if p.pair != l.pair {
		return
	}
	p.reason = l.reason.Error()
	p.m.o.Logger.Warn("mesh: link down", "peer", p.id, "incarnation", l.pair.remote, "reason", p.reason)
	before := p.pair.live.linked()
	p.pair.live.lost(p.m.now(), l.final())
	p.turn(before, p.reason, &es)
}

// finishedLink makes room for the next link.
func (p *peer) finishedLink(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.link == l {
		p.link = nil
	}
}

// failed takes in that an attempt to link came to nothing.
func (p *peer) failed(err error) {
	var es effects
	defer es.run(p.m)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reason = err.Error()
	if p.pair == nil {
		return
	}
	before := p.pair.live.linked()
	p.pair.live.failed()
	p.turn(before, p.reason, &es)
}

func (p *peer) tick(now time.Duration, es *effects) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pr := p.pair
	if pr == nil {
		return
	}
	if p.link != nil {
		pr.live.heard = time.Duration(p.link.heard.Load())
	}
	before := pr.live.linked()
	oldest, waiting := pr.out.oldest()
	ping, silent := pr.live.tick(now, oldest, waiting)
	if l := p.link; l != nil {
		switch {
		case silent:
			l.end(errSilent, false)
		case ping:
			l.pingDue = true
			l.wake()
		}
	}
	p.turn(before, "nothing was acknowledged for "+p.m.timing.silence.String(), es)
}

// turn does what follows when the peer becomes linked or stops being linked. mu is held.
func (p *peer) turn(before bool, reason string, es *effects) {
	pr := p.pair
	after := pr.live.linked()
	if before == after {
		return
	}
	es.changed = true
	if after {
		return
	}
	if pr.live.state == linkUp {
		p.m.o.Logger.Warn("mesh: link too slow", "peer", p.id, "reason", reason, "bytes", pr.out.bytes)
	}
	es.waits = pr.out.unwait(es.waits)
	pr.out.own()
	pr.fail(ErrNotLinked)
	for _, call := range pr.out.takeBack() {
		pr.settle(call, ShareReturned, es)
	}
}

func (p *peer) current() *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.link
}
