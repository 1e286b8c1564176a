package simulation

import (
	"context"
	"fmt"
	"strings"
	"time"

	"maestrohub.io/uns/broker/access"
	"maestrohub.io/uns/tests/simulation/store"
)

// guest is an API client that operators take rights from, and give them back.
const guest = "guest"

// guestMay is the guest's entry in clients.yaml: it may read all values, or, narrow, those
// of one topic of each publisher.
func guestMay(narrow bool) []byte {
	reads := "v/#"
	if narrow {
		reads = "v/+/a"
	}
	return fmt.Appendf(nil, "clients:\n  - {id: %s, workspace: %s, secret: %s, publish: [], subscribe: [%q]}\n", guest, workspace, secret, reads)
}

// revocation is a time during which the guest may do less.
type revocation struct {
	kind     string
	from, to time.Time // when it was written, when it was about to be undone; zero: not yet
}

// revoke takes rights from the guest and returns what gives them back; nil if they are
// taken already. The operator's store is honest.
func (w *world) revoke(kind string) (restore func()) {
	w.mu.Lock()
	for _, r := range w.revoked {
		if r.kind == kind && r.to.IsZero() {
			w.mu.Unlock()
			return nil
		}
	}
	r := &revocation{kind: kind}
	w.revoked = append(w.revoked, r)
	w.mu.Unlock()
	operate := func(do func(ctx context.Context, a *access.Access) error) {
		c := w.server.Client("operator", store.Lies{})
		defer c.Close()
		ctx := context.Background()
		a, err := access.Open(ctx, c, access.Options{})
		if err == nil {
			err = do(ctx, a)
			a.Close()
		}
		if err != nil {
			w.violate("%s: %v", kind, err)
		}
	}
	taken := func(ctx context.Context, a *access.Access) error { return a.Disable(ctx, guest) }
	given := func(ctx context.Context, a *access.Access) error { return a.Enable(ctx, guest) }
	if kind != "disable guest" {
		taken = func(ctx context.Context, a *access.Access) error { return a.Seed(ctx, guestMay(true)) }
		given = func(ctx context.Context, a *access.Access) error { return a.Seed(ctx, guestMay(false)) }
	}
	operate(taken)
	r.from = time.Now()
	return func() {
		w.mu.Lock()
		r.to = time.Now()
		w.mu.Unlock()
		operate(given)
	}
}

// revocationWithin is when a revocation has come everywhere: the mission's bound of a
// minute, and as long as a read of the store may lag. A replica whose server is alone is
// asked for more: that answers reads for as long as it lives here, and 8 s where it was
// measured.
const revocationWithin = time.Minute + 5*time.Second

// concerns reports whether a value is among those the guest may not have then.
func (r *revocation) concerns(topic string) bool {
	return r.kind == "disable guest" || !strings.HasSuffix(topic, "/a")
}

// checkRevoked: what the guest may not have does not come to it any more.
func (w *world) checkRevoked(s *subscriber) {
	if s.user != guest {
		return
	}
	for topic, list := range s.arrivals {
		for _, a := range list {
			for _, r := range w.revoked {
				if !r.concerns(topic) || !a.sent.After(r.from.Add(revocationWithin)) || !r.to.IsZero() && !a.sent.Before(r.to) {
					continue
				}
				if w.alone(a.node, r.from.Add(-heals), a.sent) {
					w.counted.RevokedExcused++
					continue
				}
				w.violate("%s: %s %d was sent by %s at %s, %v after the %s at %s", s.id, topic, a.number, a.node.name, w.trace.since(a.sent), a.sent.Sub(r.from), r.kind, w.trace.since(r.from))
			}
		}
		w.counted.Revoked += len(list)
	}
}

// alone reports whether a replica's server was, within a time.
func (w *world) alone(n *node, from, to time.Time) bool {
	for _, f := range w.faults {
		if f.kind == "isolate shared" && w.nodes[f.a] == n && w.within(f, from, to) {
			return true
		}
	}
	return false
}

// withheld reports whether a value may be kept from a subscriber for want of permission:
// it came, or was still on its way, when its reading was narrowed. What a disabled one
// misses it gets when it is back, if its session stays.
func (w *world) withheld(s *subscriber, v *sending) bool {
	if s.user != guest {
		return false
	}
	for _, r := range w.revoked {
		if r.concerns(v.topic) && (r.kind != "disable guest" || s.clean) && (r.to.IsZero() || v.first.Before(r.to.Add(revocationWithin))) {
			return true
		}
	}
	return false
}

// checkFickle: what is sent after an UNSUBACK, and was in no log by the next SUBSCRIBE,
// does not come.
func (w *world) checkFickle(s *subscriber) {
	for i, p := range s.spans {
		if p.over.IsZero() {
			continue
		}
		again := s.asking
		if i+1 < len(s.spans) {
			again = s.spans[i+1].asked
		}
		for topic, list := range s.arrivals {
			sent := w.publisherOf(topic).sent
			for _, a := range list {
				v := sent[a.number-1]
				if v.first.After(p.over) && (again.IsZero() || !v.acked.IsZero() && v.acked.Before(again.Add(-sinceLags))) {
					w.violate("%s: %s %d was sent at %s, after the UNSUBACK at %s, and came at %s; subscribed again at %s", s.id, topic, a.number, w.trace.since(v.first), w.trace.since(p.over), w.trace.since(a.at), w.trace.since(again))
				}
			}
			w.counted.Unsubscribed++
		}
	}
}

// sinceLags is how far the position a subscription begins at may be behind the log: what a
// replica knows of it without asking.
const sinceLags = 45 * time.Second
