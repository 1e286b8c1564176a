package mesh

import (
	"sync"
	"time"
)

// Status is what an operator sees.
type Status struct {
	Replica     string
	Incarnation uint64 // 0: this replica has no life now
	Address     string // of the listener
	Versions    Versions
	LinksUp     int
	// LinksExpected is how many links there ought to be: one to each other replica that
	// serves, and none while this one has no life.
	LinksExpected int
	// BufferedBytes are kept for all peers.
	BufferedBytes int
	Peers         []PeerStatus
}

// PeerStatus is one peer. The counters of values are since New.
type PeerStatus struct {
	Peer
	Up      bool   // there is a link
	Linked  bool   // outcomes wait for this peer
	Version uint64 // of the protocol, 0 without a link
	// Reason says why there is no link; empty with one.
	Reason               string
	BufferedFrames       int
	BufferedBytes        int
	SharesHeld           int // shares the peer has not settled
	Sent, Received, Lost uint64
	// Unreadable are values of the peer whose record could not be read.
	Unreadable uint64
}

// Status returns the present state.
func (m *Mesh) Status() Status {
	m.mu.Lock()
	s := Status{Replica: m.o.Replica, Incarnation: m.incarnation, Address: m.o.Listener.Addr().String(), Versions: m.o.Versions}
	m.mu.Unlock()
	for _, p := range m.peers.Load().list {
		p.mu.Lock()
		ps := PeerStatus{Peer: p.known, Reason: p.reason, Sent: p.sent.Load(), Received: p.received.Load(), Lost: p.lost.Load(), Unreadable: p.unreadable.Load()}
		if pr := p.pair; pr != nil {
			s.LinksExpected++
			ps.Linked = pr.live.linked()
			ps.BufferedBytes, ps.BufferedFrames = pr.out.bytes, pr.out.kept.len()+pr.out.fresh.len()
			ps.SharesHeld = len(pr.shares)
			if p.link != nil && !p.link.lost {
				ps.Up, ps.Version, ps.Reason = true, p.link.version, ""
				s.LinksUp++
			}
		}
		p.mu.Unlock()
		s.BufferedBytes += ps.BufferedBytes
		s.Peers = append(s.Peers, ps)
	}
	return s
}

// said keeps the log to what is new: a text is said again about something after a minute, or when another
// was said between. The zero value is ready.
type said struct {
	mu   sync.Mutex
	last map[string]saying
}

type saying struct {
	text string
	at   time.Time
}

const (
	sayAgain  = time.Minute
	saidTexts = 1024
)

func (s *said) anew(about, text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if l, ok := s.last[about]; ok && l.text == text && now.Sub(l.at) < sayAgain {
		return false
	}
	if s.last == nil || len(s.last) >= saidTexts {
		s.last = map[string]saying{}
	}
	s.last[about] = saying{text, now}
	return true
}

// up forgets what was said about a peer: its link stands.
func (s *said) up(about string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.last, about)
}
