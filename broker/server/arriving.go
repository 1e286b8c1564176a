package server

import (
	"sync"
	"time"

	"maestrohub.io/uns/broker/retained"
	"maestrohub.io/uns/broker/topic"
	"maestrohub.io/uns/broker/value"
)

// arriving holds the retained values of a workspace whose live copies have left and
// which the retained store may not have yet. A subscription made in between is not
// among those the live copy went to, and would find nothing in the store: it is given
// the value from here [MQTT-3.3.1-9].
//
// A value without payload stands for the deletion of its topic's message.
type arriving struct {
	store *retained.Retained
	// longest is how long a value may be on its way; one that is not there by then was
	// refused.
	longest time.Duration

	mu     sync.Mutex              // before the store's
	byName map[string]*value.Value // the newest of each topic
	queue  []arrival               // in the order they left
}

type arrival struct {
	value *value.Value
	at    time.Time
}

// add notes a value. It comes before the value is matched with subscriptions: one
// made after that finds it here.
func (a *arriving) add(v *value.Value) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.prune()
	if a.byName == nil {
		a.byName = make(map[string]*value.Value)
	}
	a.byName[v.Name] = v
	a.queue = append(a.queue, arrival{v, time.Now()})
}

// match returns the retained messages that a filter matches, from here and from the
// store.
func (a *arriving) match(filter string) []*value.Value {
	// First what is here: what leaves from here meanwhile is in the store.
	newer := make(map[string]*value.Value)
	a.mu.Lock()
	a.prune()
	for name, v := range a.byName {
		if topic.Match(filter, name) {
			newer[name] = v
		}
	}
	a.mu.Unlock()
	var found []*value.Value
	a.store.Match(filter, func(v *value.Value) bool {
		if n := newer[v.Name]; n == nil || n.Position <= v.Position {
			delete(newer, v.Name)
			found = append(found, v)
		}
		return true
	})
	now := time.Now().UnixNano()
	for _, v := range newer {
		if len(v.Payload) > 0 && !v.Expired(now) {
			found = append(found, v)
		}
	}
	return found
}

// prune forgets what has arrived or been replaced, from the oldest on. mu is held.
func (a *arriving) prune() {
	n := 0
	for ; n < len(a.queue); n++ {
		v := a.queue[n].value
		if a.byName[v.Name] == v {
			if !a.arrived(v) && time.Since(a.queue[n].at) < a.longest {
				break
			}
			delete(a.byName, v.Name)
		}
		a.queue[n] = arrival{}
	}
	a.queue = a.queue[n:]
	if len(a.queue) == 0 {
		a.queue, a.byName = nil, nil
	}
}

// arrived reports whether the store has the value, or had it: a later one may have
// taken its place, or removed it.
func (a *arriving) arrived(v *value.Value) bool { return a.store.Reached(v.Name, v.Position) }
