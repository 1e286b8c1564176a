package replica

import (
	"sync"
	"time"
)

// passwordOverlap is how long the password from before a renewal is still tried: servers take the new one into use up
// to some minutes before or after this replica sees it.
const passwordOverlap = 15 * time.Minute

// passwords gives the password for each attempt to sign in to NATS: the file's, and for some time after that has
// changed, in turns with it, the one before. So neither the servers nor the replicas have to be first.
type passwords struct {
	now func() string // the file's

	mu      sync.Mutex // taken under the NATS client's
	current string
	earlier string
	changed time.Time
	turn    bool // the earlier one's
}

func (p *passwords) next() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := p.now(); now != p.current {
		p.earlier, p.current, p.changed, p.turn = p.current, now, time.Now(), false
	}
	if p.earlier == "" || time.Since(p.changed) > passwordOverlap {
		return p.current
	}
	p.turn = !p.turn
	if p.turn {
		return p.current
	}
	return p.earlier
}
