package cluster

import (
	"crypto/rand"
	"encoding/hex"
)

// ID tells one thing from every other that ever was: an incarnation, a
// connection, a session. IDs are compared for equality only; nothing about order
// can be read from them, because what orders (a bucket's revisions) may begin anew
// when a bucket is rebuilt.
type ID [16]byte

// NewID returns a random ID.
func NewID() (id ID) {
	rand.Read(id[:]) // never fails
	return id
}

// String returns 32 hexadecimal digits.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// IsZero reports whether the ID is of nothing.
func (id ID) IsZero() bool { return id == ID{} }

// Incarnation names one life of a replica, from its start or unfence to its next
// fence. Owner, will and route records name it rather than the replica, so that
// what an earlier life left behind is never taken for the present one's.
type Incarnation struct {
	Replica string
	ID      ID
}

// String returns "replica/id".
func (i Incarnation) String() string { return i.Replica + "/" + i.ID.String() }
