package api

import (
	"context"
	"fmt"
	"net/http"
	"sync"
)

// shares divides places between those who are signed in: one client gets at most
// half of them and one workspace three quarters, each at least one, so that nobody
// keeps every other workspace out by being slow or many.
type shares struct {
	what                    string // what a place is for, in a refusal
	most, ofSpace, ofClient int
	mu                      sync.Mutex
	taken                   int            // guarded by mu, as what follows
	byWorkspace, byClient   map[string]int // without those that have none
	freed                   chan struct{}  // closed, and made anew, when a place is given back
}

func newShares(what string, most int) *shares {
	return &shares{what: what, most: most, ofSpace: max(1, 3*most/4), ofClient: max(1, most/2),
		byWorkspace: make(map[string]int), byClient: make(map[string]int), freed: make(chan struct{})}
}

// take takes a place for a caller, to be given back with free, or says who has too many.
func (s *shares) take(c caller) (free func(), refused *refusal) {
	free, refused, _ = s.try(c)
	return free, refused
}

// wait takes a place once there is one, until ctx ends.
func (s *shares) wait(ctx context.Context, c caller) (free func(), refused *refusal) {
	for {
		free, refused, freed := s.try(c)
		if refused == nil {
			return free, nil
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return nil, refused
		}
	}
}

func (s *shares) try(c caller) (free func(), refused *refusal, freed <-chan struct{}) {
	busy := func(n int, whose string) *refusal {
		return refuse(http.StatusServiceUnavailable, codeBusy, "%d %s%s, the most there may be at once", n, s.what, whose).after(retrySoon)
	}
	client, workspace := c.id(), c.workspace()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.byClient[client] >= s.ofClient:
		return nil, busy(s.ofClient, fmt.Sprintf(" for the client %q", client)), s.freed
	case s.byWorkspace[workspace] >= s.ofSpace:
		return nil, busy(s.ofSpace, fmt.Sprintf(" for the workspace %q", workspace)), s.freed
	case s.taken >= s.most:
		return nil, busy(s.most, ""), s.freed
	}
	s.taken++
	s.byClient[client]++
	s.byWorkspace[workspace]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.taken--
		giveBack(s.byClient, client)
		giveBack(s.byWorkspace, workspace)
		close(s.freed)
		s.freed = make(chan struct{})
	}, nil, nil
}

func giveBack(of map[string]int, who string) {
	if of[who]--; of[who] == 0 {
		delete(of, who)
	}
}
