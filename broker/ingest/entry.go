package ingest

import (
	"reflect"
	"time"

	"maestrohub.io/uns/broker/access"
	"maestrohub.io/uns/broker/value"
)

// Publish is one value on its way in: a PUBLISH to an inbox, a Last Will or a
// REST write. The payload, its properties and all their slices are ingest's from
// the call on.
type Publish struct {
	// Name is the topic as published: an inbox name. It is not kept after the call.
	Name string
	// QoS is the device's own, 0 to 2.
	QoS        byte
	Payload    []byte
	Properties value.Properties
	// Expiry is the message expiry interval in seconds, valid if HasExpiry.
	Expiry    uint32
	HasExpiry bool
	// ClientID is the MQTT client identifier; empty for a REST write.
	ClientID string
	Grants   *access.Grants
	// Timestamp (nanoseconds since the Unix epoch) and RowID fix the row of a
	// value whose payload has no timestamp, so that a Last Will sent twice is
	// stored once. 0: chosen at admission.
	Timestamp int64
	RowID     uint64
	// Ordered says that a refusal for time's sake (Refusal.Passing) at QoS 1 or 2
	// ends the connection, as it must with MQTT 3.x: it takes with it every later
	// publish of the same Completion, not only those on its topic, and none after it
	// is accepted.
	Ordered bool
	// Done gets the outcome, under Slot. It is comparable, one per connection.
	Done Completion
	Slot uint64
}

// Outcome is what became of a publish.
type Outcome struct {
	// Refusal is 0 if the value is stored and everything an acknowledgment
	// promises is done.
	Refusal Refusal
	// Detail says more about a refusal, for the person who has to cure it.
	Detail string
	// Kept says, with a refusal, whether the historian has the value all the same.
	Kept Kept
	// Cleared says, without a refusal, that an empty payload deleted the topic's
	// retained message: it is no value, and nothing is stored.
	Cleared bool
	// NoSubscribers says that nobody wanted the value; only if Live is an Audience.
	NoSubscribers bool
}

// Kept is what a refusal means for the historian.
type Kept uint8

const (
	// NotStored: the historian does not have the value, and never gets it from this
	// publish.
	NotStored Kept = iota
	// MaybeStored: a write of it was given up on, and may have landed or land yet.
	MaybeStored
	// Stored: the historian has it durably; what failed is what an acknowledgment
	// promises beyond that.
	Stored
)

// Completion receives outcomes. Complete is called exactly once for each
// publish, from within Publish or from the lane; the outcomes the lane gives to
// one Completion come in the order of its publishes. Neither method may block or
// call into Ingest.
type Completion interface {
	Complete(slot uint64, o Outcome)
	// Flush follows a batch of Completes.
	Flush()
}

// Unresolved is implemented by a Completion that cares for QoS 2. It is called,
// at most once, for a publish that AppendWait has passed over and that can
// neither be acknowledged nor refused, because a log append that may land is out
// or its live copy has left: the connection is to be closed and the flow kept
// open. Complete follows when what became of it is known.
type Unresolved interface {
	Unresolved(slot uint64)
}

// step is how far one durable step of an entry is.
type step uint8

const (
	unneeded step = iota
	waiting       // to be part of a next batch
	flying        // in a batch whose result is not known
	landed
)

// entry is a value in a lane, with what is still owed for it. It is owned by
// whoever carries it: Publish, then the goroutine with the storing role, then
// the one with the settling role.
type entry struct {
	v    *value.Value
	done Completion
	slot uint64
	// seq is the place in the lane, and side the side of its barrier it is on.
	seq  uint64
	side uint8
	// admitted and stored are times since the ingest's start.
	admitted, stored time.Duration
	size             int
	qos              byte
	ordered          bool
	// clear: an empty payload that only deletes a retained message.
	clear bool
	// watched: the value can cross a threshold; level is the one it is in.
	watched          bool
	level, threshold string

	refusal Refusal
	detail  string
	kept    Kept // Stored once it is, refused later or not

	log, retained step
	matched       bool // Wanted has been asked
	follows       bool // refused with an earlier one
	unsure        bool // held until what Wanted says is certain
	alive         bool // the live copy has left
	out           bool // the outcome has been given
	overdue       bool // AppendWait has passed and was dealt with

	// arrival is the live copy's way to other replicas; nil if it needs none.
	arrival *arrival

	// own is the value, in one allocation with the entry until a write of it
	// was given up on and a copy took its place.
	own value.Value
}

// refuse decides an entry that has no outcome yet.
func (e *entry) refuse(r Refusal, detail string) { e.refusal, e.detail = r, detail }

// open reports whether a durable step of an accepted entry is not done.
func (e *entry) open() bool {
	return e.refusal == 0 && (e.log == waiting || e.log == flying || e.retained == waiting || e.retained == flying)
}

// copyValue makes the value a new one, because a write that was given up on may
// set the old one's Position at any time: for the same reason that one field is
// not even read.
func (e *entry) copyValue() {
	from, to := reflect.ValueOf(e.v).Elem(), &value.Value{}
	for n := range from.NumField() {
		if from.Type().Field(n).Name != "Position" {
			reflect.ValueOf(to).Elem().Field(n).Set(from.Field(n))
		}
	}
	e.v = to
}
