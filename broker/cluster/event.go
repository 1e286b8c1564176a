package cluster

// EventKind says what happened.
type EventKind uint8

const (
	// NowServing: the replica serves from here on, under Deadline.
	NowServing EventKind = iota + 1
	// NowFenced: the incarnation has ended for Cause. Its Deadline is over
	// already: close every connection, refuse CONNECTs.
	NowFenced
	// MemberChanged: another incarnation joined or its entry says something new.
	MemberChanged
	// MemberEnded: another incarnation ended, as How says. Its wills wait from
	// here on; EndedGone came through a judgment that landed.
	MemberEnded
	// FloorRaised: the format everything is written in is now Floor.
	FloorRaised
	// NotServing: registering does not get on, for Cause (DuplicateID,
	// BelowFloor). Said once per cause.
	NotServing
)

// Event is one thing the rest of the replica must know of membership.
type Event struct {
	Kind     EventKind
	Deadline *Deadline // NowServing
	Cause    Cause     // NowFenced, NotServing
	Entry    Entry     // NowServing, NowFenced: the own; MemberChanged, MemberEnded
	How      Ending    // MemberEnded
	Floor    Format    // FloorRaised, NowServing
}

// Status is what readiness and the status page say of membership.
type Status struct {
	Serving   bool
	Registers bool  // waits for its entry or the floor
	Cause     Cause // of the last fence while not serving; 0 if there was none
	Duplicate bool  // another process lives under the replica id
	Below     bool  // the floor is above what this release reads
	Members   int   // neither gone nor stopped, the own included
}
