package mesh

import (
	"context"
	"fmt"
)

// Release asks a life of a replica to let go of a client id, and waits until everything of that client is
// settled there. incarnation is the one of the owner record; 0 means the present one. Errors: ErrEnded when that life is over, ErrNotLinked when the
// replica is not linked or stopped being linked meanwhile, and the context's.
func (m *Mesh) Release(ctx context.Context, replica string, incarnation uint64, r Release) (Released, error) {
	answer := make(chan releaseAnswer, 1)
	p, pr, call, err := m.ask(replica, incarnation, r, answer)
	if err != nil {
		return Released{}, fmt.Errorf("release client id %q at replica %s: %w", r.ClientID, replica, err)
	}
	select {
	case a := <-answer:
		if a.err != nil {
			return Released{}, fmt.Errorf("release client id %q at replica %s: %w", r.ClientID, replica, a.err)
		}
		return a.released, nil
	case <-ctx.Done():
		p.mu.Lock()
		delete(pr.releases, call)
		p.mu.Unlock()
		return Released{}, fmt.Errorf("release client id %q at replica %s: %w", r.ClientID, replica, ctx.Err())
	}
}

func (m *Mesh) ask(replica string, incarnation uint64, r Release, answer chan releaseAnswer) (*peer, *pair, uint64, error) {
	return m.question(replica, incarnation, func(pr *pair, call uint64) entry {
		pr.releases[call] = answer
		return entry{kind: kindRelease, frame: appendRelease(nil, call, r)}
	})
}

// Report asks a replica what it says of itself: its Options.Report. Errors: ErrNotLinked when the replica is not linked or
// stopped being linked meanwhile, ErrEnded when its life is over, and the context's.
func (m *Mesh) Report(ctx context.Context, replica string) ([]byte, error) {
	answer := make(chan reportAnswer, 1)
	p, pr, call, err := m.question(replica, 0, func(pr *pair, call uint64) entry {
		pr.reports[call] = answer
		return entry{kind: kindReport, frame: appendNumber(nil, kindReport, call)}
	})
	if err != nil {
		return nil, fmt.Errorf("ask replica %s for a report: %w", replica, err)
	}
	select {
	case a := <-answer:
		if a.err != nil {
			return nil, fmt.Errorf("ask replica %s for a report: %w", replica, a.err)
		}
		return a.report, nil
	case <-ctx.Done():
		p.mu.Lock()
		delete(pr.reports, call)
		p.mu.Unlock()
		return nil, fmt.Errorf("ask replica %s for a report: %w", replica, ctx.Err())
	}
}

// question sends what put returns for the next call of the pair with a life of a replica; 0 means the present one.
func (m *Mesh) question(replica string, incarnation uint64, put func(pr *pair, call uint64) entry) (*peer, *pair, uint64, error) {
	p := m.peer(replica)
	if p == nil {
		return nil, nil, 0, ErrNotLinked
	}
	var es effects
	defer es.run(m)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch pr := p.pair; {
	case p.local == 0, incarnation != 0 && p.known.Incarnation > incarnation, p.known.State.ended() && p.known.Incarnation >= max(incarnation, 1):
		return nil, nil, 0, ErrEnded
	case pr == nil, pr.remote < incarnation, !pr.live.linked():
		return nil, nil, 0, ErrNotLinked
	}
	p.pair.calls++
	call := p.pair.calls
	p.push(put(p.pair, call), &es)
	return p, p.pair, call, nil
}

// SendShare sends a value for one member of a shared subscription. ErrNotLinked: not sent, choose another.
// Otherwise sent is called once, when the peer has it or is not waited for any more: the device's outcome need not wait longer. settled is
// called once with what became of it, however long that takes, and may overtake sent. Both come from a goroutine of the mesh, which they must not hold up.
func (m *Mesh) SendShare(replica string, s Share, sent func(), settled func(ShareOutcome)) error {
	p := m.peer(replica)
	if p == nil {
		return ErrNotLinked
	}
	var es effects
	defer es.run(m)
	p.mu.Lock()
	defer p.mu.Unlock()
	pr := p.pair
	if pr == nil || !pr.live.linked() {
		return ErrNotLinked
	}
	frame := appendShare(make([]byte, 0, estimate(s.Value)+len(s.Key)+len(s.Session)+16), pr.calls+1, &s)
	if len(frame) > headerBytes+maxPayload {
		return fmt.Errorf("share of topic %q: %d bytes, at most %d go over the mesh", s.Value.Name, len(frame), maxPayload)
	}
	pr.calls++
	w := &waiter{done: sent}
	w.left.Store(1)
	pr.shares[pr.calls] = settled
	p.push(entry{kind: kindShare, frame: frame, share: pr.calls, wait: w}, &es)
	return nil
}

// AnnounceReturning tells all linked peers that a CONNECT for a client id has arrived here.
func (m *Mesh) AnnounceReturning(clientID string) {
	frame := appendReturning(nil, clientID)
	for _, p := range m.peers.Load().list {
		var es effects
		p.mu.Lock()
		if p.pair != nil && p.pair.live.linked() {
			p.push(entry{kind: kindReturning, frame: frame}, &es)
		}
		p.mu.Unlock()
		es.run(m)
	}
}

// ReportApplied tells all peers how far this replica is. Only the newest report counts; those not linked
// get it when they are. Calls come one after the other, and after the Begin of the life they are about.
func (m *Mesh) ReportApplied(a Applied) {
	m.applied.Store(&a)
	for _, p := range m.peers.Load().list {
		if l := p.current(); l != nil {
			l.wake()
		}
	}
}

// answer sends a frame that answers one of pr, unless the pair has ended.
func (p *peer) answer(pr *pair, k kind, frame []byte) {
	var es effects
	p.mu.Lock()
	if p.pair == pr {
		p.push(entry{kind: k, frame: frame}, &es)
	}
	p.mu.Unlock()
	es.run(p.m)
}
