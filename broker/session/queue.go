package session

import (
	"slices"

	"maestrohub.io/uns/broker/value"
)

// Item is one delivery that waits for room in the socket or in the window.
type Item struct {
	Value  *value.Value
	Effect Effect
	Source Source
	// Position in the session log, for FromLog.
	Position uint64
	// Share is the key of the shared subscription the delivery is for; "" if none.
	Share string
	// Of is what a retained message is one of, for FromRetained.
	Of *Retained
	// Settled, if not nil, is told whether the client has taken a shared message that
	// another replica chose it for.
	Settled func(taken bool)
	order   uint64
}

// Retained are the retained messages one SUBSCRIBE found for one of its filters. They
// are sent in the order of their topics.
type Retained struct {
	Filter string
	// Newest is the newest position among them: a message beyond it replaced one of them
	// later, and comes by itself.
	Newest uint64
}

// Settle tells the replica that chose this member for a shared message whether the
// client has it, or it is nobody's.
func (it *Item) Settle(taken bool) {
	if it.Settled != nil {
		it.Settled(taken)
	}
}

// Queue holds what is fed live to one session and cannot be sent yet. QoS 0
// waits for the socket only and so does not wait behind QoS 1 and 2, which wait
// for the window as well [MQTT-3.3.4-10]; each keeps its own order.
type Queue struct {
	// Limit is the most items the queue holds (maxSubscriberQueue).
	Limit    int
	zero     fifo
	acked    fifo
	sequence uint64
}

// Push adds an item at the end. If the queue is full its oldest item is dropped
// and returned, with dropped true.
func (q *Queue) Push(it Item) (oldest Item, dropped bool) {
	q.sequence++
	it.order = q.sequence
	if it.Effect.QoS == 0 {
		q.zero.push(it)
	} else {
		q.acked.push(it)
	}
	if q.zero.len()+q.acked.len() <= q.Limit {
		return Item{}, false
	}
	if q.acked.len() == 0 || q.zero.len() > 0 && q.zero.head().order < q.acked.head().order {
		return q.zero.pop(), true
	}
	return q.acked.pop(), true
}

// Pop takes the next item to send: of the oldest first, one at QoS 1 or 2 only
// if window says that there is room for it.
func (q *Queue) Pop(window bool) (it Item, ok bool) {
	zero, acked := q.zero.len() > 0, window && q.acked.len() > 0
	switch {
	case zero && (!acked || q.zero.head().order < q.acked.head().order):
		return q.zero.pop(), true
	case acked:
		return q.acked.pop(), true
	}
	return Item{}, false
}

// Len returns the number of waiting items.
func (q *Queue) Len() int { return q.zero.len() + q.acked.len() }

// Blocked reports whether a new item at this QoS has to queue behind others.
func (q *Queue) Blocked(qos byte) bool {
	if qos == 0 {
		return q.zero.len() > 0
	}
	return q.acked.len() > 0
}

// Retained calls yield with the first waiting message at QoS 1 or 2 of each Retained.
func (q *Queue) Retained(yield func(it *Item)) {
	var seen []*Retained
	for i := range q.acked.n {
		it := &q.acked.items[(q.acked.first+i)%len(q.acked.items)]
		if it.Of != nil && !slices.Contains(seen, it.Of) {
			seen = append(seen, it.Of)
			yield(it)
		}
	}
}

// Detach empties the queue of what does not outlive a connection and returns it:
// everything, but for what a persistent session was given at QoS 1 and 2 of the
// log and the retained messages, which is its to have.
func (q *Queue) Detach(persistent bool) (dropped []Item) {
	var kept fifo
	for q.acked.len() > 0 {
		it := q.acked.pop()
		if persistent && it.Source != FromLive {
			kept.push(it)
		} else {
			dropped = append(dropped, it)
		}
	}
	q.zero, q.acked = fifo{}, kept
	return dropped
}

// Remove drops and returns the waiting items of a shared subscription that has
// ended.
func (q *Queue) Remove(share string) (dropped []Item) {
	for _, f := range []*fifo{&q.zero, &q.acked} {
		var kept fifo
		for f.len() > 0 {
			if it := f.pop(); it.Share == share {
				dropped = append(dropped, it)
			} else {
				kept.push(it)
			}
		}
		*f = kept
	}
	return dropped
}

// fifo is a ring that grows by doubling and gives its memory back when empty.
type fifo struct {
	items []Item
	first int
	n     int
}

func (f *fifo) len() int    { return f.n }
func (f *fifo) head() *Item { return &f.items[f.first] }

func (f *fifo) push(it Item) {
	if f.n == len(f.items) {
		grown := make([]Item, max(8, 2*f.n))
		for i := range f.n {
			grown[i] = f.items[(f.first+i)%len(f.items)]
		}
		f.items, f.first = grown, 0
	}
	f.items[(f.first+f.n)%len(f.items)] = it
	f.n++
}

func (f *fifo) pop() Item {
	it := f.items[f.first]
	f.items[f.first] = Item{}
	f.first = (f.first + 1) % len(f.items)
	f.n--
	if f.n == 0 {
		if len(f.items) > 64 {
			f.items = nil
		}
		f.first = 0
	}
	return it
}
