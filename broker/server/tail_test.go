package server

import (
	"context"
	"testing"

	"maestrohub.io/uns/broker/metrics"
	"maestrohub.io/uns/broker/session"
	"maestrohub.io/uns/broker/state"
)

// silentLog is a log that has dropped everything before its first entry, and says so
// when it is let.
type silentLog struct {
	state.Log
	first uint64
	asked chan struct{}
	says  chan struct{}
}

func (l silentLog) Bounds(context.Context) (first, last uint64, err error) {
	l.asked <- struct{}{}
	<-l.says
	return l.first, l.first, nil
}

// The lanes take the locks of a session and of its feed to deliver, the agenda to keep
// time, and a fence to close the connection: none of them may wait for a store that does
// not answer.
func TestTheStoreIsAskedWhatItDroppedWithoutALock(t *testing.T) {
	for name, ended := range map[string]bool{"the session goes on": false, "its connection ends meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			log := silentLog{first: 7, asked: make(chan struct{}), says: make(chan struct{})}
			f := &feed{log: log, next: 9}
			s := &Server{ctx: t.Context(), metrics: metrics.New(), agenda: newAgenda()}
			cl := &client{id: "behind"}
			c := &connection{server: s, client: cl, lock: &cl.lock, session: &session.Session{Persistent: true, Position: 3}, pumping: true}
			over := make(chan bool, 1)
			go func() { over <- c.reachTail(f) }()
			<-log.asked
			if !f.mu.TryLock() {
				t.Error("the feed waits for the store")
			} else {
				f.mu.Unlock()
			}
			if !cl.lock.TryLock() {
				t.Fatal("the client's lock waits for the store")
			}
			c.ended = ended
			cl.lock.Unlock()
			close(log.says)
			got, at, missed := <-over, c.session.Position, c.session.Missed
			if ended && (!got || c.pumping || at != 3 || missed != 0) {
				t.Errorf("over %v, pumping %v, at %d with %d missed; the session is not this connection's any more", got, c.pumping, at, missed)
			}
			if !ended && (got || at != 7 || missed != 4) {
				t.Errorf("over %v, at %d with %d missed; want more to read at 7, with 4 missed", got, at, missed)
			}
		})
	}
}
