package cluster

import (
	"slices"
	"time"
)

// Ending says how a connection ended, as far as its wills and its session care.
type Ending uint8

const (
	// Held: it has not ended, as far as its owner record knows.
	Held Ending = iota
	// Left: the device sent DISCONNECT and wants no will sent.
	Left
	// Lost: it ended otherwise while its replica served: the network, the keep
	// alive, a protocol error, DISCONNECT with Will Message.
	Lost
	// EndedStopped, EndedFenced, EndedGone: its replica stopped, fenced itself or
	// was judged gone while it was open.
	EndedStopped
	EndedFenced
	EndedGone
)

// String returns the ending's name.
func (e Ending) String() string {
	if int(e) < len(endingNames) {
		return endingNames[e]
	}
	return "invalid ending"
}

var endingNames = [...]string{"held", "left", "lost", "stopped", "fenced", "gone"}

// Owner is the record of a client id in state.Sessions: which connection holds
// it, or held it last. It stays after the connection's end, so that a will left
// behind can be told from that of a later connection, for maxSessionExpiry and an
// hour.
type Owner struct {
	// Connection is random, made by the claim.
	Connection  ID
	Incarnation Incarnation
	// Identity is the API client that holds the client id, in any workspace.
	Identity, Workspace string
	Ending              Ending
	// Ended is when, ns since 1970, once Ending is not Held. It stays as it is
	// when the record is touched.
	Ended int64
	// Before are the claims that this one was made over and that may not have let go:
	// what their devices sent may still be on its way. One that came to nothing leaves
	// them to the next, which would otherwise take the client id to be nobody's.
	Before []Claim
}

// Claim is one connection's hold on a client id.
type Claim struct {
	Connection  ID
	Incarnation Incarnation
}

// Unsettled are the claims that have to let go before another may serve: the record's
// own while it is held, then those before it. Of each incarnation there is one, the
// latest: whoever asks it to let go asks for all it has of the client id.
func (o *Owner) Unsettled() []Claim {
	var list []Claim
	if o.Ending == Held {
		list = append(list, Claim{o.Connection, o.Incarnation})
	}
	for _, c := range o.Before {
		if !slices.ContainsFunc(list, func(l Claim) bool { return l.Incarnation == c.Incarnation }) {
			list = append(list, c)
		}
	}
	return list
}

// End returns the record of the connection's end.
func (o Owner) End(how Ending, at time.Time) Owner {
	if o.Ending == Held {
		o.Ending, o.Ended = how, at.UnixNano()
	}
	return o
}

// Encode returns the record in the floor's format.
func (o Owner) Encode(floor Format) []byte {
	a := record(floor)
	a.id(o.Connection)
	a.incarnation(o.Incarnation)
	a.string(o.Identity)
	a.string(o.Workspace)
	a.byte(byte(o.Ending))
	a.int(o.Ended)
	a.uint(uint64(len(o.Before)))
	for _, c := range o.Before {
		a.id(c.Connection)
		a.incarnation(c.Incarnation)
	}
	return a.b
}

// DecodeOwner reads an Owner.
func DecodeOwner(b []byte) (o Owner, err error) {
	p := parse("owner record", b)
	o.Connection = p.id("connection")
	o.Incarnation = p.incarnation("incarnation")
	o.Identity = p.string("identity")
	o.Workspace = p.string("workspace")
	o.Ending = Ending(p.enum("ending", byte(EndedGone)))
	o.Ended = p.int("ended")
	for range p.count("claims before", 2*len(ID{})+1) {
		o.Before = append(o.Before, Claim{p.id("claim before"), p.incarnation("incarnation before")})
	}
	return o, p.end()
}
