package server

import (
	"context"
	"errors"
	"time"

	"maestrohub.io/uns/broker/access"
	"maestrohub.io/uns/broker/mqtt"
)

// recheckTimeout bounds one check; recheckRetry is the pause after one that
// found the store unavailable.
const (
	recheckTimeout = 10 * time.Second
	recheckRetry   = 2 * time.Second
)

// cover notes, for each subscription, whether the grants cover it whole. The
// lock is held.
func (c *connection) cover() {
	for _, sub := range c.session.Subscriptions() {
		sub.Covered = c.grants.ReadsAll(sub.Bare)
	}
}

// currentGrants returns the grants in force: what attach gave the connection, or
// the last check.
func (c *connection) currentGrants() *access.Grants {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.grants
}

// scheduleRecheck has the credential checked again ahead of its deadline, early
// enough for a few tries. The lock is held.
func (c *connection) scheduleRecheck() {
	deadline := c.grants.Deadline()
	if deadline.IsZero() {
		return
	}
	left := time.Until(deadline)
	c.recheck = c.server.agenda.add(time.Now().Add(left-min(left/5, 30*time.Second)), func() { go c.checkAgain() })
}

// checkAgain asks whether the credential still holds, and closes the connection
// if it does not, or if nobody can say by its deadline.
func (c *connection) checkAgain() {
	s := c.server
	c.lock.Lock()
	grants, ended := c.grants, c.ended || !c.attached
	c.lock.Unlock()
	if ended {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, recheckTimeout)
	defer cancel()
	renewed, err := s.options.Access.Recheck(ctx, grants)
	switch {
	case err == nil:
		c.lock.Lock()
		if !c.ended {
			s.agenda.cancel(c.recheck)
			c.grants = renewed
			c.cover()
			c.scheduleRecheck()
		}
		c.lock.Unlock()
	case errors.Is(err, access.ErrRefused):
		s.log.Info("embedded broker: session closed, its credential holds no longer", "client_id", c.client.id, "user", c.identity)
		c.close("revoked", mqtt.NotAuthorized, "credential revoked, disabled, rotated or expired")
	case s.ctx.Err() != nil:
	case !grants.Deadline().IsZero() && time.Now().After(grants.Deadline()):
		s.log.Warn("embedded broker: session closed, its credential could not be checked by its deadline", "client_id", c.client.id, "user", c.identity, "error", err)
		c.close("revoked", mqtt.ServerBusy, "the credential could not be checked by its deadline")
	default:
		c.lock.Lock()
		if !c.ended {
			s.agenda.cancel(c.recheck)
			c.recheck = s.agenda.add(time.Now().Add(recheckRetry), func() { go c.checkAgain() })
		}
		c.lock.Unlock()
	}
}

// followCredentials checks the connections of every API client that changes.
func (s *Server) followCredentials(ctx context.Context) {
	changes := s.options.Access.OnChange(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case id, ok := <-changes:
			if !ok {
				return
			}
			s.mu.Lock()
			open := make([]*connection, 0, len(s.credential[id]))
			for c := range s.credential[id] {
				open = append(open, c)
			}
			s.mu.Unlock()
			for _, c := range open {
				c.checkAgain()
			}
		}
	}
}
