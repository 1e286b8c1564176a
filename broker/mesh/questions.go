package mesh

import (
	"errors"

	"maestrohub.io/uns/broker/value"
)

var (
	// ErrNotLinked: the peer is not linked, or was not any more before it answered. It may be alive and
	// may still do what it was asked.
	ErrNotLinked = errors.New("the replica is not linked")
	// ErrEnded: the peer's life, or this replica's, ended before the answer.
	ErrEnded = errors.New("the replica's life has ended")
)

// Release asks the owner of a client id to let go of it.
type Release struct {
	ClientID string
	// ConnectionID is the one of the claim that takes over.
	ConnectionID string
}

// Released is its answer.
type Released struct {
	Ended Ended
	// ConnectionID is the connection that was let go of; empty if there was none.
	ConnectionID string
}

// Ended says how the connection that was let go of had ended. Numbers are append-only.
type Ended byte

const (
	// NotHeld: the replica knows no connection of that client id.
	NotHeld Ended = 0
	// ClosedByTakeover: it was open, and was closed for this release.
	ClosedByTakeover Ended = 1
	// AlreadyLost: it had been lost before.
	AlreadyLost Ended = 2
	// LeftProperly: its client had sent DISCONNECT.
	LeftProperly Ended = 3
	// GaveUpClaim: it was not serving yet; its claim was given up.
	GaveUpClaim Ended = 4
)

// MaxReport bounds what a replica says of itself, in bytes.
const MaxReport = 1 << 20

// Share is a value for one chosen member of a shared subscription.
type Share struct {
	Value *value.Value
	Flags Flags
	// Key is the share name and filter, Session the MQTT client identifier of the member.
	Key, Session string
}

// ShareOutcome is what became of a share. Numbers are append-only.
type ShareOutcome byte

const (
	// ShareTaken: the client acknowledged it (QoS 1), received it (QoS 2), or it was sent (QoS 0).
	ShareTaken ShareOutcome = 1
	// ShareReturned: the client did not get it: to be given to another member.
	ShareReturned ShareOutcome = 2
	// ShareDiscarded: a QoS 2 delivery had begun and its session ended: nobody else's [MQTT-4.8.2-5].
	ShareDiscarded ShareOutcome = 3
	// ShareInDoubt: the peer's life ended with it; whether the client got it is not known.
	ShareInDoubt ShareOutcome = 4
	// ShareEnded: this replica's life ended with it.
	ShareEnded ShareOutcome = 5
)
