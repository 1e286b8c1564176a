package server

import (
	"time"

	"maestrohub.io/uns/broker/access"
	"maestrohub.io/uns/broker/ingest"
	"maestrohub.io/uns/broker/mqtt"
)

// waitingWill is the Last Will of a connection that was lost, until its delay is
// over or the session ends [MQTT-3.1.2-8].
type waitingWill struct {
	will   *mqtt.Will
	grants *access.Grants
	client string
	task   *task
}

// loseWill decides what becomes of the will of a connection that ended other
// than properly: sent at once, or after its delay. ends says that the session
// ends with the connection. The lock is held; the returned function runs without.
func (c *connection) loseWill(e ending, ends bool) (after func()) {
	s, cl := c.server, c.client
	w := &waitingWill{will: c.will, grants: c.grants, client: cl.id}
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

// publishWill sends a will through the same chain as every value.
func (s *Server) publishWill(w *waitingWill) {
	s.metrics.WillsPublished.Inc()
	s.ingest.Publish(ingest.Publish{
		Name: w.will.Topic, QoS: w.will.QoS, Payload: w.will.Payload, Properties: w.will.Properties,
		Expiry: w.will.MessageExpiry, HasExpiry: w.will.HasExpiry,
		ClientID: w.client, Grants: w.grants, Done: willOutcome{s, w},
	})
}

// willOutcome reports a will that the chain refused: nobody else would.
type willOutcome struct {
	server *Server
	will   *waitingWill
}

// Complete implements ingest.Completion.
func (o willOutcome) Complete(_ uint64, out ingest.Outcome) {
	if out.Refusal != 0 {
		o.server.metrics.WillsRefused.Inc()
		o.server.log.Warn("embedded broker: a Last Will was refused", "client_id", o.will.client,
			"topic", o.will.will.Topic, "reason", out.Refusal.Reason(), "detail", out.Detail)
	}
}

// Flush implements ingest.Completion.
func (willOutcome) Flush() {}
