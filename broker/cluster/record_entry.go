package cluster

// Phase is what an incarnation says of itself in its entry.
type Phase uint8

// The phases. Serving is the only one in which devices are served. Fenced,
// Stopping, Stopped and Gone end an incarnation for good: nobody leaves them but
// under a new incarnation.
const (
	// Starting: registered, but not yet serving.
	Starting Phase = iota
	Serving
	// Fenced: it closed its connections and serves nobody; the process lives.
	Fenced
	// Stopping: it closes its connections and hands over.
	Stopping
	// Stopped: it has ended; a successor need not wait for it.
	Stopped
	// Gone: another replica judged it gone. Only such a judgment writes this.
	Gone
)

// String returns the phase's name.
func (p Phase) String() string {
	if int(p) < len(phaseNames) {
		return phaseNames[p]
	}
	return "invalid phase"
}

var phaseNames = [...]string{"starting", "serving", "fenced", "stopping", "stopped", "gone"}

// Over reports whether the incarnation serves nobody any more and never will.
func (p Phase) Over() bool { return p >= Fenced }

// Entry is a replica's record in state.Members, keyed by its id. It expires
// memberTTL after its last write; no watch says so.
type Entry struct {
	Incarnation Incarnation
	// Number orders the incarnations of one replica id: the revision of the
	// write that registered it, and 0 in that write itself, which cannot know it.
	Number uint64
	Phase  Phase
	// Beat counts the writes of the incarnation, so that an echo tells which.
	Beat uint64
	// Oldest and Newest are the formats the replica reads.
	Oldest, Newest Format
	// Refusing: within the last connectBudget it refused a CONNECT for the
	// store's sake. Every grace of a will stands still meanwhile.
	Refusing bool
	// Applied is how far it has applied what it watches.
	Applied Applied
	// Mesh is the address its mesh listener is reached at; may be empty.
	Mesh string
}

// Applied are revisions up to which a replica has applied the buckets its
// subscribe index is made of.
type Applied struct{ Sessions, Routes uint64 }

// Encode returns the record in the floor's format.
func (e Entry) Encode(floor Format) []byte {
	a := record(floor)
	a.incarnation(e.Incarnation)
	a.uint(e.Number)
	a.byte(byte(e.Phase))
	a.flags(e.Refusing)
	a.uint(e.Beat)
	a.uint(uint64(e.Oldest))
	a.uint(uint64(e.Newest))
	a.uint(e.Applied.Sessions)
	a.uint(e.Applied.Routes)
	a.string(e.Mesh)
	return a.b
}

// DecodeEntry reads an Entry.
func DecodeEntry(b []byte) (e Entry, err error) {
	p := parse("member entry", b)
	e.Incarnation = p.incarnation("incarnation")
	e.Number = p.uint("number")
	e.Phase = Phase(p.enum("phase", byte(Gone)))
	e.Refusing = p.flags("flags", 1)[0]
	e.Beat = p.uint("beat")
	e.Oldest = Format(p.uint("oldest format"))
	e.Newest = Format(p.uint("newest format"))
	e.Applied.Sessions = p.uint("applied sessions")
	e.Applied.Routes = p.uint("applied routes")
	e.Mesh = p.string("mesh address")
	return e, p.end()
}
