package mesh

import (
	"context"
	"fmt"
	"sort"
	"sync"
	"sync/atomic"
	"time"
)

// Mesh is one replica's end of all its links.
type Mesh struct {
	o      Options
	timing *timing
	epoch  time.Time
	ctx    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup
	said   said

	peers   atomic.Pointer[peers]
	applied atomic.Pointer[Applied]

	// mu orders Begin, End, SetPeer and Close among each other. It comes before any peer's lock.
	mu          sync.Mutex
	incarnation uint64
	closed      bool
}

// peers is never changed, only replaced.
type peers struct {
	list []*peer // by id
	byID map[string]*peer
}

// New starts listening. There are no links before Begin. The error names what is missing.
func New(o Options) (*Mesh, error) {
	switch {
	case o.Replica == "":
		return nil, fmt.Errorf("mesh: a replica id is needed")
	case o.Listener == nil || o.Identity == nil || o.MayAct == nil || o.Handler == nil:
		return nil, fmt.Errorf("mesh: Listener, Identity, MayAct and Handler are needed")
	case o.Versions.Min > o.Versions.Max:
		return nil, fmt.Errorf("mesh: versions %d to %d: the lowest must be <= the highest", o.Versions.Min, o.Versions.Max)
	}
	o = o.withDefaults()
	if i := o.Identity(); len(i.Certificate.Certificate) == 0 || i.Certificate.PrivateKey == nil {
		return nil, fmt.Errorf("mesh: a certificate with its key is needed")
	}
	m := &Mesh{o: o, timing: o.timing, epoch: time.Now()}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	m.peers.Store(&peers{byID: map[string]*peer{}})
	m.tasks.Go(m.accept)
	m.tasks.Go(m.tick)
	return m, nil
}

// now is the time since New, on the monotonic clock.
func (m *Mesh) now() time.Duration { return time.Since(m.epoch) }

// Begin says that a life of this replica has begun: at the start and after each fence, once its member
// entry has landed. incarnation is its number, at least 1 and higher than every one before; another Begin
// with it does nothing. It ends the life before.
func (m *Mesh) Begin(incarnation uint64) {
	m.begin(incarnation)
}

// End says that this replica's life is over, at the fence: links close, what was kept is dropped, what
// waits is told. Peers stay known for the next Begin.
func (m *Mesh) End() { m.begin(0) }

func (m *Mesh) begin(incarnation uint64) {
	m.mu.Lock()
	if m.closed && incarnation != 0 || m.incarnation == incarnation {
		m.mu.Unlock()
		return
	}
	m.incarnation = incarnation
	m.applied.Store(nil)
	var es effects
	for _, p := range m.peers.Load().list {
		p.live(incarnation, &es)
	}
	m.mu.Unlock()
	es.run(m)
}

// SetPeer says what a member entry says: call it for each and whenever one changes, in any order. An entry of an
// earlier life than known is ignored, and so is one of a life that was said to have ended.
func (m *Mesh) SetPeer(entry Peer) {
	if entry.Replica == m.o.Replica {
		return
	}
	var es effects
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return
	}
	p := m.peer(entry.Replica)
	if p == nil {
		p = newPeer(m, entry.Replica, m.incarnation)
		old := m.peers.Load()
		next := &peers{list: append(append([]*peer(nil), old.list...), p), byID: map[string]*peer{p.id: p}}
		sort.Slice(next.list, func(i, j int) bool { return next.list[i].id < next.list[j].id })
		for id, p := range old.byID {
			next.byID[id] = p
		}
		m.peers.Store(next)
		if p.dials {
			m.tasks.Go(p.dial)
		}
	}
	p.set(entry, &es)
	m.mu.Unlock()
	es.run(m)
}

func (m *Mesh) peer(id string) *peer { return m.peers.Load().byID[id] }

// Linked returns the peers that outcomes wait for, by replica id.
func (m *Mesh) Linked() []Peer {
	var linked []Peer
	for _, p := range m.peers.Load().list {
		p.mu.Lock()
		if p.pair != nil && p.pair.live.linked() {
			linked = append(linked, p.known)
		}
		p.mu.Unlock()
	}
	return linked
}

// tick moves what depends on time.
func (m *Mesh) tick() {
	t := time.NewTicker(m.timing.tick)
	defer t.Stop()
	for {
		select {
		case <-m.ctx.Done():
			return
		case <-t.C:
		}
		for _, p := range m.peers.Load().list {
			var es effects
			p.tick(m.now(), &es)
			es.run(m)
		}
	}
}

// Close says goodbye to the peers, with the answers already given before it, and ends everything.
func (m *Mesh) Close() {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return
	}
	m.closed = true
	m.mu.Unlock()
	m.o.Listener.Close()
	for _, p := range m.peers.Load().list {
		if l := p.current(); l != nil {
			l.end(errStops, true)
		}
	}
	for _, p := range m.peers.Load().list {
		if l := p.current(); l != nil {
			select {
			case <-l.finished:
			case <-time.After(m.timing.mend): // its Handler call has not returned; the wait below has no bound
			}
		}
	}
	m.End()
	m.cancel()
	m.tasks.Wait()
}
