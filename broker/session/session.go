package session

import (
	"maps"
	"slices"

	"maestrohub.io/uns/broker/topic"
	"maestrohub.io/uns/broker/value"
)

// Session is the state of one client identifier [MQTT-3.1.3-2].
type Session struct {
	// ClientID is the client identifier; Identity the API client that owns it;
	// Workspace that API client's workspace.
	ClientID, Identity, Workspace string
	// Persistent says that the session was made to outlive its connection, and is
	// therefore fed from its workspace's session log.
	Persistent bool
	// Expiry is the Session Expiry Interval in seconds in force for the present or
	// last connection; 0: the session ends with it.
	Expiry uint32
	// Position is the next sequence of the session log to look at.
	Position uint64
	// Missed counts values the log dropped before the session read them.
	Missed uint64

	Window  Window
	Inbound Inbound
	Queue   Queue

	subs map[string]*Subscription
}

// Subscribe adds sub or replaces the one with the identical filter
// [MQTT-3.8.4-3]; the replaced one is returned, nil if there was none. Since is
// kept over a replacement.
func (s *Session) Subscribe(sub *Subscription) (replaced *Subscription) {
	if replaced = s.subs[sub.Filter]; replaced != nil {
		sub.Since = replaced.Since
		if s.Persistent {
			sub.replace(replaced, s.Position)
		}
	}
	if s.subs == nil {
		s.subs = make(map[string]*Subscription)
	}
	s.subs[sub.Filter] = sub
	return replaced
}

// Unsubscribe deletes the subscription with exactly this filter and returns it;
// nil if there is none [MQTT-3.10.4-1].
func (s *Session) Unsubscribe(filter string) *Subscription {
	sub := s.subs[filter]
	delete(s.subs, filter)
	return sub
}

// Subscription returns the subscription with exactly this filter, or nil.
func (s *Session) Subscription(filter string) *Subscription { return s.subs[filter] }

// Subscriptions returns all subscriptions, ordered by filter.
func (s *Session) Subscriptions() []*Subscription {
	return slices.SortedFunc(maps.Values(s.subs), func(a, b *Subscription) int {
		if a.Filter < b.Filter {
			return -1
		}
		return 1
	})
}

// Len returns the number of subscriptions.
func (s *Session) Len() int { return len(s.subs) }

// Wants reports whether a subscription of the session matches the topic name.
func (s *Session) Wants(name string) bool {
	for _, sub := range s.subs {
		if topic.Match(sub.Bare, name) {
			return true
		}
	}
	return false
}

// Matching appends to dst the session's own subscriptions that match v, and the
// shared ones for which v names the session as the chosen member.
func (s *Session) Matching(dst []*Subscription, v *value.Value) []*Subscription {
	for _, sub := range s.subs {
		if sub.Share == "" && !v.Redirected && topic.Match(sub.Bare, v.Name) {
			dst = append(dst, sub)
		}
	}
	for _, share := range v.Shares {
		if share.Session != s.ClientID {
			continue
		}
		if sub := s.subs["$share/"+share.Key]; sub != nil {
			dst = append(dst, sub)
		}
	}
	return dst
}

// Room reports whether a delivery at this QoS may start now.
func (s *Session) Room(qos byte) bool { return qos == 0 || !s.Window.Full() }

// Detach drops what does not outlive a connection and returns the queued items
// that were dropped, so that a shared subscription's can be given to another
// member.
func (s *Session) Detach() (dropped []Item) { return s.Queue.Detach(s.Persistent) }
