package session

import (
	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/broker/value"
)

// Source says where the message of an entry is found again.
type Source uint8

const (
	// FromLive: nowhere but in the entry.
	FromLive Source = iota
	// FromLog: at Position of the workspace's session log.
	FromLog
	// FromRetained: the topic's current retained message, by the entry's Topic.
	FromRetained
)

// Entry is one delivery at QoS 1 or 2, from its first PUBLISH to its last
// acknowledgment.
type Entry struct {
	PacketID uint16
	QoS      byte
	// Released says that the PUBREL was sent: the PUBLISH is never sent again
	// [MQTT-4.3.3-6].
	Released bool
	Source   Source
	// Position in the session log, for FromLog.
	Position uint64
	// Topic is the full topic name, for FromRetained.
	Topic string
	// Value is the message, kept for FromLive only: the others are found again by
	// Source, so that an offline session costs no copy of its values.
	Value  *value.Value
	Retain bool
	IDs    []uint32
	// Restored says that another connection sent it: of a message of the log, Retain and
	// IDs are what the session's subscriptions make them when it is sent again.
	Restored bool
	// Share is the key of the shared subscription the delivery is for; "" if none.
	Share string
	// Settled is the Item's.
	Settled func(taken bool)
}

// Settle tells the replica that chose this member for a shared message whether
// the client has it.
func (e *Entry) Settle(taken bool) {
	if e.Settled != nil {
		e.Settled(taken)
	}
}

// FirstFixed is the first packet identifier that may follow from a sequence. Those before
// it are given in turn: neither kind is ever taken for the other.
const FirstFixed = 1 << 15

// FixedSpan is of how many consecutive sequences no two have the same fixed identifier.
// All replicas have to agree on it: it belongs to the format of the cursor.
const FixedSpan = 1<<16 - FirstFixed

// MaxWindow is the most deliveries a Window may have to hold: as many as there are
// identifiers given in turn, of which 0 is none [MQTT-2.2.1-3].
const MaxWindow = FirstFixed - 1

// FixedID is the packet identifier that follows from an entry's sequence in the session
// log, with a span of at most FixedSpan: whichever replica sends it to the session, it
// has this one.
func FixedID(sequence, span uint64) uint16 { return FirstFixed + uint16(sequence%span) }

// Window holds the deliveries a client has not finished acknowledging, in the
// order they were first sent.
//
// Invariants: an identifier is in use by at most one entry [MQTT-2.2.1-4]; there
// are never more entries than Limit [MQTT-3.3.4-9].
type Window struct {
	// Limit is the lower of the client's Receive Maximum and ours, MaxWindow at most.
	Limit   int
	entries []*Entry // in sending order; nil where finished
	first   int      // entries before it are nil
	byID    map[uint16]*slot
	nextID  uint16
}

type slot struct {
	entry *Entry
	index int
}

// Len returns the number of deliveries not finished.
func (w *Window) Len() int { return len(w.byID) }

// Full reports whether another PUBLISH at QoS 1 or 2 has to wait.
func (w *Window) Full() bool { return len(w.byID) >= w.Limit }

// Send takes e into the window and gives it a free, non-zero packet identifier
// [MQTT-2.2.1-4], [MQTT-4.3.2-1]. It must not be called on a full window.
func (w *Window) Send(e *Entry) {
	for {
		w.nextID = (w.nextID + 1) % FirstFixed
		if w.nextID != 0 && w.byID[w.nextID] == nil {
			break
		}
	}
	e.PacketID = w.nextID
	w.add(e)
}

// SendFixed takes e, an entry of the log, into the window under its FixedID. false: that
// is in use. It must not be called on a full window.
func (w *Window) SendFixed(e *Entry, span uint64) bool {
	id := FixedID(e.Position, span)
	if w.byID[id] != nil {
		return false
	}
	e.PacketID = id
	w.add(e)
	return true
}

