package jetstream

import (
	"context"
	"sync"

	"maestrohub.io/uns/broker/state"
)

// pages keeps messages of a log that were read lately, so that many sessions behind
// at about the same place cost one read of the store and not one each: after a
// replica's end, its devices come back together. Of readers that miss the same stretch
// at once, one reads and the others wait for it.
//
// Messages never change and only the oldest go, so a kept one is right unless the
// stream was made anew (forget).
type pages struct {
	most int // bytes

	mu      sync.Mutex // below
	held    map[uint64]kept
	order   []uint64 // as they came
	bytes   int
	reading map[uint64]chan struct{} // by stretch; closed when the read is over
}

// stretchMessages is how many messages are read for one reader and all who follow.
const stretchMessages = 256

func newPages(most int) *pages {
	return &pages{most: most, held: map[uint64]kept{}, reading: map[uint64]chan struct{}{}}
}

// get returns a message's entries.
func (p *pages) get(sequence uint64) (entries []state.Entry, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k, ok := p.held[sequence]
	return k.entries, ok
}

// put keeps a message, and lets go of the oldest beyond the bound.
func (p *pages) put(sequence uint64, entries []state.Entry, bytes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, there := p.held[sequence]; there {
		return
	}
	bytes += 64 * len(entries)
	p.held[sequence] = kept{entries, bytes}
	p.order = append(p.order, sequence)
	p.bytes += bytes
	n := 0
	for p.bytes > p.most && n < len(p.order)-1 {
		p.bytes -= p.held[p.order[n]].bytes
		delete(p.held, p.order[n])
		n++
	}
	p.order = p.order[n:]
}

func (p *pages) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.held)
	p.order, p.bytes = nil, 0
}

// enter makes the caller the one that reads the stretch a message is in; leave ends
// that. Otherwise it waits until the one that does is done, or ctx, and returns nil.
func (p *pages) enter(ctx context.Context, sequence uint64) (leave func()) {
	stretch := sequence / stretchMessages
	p.mu.Lock()
	over, busy := p.reading[stretch]
	if !busy {
		over = make(chan struct{})
		p.reading[stretch] = over
		p.mu.Unlock()
		return func() {
			p.mu.Lock()
			delete(p.reading, stretch)
			p.mu.Unlock()
			close(over)
		}
	}
	p.mu.Unlock()
	select {
	case <-over:
	case <-ctx.Done():
	}
	return nil
}
