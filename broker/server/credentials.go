package server

import (
	"context"
	"errors"
	"time"

	"maestrohub.io/uns/broker/access"
	"maestrohub.io/uns/broker/mqtt"
)

// recheckTimeout bounds one check; recheckRetry is the longest pause after one that
// found the store unavailable. changesAtOnce is how many API clients that changed are
// looked up at a time.
const (
	recheckTimeout = 10 * time.Second
	recheckRetry   = 2 * time.Second
	changesAtOnce  = 16
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
	grants := c.checkedGrants()
	if grants == nil {
		return
	}
	wait := recheckTimeout
	if d := grants.Deadline(); !d.IsZero() {
		if left := time.Until(d); left > 0 {
			wait = min(wait, left)
		} else {
			wait = recheckRetry // wsRevocationSLA is shorter than the store takes
		}
	}
	ctx, cancel := context.WithTimeout(s.ctx, wait)
	defer cancel()
	standing, err := s.options.Access.Standing(ctx, grants.ClientID())
	c.judge(grants, standing, err)
}

// checkedGrants are those to be checked; nil if the connection is none any more, or not yet.
func (c *connection) checkedGrants() *access.Grants {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.ended || !c.attached {
		return nil
	}
	return c.grants
}

// judge takes in what the store says of the API client whose grants the connection had.
func (c *connection) judge(grants *access.Grants, standing *access.Standing, err error) {
	s := c.server
	var renewed *access.Grants
	if err == nil {
		renewed, err = standing.Renew(grants)
	}
	again := func(after time.Duration) {
		c.lock.Lock()
		defer c.lock.Unlock()
		if !c.ended {
			s.agenda.cancel(c.recheck)
			c.recheck = s.agenda.add(time.Now().Add(after), func() { go c.checkAgain() })
		}
	}
	deadline := grants.Deadline()
	switch {
	case err == nil:
		c.lock.Lock()
		// Of two checks at once the one that asked later knows more.
		if !c.ended && !renewed.Deadline().Before(c.grants.Deadline()) {
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
	case deadline.IsZero():
		again(recheckRetry)
	case !time.Now().Before(deadline):
		s.log.Warn("embedded broker: session closed, its credential could not be checked by its deadline", "client_id", c.client.id, "user", c.identity, "error", err)
		c.close("revoked", mqtt.ServerBusy, "the credential could not be checked by its deadline")
	default:
		again(min(recheckRetry, time.Until(deadline)/2))
	}
}

// followCredentials checks the connections of every API client that changes: the store is
// asked once for all of them, and one client that it does not answer for keeps no other
// waiting.
func (s *Server) followCredentials(ctx context.Context) {
	slots := make(chan struct{}, changesAtOnce)
	for id := range s.options.Access.OnChange(ctx) {
		s.mu.Lock()
		open := make([]*connection, 0, len(s.credential[id]))
		for c := range s.credential[id] {
			open = append(open, c)
		}
		s.mu.Unlock()
		if len(open) == 0 {
			continue
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		s.background(func(ctx context.Context) {
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeout(ctx, recheckTimeout)
			defer cancel()
			standing, err := s.options.Access.Standing(ctx, id)
			for _, c := range open {
				if grants := c.checkedGrants(); grants != nil {
					c.judge(grants, standing, err)
				}
			}
		})
	}
}
