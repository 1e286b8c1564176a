package simulation

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// steps counts the effects of an exchange, one by one: what leaves a host, what arrives at
// one, what is stored. After one of them it does something to the cluster, so that an
// exchange can be broken between any two.
type steps struct {
	mu    sync.Mutex
	armed bool
	said  []string
	after int                 // effects; 0: before the first, as soon as it is armed
	do    func(said []string) // once, with the effects until then
}

// arm begins counting.
func (s *steps) arm() {
	s.mu.Lock()
	s.armed = true
	do := s.due()
	said := slices.Clone(s.said)
	s.mu.Unlock()
	if do != nil {
		do(said)
	}
}

// disarm ends it; what was to be done and was not is not done any more.
func (s *steps) disarm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed = false
}

// due returns what is to be done now. The lock is held.
func (s *steps) due() (do func(said []string)) {
	if s.armed && len(s.said) >= s.after {
		do, s.do = s.do, nil
	}
	return do
}

// all are the effects counted so far, and whether it has been done.
func (s *steps) all() (said []string, done bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.said), s.do == nil
}

// broken reports whether it has been done.
func (s *steps) broken() bool {
	_, done := s.all()
	return done
}

// effect notes one effect and does what is to be done after it. It is called by whoever
// had the effect, with no lock of the network or of a process held.
func (w *world) effect(format string, args ...any) {
	s := w.steps.Load()
	if s == nil {
		return
	}
	s.mu.Lock()
	if !s.armed {
		s.mu.Unlock()
		return
	}
	text := fmt.Sprintf(format, args...)
	s.said = append(s.said, text)
	do := s.due()
	var said []string
	if do != nil {
		said = slices.Clone(s.said)
	}
	s.mu.Unlock()
	if do != nil {
		w.trace.say("! after: %s", text)
		do(said)
	}
}

// left counts what has left a replica for the store.
func (w *world) left(client, purpose string, lease bool) {
	if !lease && strings.HasPrefix(purpose, "write mqtt-session") || strings.HasPrefix(purpose, "append") {
		w.effect("%s of %s leaves", purpose, client)
	}
}

// appended counts what has landed in a session log.
func (w *world) appended(client, _ string, first uint64, records [][]byte) {
	w.effect("%d records of %s land in the session log at %d", len(records), client, first)
}
