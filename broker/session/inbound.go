package session

import (
	"maps"
	"slices"
)

// Inbound is the set of packet identifiers of a client's QoS 2 messages that
// were taken (PUBREC sent) and not yet released [MQTT-4.3.3-10].
type Inbound struct {
	ids map[uint16]struct{}
}

// Add records that the message under id was taken.
func (in *Inbound) Add(id uint16) {
	if in.ids == nil {
		in.ids = make(map[uint16]struct{})
	}
	in.ids[id] = struct{}{}
}

// Has reports whether a PUBLISH under id is a repetition.
func (in *Inbound) Has(id uint16) bool {
	_, ok := in.ids[id]
	return ok
}

// Release ends the flow under id at its PUBREL and reports whether it was open.
// After it the identifier is a new message's [MQTT-4.3.3-12].
func (in *Inbound) Release(id uint16) bool {
	if !in.Has(id) {
		return false
	}
	delete(in.ids, id)
	if len(in.ids) == 0 {
		in.ids = nil
	}
	return true
}

// IDs returns the identifiers of the open flows, ordered.
func (in *Inbound) IDs() []uint16 { return slices.Sorted(maps.Keys(in.ids)) }

// Len returns the number of open flows.
func (in *Inbound) Len() int { return len(in.ids) }