// Restore takes an entry back under the identifier it has, in the order of the
// calls: an unfinished delivery of a session that another replica served before.
func (w *Window) Restore(e *Entry) {
	w.add(e)
	if e.PacketID < FirstFixed {
		w.nextID = max(w.nextID, e.PacketID)
	}
}

func (w *Window) add(e *Entry) {
	if w.byID == nil {
		w.byID = make(map[uint16]*slot)
	}
	w.byID[e.PacketID] = &slot{e, len(w.entries)}
	w.entries = append(w.entries, e)
}

func (w *Window) remove(id uint16) *Entry {
	s := w.byID[id]
	delete(w.byID, id)
	w.entries[s.index] = nil
	for w.first < len(w.entries) && w.entries[w.first] == nil {
		w.first++
	}
	switch {
	case w.first == len(w.entries):
		w.entries, w.first = w.entries[:0], 0
		if len(w.byID) == 0 && cap(w.entries) > 64 {
			w.entries = nil // an idle session keeps no large array
		}
	case w.first > 64 && w.first > len(w.entries)/2:
		// Finished entries at the front are shifted out, so that a window that is
		// never empty does not grow for ever.
		n := copy(w.entries, w.entries[w.first:])
		clear(w.entries[n:])
		w.entries = w.entries[:n]
		for _, s := range w.byID {
			s.index -= w.first
		}
		w.first = 0
	}
	return s.entry
}

// Puback finishes a QoS 1 delivery. It returns the entry, or nil if the
// identifier is not that of a QoS 1 delivery.
func (w *Window) Puback(id uint16) *Entry {
	s := w.byID[id]
	if s == nil || s.entry.QoS != 1 {
		return nil
	}
	return w.remove(id)
}

// Pubrec takes a PUBREC. The answer is a PUBREL with the reason returned; ended
// is the entry if the client refused the message, which ends the delivery without
// a PUBREL [MQTT-4.4.0-2], and answer is then false.
func (w *Window) Pubrec(id uint16, code mqtt.ReasonCode) (reason mqtt.ReasonCode, answer bool, ended *Entry) {
	s := w.byID[id]
	if s == nil || s.entry.QoS != 2 {
		return mqtt.PacketIdentifierNotFound, code < mqtt.UnspecifiedError, nil
	}
	if code >= mqtt.UnspecifiedError {
		return 0, false, w.remove(id)
	}
	// From here on the message is the client's: it is not needed again.
	s.entry.Released, s.entry.Value = true, nil
	s.entry.Settle(true)
	return mqtt.Success, true, nil // [MQTT-4.3.3-4]
}

// Awaits reports whether a delivery at QoS 2 has no PUBREC yet.
func (w *Window) Awaits() bool {
	for _, e := range w.entries[w.first:] {
		if e != nil && e.QoS == 2 && !e.Released {
			return true
		}
	}
	return false
}

// Pubcomp finishes a QoS 2 delivery. It returns the entry, or nil if no PUBREL
// was sent under the identifier.
func (w *Window) Pubcomp(id uint16) *Entry {
	s := w.byID[id]
	if s == nil || s.entry.QoS != 2 || !s.entry.Released {
		return nil
	}
	return w.remove(id)
}

// Drop ends the delivery under id without an acknowledgment: its message was
// larger than the client takes, or is gone.
func (w *Window) Drop(id uint16) {
	if w.byID[id] != nil {
		w.remove(id)
	}
}

// Release turns an entry whose message is gone into one that only finishes its
// handshake, so that the identifier is not used again while the client may still
// hold it for a duplicate.
func (w *Window) Release(e *Entry) { e.Released, e.Value = true, nil }

// Entries returns the unfinished deliveries in the order they were first sent
// [MQTT-4.4.0-1], [MQTT-4.6.0-1 of MQTT 3.1.1].
func (w *Window) Entries() []*Entry {
	list := make([]*Entry, 0, len(w.byID))
	for _, e := range w.entries[w.first:] {
		if e != nil {
			list = append(list, e)
		}
	}
	return list
}
