package server

import "maestrohub.io/uns/broker/mqtt"

// pending is the acknowledgment a client waits for: one PUBLISH at QoS 1 or 2,
// on its way through the chain.
type pending struct {
	id   uint16
	qos  byte
	done bool
	// repeated: a PUBLISH at QoS 2 whose identifier was taken already; it only has
	// its PUBREC repeated, in its turn.
	repeated bool
	code     mqtt.ReasonCode
	// retry says that the refusal is of the moment: the device is to send the
	// value again.
	retry  bool
	reason string
}

// ackRing holds the outcomes of one connection in the order of its PUBLISHes:
// acknowledgments leave in that order whatever order the outcomes come in
// [MQTT-4.6.0-2], [MQTT-4.6.0-3].
type ackRing struct {
	slots      []pending // its length is a power of two
	head, tail uint64    // slots head..tail-1 are waiting
	// open has the identifiers of the QoS 2 PUBLISHes that are waiting, and repeats
	// counts the waiting repetitions of one.
	open    map[uint16]struct{}
	repeats int
}

func (r *ackRing) len() int { return int(r.tail - r.head) }

func (r *ackRing) at(slot uint64) *pending { return &r.slots[slot&uint64(len(r.slots)-1)] }

// push adds the next PUBLISH and returns its slot.
func (r *ackRing) push(p pending) uint64 {
	if r.len() == len(r.slots) {
		grown := ackRing{slots: make([]pending, max(8, 2*len(r.slots))), head: r.head, tail: r.tail, open: r.open, repeats: r.repeats}
		for s := r.head; s < r.tail; s++ {
			*grown.at(s) = *r.at(s)
		}
		*r = grown
	}
	slot := r.tail
	*r.at(slot) = p
	r.tail++
	switch {
	case p.repeated:
		r.repeats++
	case p.qos == 2:
		if r.open == nil {
			r.open = make(map[uint16]struct{})
		}
		r.open[p.id] = struct{}{}
	}
	return slot
}

// pop takes the oldest slot if its outcome is known.
func (r *ackRing) pop() (p pending, ok bool) {
	if r.head == r.tail || !r.at(r.head).done {
		return pending{}, false
	}
	p = *r.at(r.head)
	*r.at(r.head) = pending{}
	r.head++
	switch {
	case p.repeated:
		r.repeats--
	case p.qos == 2:
		delete(r.open, p.id)
		if p.code != mqtt.Success {
			r.refuse(&p)
		}
	}
	if r.head == r.tail && len(r.slots) > 64 {
		r.slots, r.open = nil, nil
	}
	return p, true
}

// refuse gives the outcome of a refused PUBLISH to its repetitions: their PUBREC
// would else tell the client that the value is stored.
func (r *ackRing) refuse(p *pending) {
	for s := r.head; s < r.tail && r.repeats > 0; s++ {
		if again := r.at(s); again.repeated && again.id == p.id {
			again.code, again.retry, again.reason = p.code, p.retry, p.reason
		}
	}
}

// isOpen reports whether a QoS 2 PUBLISH under id is waiting.
func (r *ackRing) isOpen(id uint16) bool {
	_, open := r.open[id]
	return open
}
