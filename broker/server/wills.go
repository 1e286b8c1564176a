package server

import (
	"context"
	"time"

	"maestrohub.io/uns/broker/cluster"
)

// waitingWill is the Last Will of a connection that was lost, until its delay is
// over or the session ends [MQTT-3.1.2-8].
type waitingWill struct {
	will *cluster.Will
	task *task
}

// loseWill decides what becomes of the will of a connection that ended other
// than properly: sent at once, or after its delay. ends says that the session
// ends with the connection. The lock is held; the returned function runs without.
func (c *connection) loseWill(e ending, ends bool) (after func()) {
	s, cl := c.server, c.client
	w := &waitingWill{will: &cluster.Will{Client: cl.id, Connection: cluster.NewID(), Identity: c.identity, Workspace: c.ws.slug, Delay: c.will.Delay,
		Topic: c.will.Topic, Payload: c.will.Payload, QoS: c.will.QoS, MessageExpiry: c.will.MessageExpiry, HasExpiry: c.will.HasExpiry, Properties: c.will.Properties}}
	switch {
	case s.stopping.Load():
		// The device did not leave: we do.
		s.metrics.WillsWithheld.Inc()
		return func() {}
	case e.taken && w.will.Delay > 0 && !e.clean && !ends:
		// The session goes on under another connection [MQTT-3.1.3-9].
		return func() {}
	case e.taken, ends, w.will.Delay == 0:
		return func() { s.publishWill(w) }
	}
	delay := min(w.will.Delay, c.session.Expiry)
	cl.will = w
	w.task = s.agenda.add(time.Now().Add(time.Duration(delay)*time.Second), func() { go s.sendWill(cl, w) })
	return func() {}
}

// sendWill sends the client's waiting will, if it is w or w is nil.
func (s *Server) sendWill(cl *client, w *waitingWill) {
	cl.lock.Lock()
	waiting := cl.will
	if waiting == nil || w != nil && waiting != w {
		cl.lock.Unlock()
		return
	}
	cl.will = nil // [MQTT-3.1.2-10]
	s.agenda.cancel(waiting.task)
	cl.lock.Unlock()
	s.publishWill(waiting)
	s.forget(cl)
}

// cancelWill takes away the waiting will of a client that is back, and returns it;
// nil if there is none. The lock is held.
func (s *Server) cancelWill(cl *client) *waitingWill {
	will := cl.will
	if will != nil {
		s.agenda.cancel(will.task)
		cl.will = nil
	}
	return will
}

// publishWill sends a will through the same chain as every value: it is in the chain
// when this returns, ahead of what its client sends next. What the chain cannot take now
// it is offered again, until it is stored, refused for good, or the server stops.
func (s *Server) publishWill(w *waitingWill) {
	w.will.Timestamp = time.Now().UnixNano()
	outcome, err := s.offerWill(s.ctx, w.will)
	s.background(func(ctx context.Context) {
		if err == nil {
			err = s.awaitWill(ctx, w.will, outcome)
		}
		if s.countWill(err) {
			s.sendWillNow(ctx, w.will)
		}
	})
}
