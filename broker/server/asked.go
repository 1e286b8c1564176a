package server

import (
	"context"
	"slices"
	"time"

	"maestrohub.io/uns/broker/session"
	"maestrohub.io/uns/broker/value"
)

// asked is a SUBSCRIBE under way, and what it has to do with retained messages.
//
// They are those this replica knows of, so a SUBACK waits until it knows of every one
// that was acknowledged before the other replicas knew of the subscription: what they
// acknowledge from then on comes as a live copy. While NATS is slow the SUBACK leaves before
// that, for a time neither comes, and what has turned up is sent as soon as this replica
// has caught up.
type asked struct {
	c       *connection
	sent    map[string]uint64 // the newest position sent of each topic, but as retained
	landing []<-chan struct{} // its routes
	late    bool              // not known everywhere when the SUBACK left
	behind  bool              // retained messages may have been unknown here then

	subs    []*session.Subscription
	offered []map[string]uint64 // as retained, by subscription
}

// noteSent begins a SUBSCRIBE, until over.
func (c *connection) noteSent() *asked {
	a := &asked{c: c, sent: make(map[string]uint64)}
	c.lock.Lock()
	defer c.lock.Unlock()
	c.client.asking = append(c.client.asking, a)
	return a
}

// note takes down what is sent while a SUBSCRIBE is under way or late. The lock is held.
func (c *connection) note(v *value.Value) {
	for _, a := range c.client.asking {
		a.sent[v.Name] = max(a.sent[v.Name], v.Position)
	}
}

// sendRetained sends the retained messages a new subscription matches.
func (a *asked) sendRetained(sub *session.Subscription) {
	c := a.c
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.ended {
		return
	}
	offered := make(map[string]uint64)
	for _, v := range c.offerRetained(sub, "", ^uint64(0), a.sent) {
		offered[v.Name] = v.Position
	}
	a.subs, a.offered = append(a.subs, sub), append(a.offered, offered)
	if c.clustered() && c.session.Queue.Blocked(1) {
		c.record(&c.held.cursor, nil) // whoever resumes the session goes on with what waits
	}
}

// over ends the SUBSCRIBE, at once or, where it was late, when this replica has caught up.
func (a *asked) over() {
	// What others acknowledge before they know of a persistent session's is in its log.
	if (!a.late || a.c.session.Persistent) && !a.behind || len(a.subs) == 0 {
		a.forget()
		return
	}
	a.c.server.background(func(ctx context.Context) {
		defer a.forget()
		if a.caughtUp(ctx) {
			a.sendMissed()
		}
	})
}

func (a *asked) forget() {
	c := a.c
	c.lock.Lock()
	defer c.lock.Unlock()
	c.client.asking = slices.DeleteFunc(c.client.asking, func(other *asked) bool { return other == a })
}

// caughtUp waits until what others acknowledged before they knew of the routes is known
// here; false if the connection ends first.
func (a *asked) caughtUp(ctx context.Context) bool {
	c := a.c
	for _, landed := range a.landing {
		select {
		case <-landed:
		case <-c.settled:
			return false
		case <-ctx.Done():
			return false
		}
	}
	sh := c.server.shared
	routes := sh.own.revision()
	for !sh.awaitReports(ctx, reportsWait, false, func(r report) bool { return r.applied.Routes >= routes }) {
		select {
		case <-c.settled:
			return false
		case <-ctx.Done():
			return false
		default:
		}
	}
	for c.server.options.Retained.CatchUp(ctx) != nil {
		select {
		case <-time.After(routeRetry):
		case <-c.settled:
			return false
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// sendMissed sends the retained messages that have turned up since the SUBACK.
func (a *asked) sendMissed() {
	c := a.c
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.ended {
		return
	}
	for i, sub := range a.subs {
		if c.session.Subscription(sub.Filter) == sub {
			c.offerRetained(sub, "", ^uint64(0), a.sent, a.offered[i])
		}
	}
	c.start()
}
