package cluster

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"maestrohub.io/uns/broker/state"
)

// stage is where the present incarnation stands.
type stage uint8

const (
	registering stage = iota // watches the own key, then claims it
	joining                  // registered: renews the lease, touches the floor
	serving
	lapsed   // fenced, and says so in its entry until it may register again
	stopping // renews the lease while the server hands over
	stopped
)

// core is a replica's membership as one state machine: events in, effects out. It
// takes no lock, starts nothing and asks no clock.
//
// A replica's incarnations follow one another in it:
//
//	registering → joining → serving → (fence) → lapsed → registering …
//
// Answers name the incarnation that asked, and those of an earlier one are dropped:
// what was sent before a fence is never acted on after it.
type core struct {
	timing Timing
	self   string
	mesh   string
	base   time.Time
	newest Format // that this release reads

	stage    stage
	id       Incarnation
	mine     map[ID]bool // this process's earlier lives
	lease    lease
	reg      *registration
	guard    guard
	deadline *Deadline
	view     *view

	beats    uint64
	joined   bool // the floor was touched
	floor    Format
	refusing time.Time // until when the entry says refusing
	applied  Applied
	cause    Cause // of the last fence
	said     Cause // the last NotServing
	below    bool

	own       ownKey
	retryJoin time.Time
	barriers  []barrier
	sent      [64]time.Time // when the last heartbeats were, by number modulo
	viewAsOf  time.Time     // the view is complete as of then
}

// ownKey is what stands on the own key as far as the watch says.
type ownKey struct {
	entry    Entry
	revision uint64
	there    bool
	echoed   bool // the present incarnation was seen there
	ready    bool // the watch has given everything
}

// barrier is somebody who waits until the view is proven complete as of now.
type barrier struct {
	beat uint64
	done chan struct{}
}

// effect is one thing for the driver to do. Exactly one field but id is set; the
// answer comes back under id.
type effect struct {
	id      Incarnation
	beat    *beat
	claim   *claimEffect
	readOwn bool
	judge   *Incarnation
	join    bool
	event   *Event
}

type beat struct {
	value []byte
	sent  time.Time
}

type claimEffect struct {
	value    []byte
	revision uint64 // 0: create
}

func newCore(self, mesh string, timing Timing, now time.Time) *core {
	c := &core{timing: timing, self: self, mesh: mesh, base: now, newest: Newest, mine: map[ID]bool{}}
	c.view = newView(self, timing)
	c.register(now)
	return c
}

// register begins a new incarnation.
func (c *core) register(now time.Time) {
	c.id = Incarnation{Replica: c.self, ID: NewID()}
	c.stage, c.joined, c.own.echoed = registering, false, false
	c.lease = lease{timing: c.timing}
	c.reg = &registration{timing: c.timing, id: c.id, mine: func(id ID) bool { return c.mine[id] }}
	if c.own.ready {
		c.reg.begin(now)
	}
	if c.own.there {
		c.reg.saw(c.own.entry, c.own.revision, now)
	} else {
		c.reg.absent(c.own.revision)
	}
}

// tick is called many times a heartbeat. silent is for how long the shared-state
// connection has received nothing.
func (c *core) tick(silent time.Duration, now time.Time) (out []effect) {
	switch c.stage {
	case stopped:
		return nil
	case joining, serving, stopping:
		switch {
		case c.lease.expired(now):
			out = c.fence(out, LeaseLost, now)
		case silent >= SilenceBound && c.stage != stopping:
			out = c.fence(out, HalfOpen, now)
		}
	case lapsed:
		// Anything received at all ends the silence.
		if c.cause == HalfOpen && silent < SilenceBound {
			c.register(now)
		}
	}
	switch c.stage {
	case registering:
		if silent >= SilenceBound {
			break // the entry is watched over that connection
		}
		if c.reg.duplicate() {
			out = c.notServing(out, DuplicateID)
		}
		if claim, ok := c.reg.next(now); ok {
			out = append(out, effect{id: c.id, claim: &claimEffect{c.entry(0).Encode(c.writes()), claim.revision}})
		}
	case joining:
		if !c.joined && !c.retryJoin.After(now) {
			c.retryJoin = now.Add(c.timing.WriteBound())
			out = append(out, effect{id: c.id, join: true})
		}
		out = c.serve(out, now)
	}
	return c.heartbeat(out, now)
}

// heartbeat sends the entry if it is time.
func (c *core) heartbeat(out []effect, now time.Time) []effect {
	if c.stage == registering || c.stage == stopped || !c.lease.due(now) {
		return out
	}
	return c.rewrite(out, now)
}

// rewrite sends the entry now.
func (c *core) rewrite(out []effect, now time.Time) []effect {
	c.beats++
	e := c.entry(c.beats)
	e.Refusing = now.Before(c.refusing)
	c.view.sent(c.beats, now)
	c.sent[c.beats%uint64(len(c.sent))] = now
	return append(out, effect{id: c.id, beat: &beat{e.Encode(c.writes()), now}})
}

// entry is the own entry; of beat 0 that which registers it.
func (c *core) entry(beat uint64) Entry {
	e := Entry{Incarnation: c.id, Beat: beat, Oldest: Oldest, Newest: c.newest, Applied: c.applied, Mesh: c.mesh}
	if beat > 0 {
		e.Number = c.reg.number
	}
	e.Phase = [...]Phase{registering: Starting, joining: Starting, serving: Serving, lapsed: Fenced, stopping: Stopping, stopped: Stopped}[c.stage]
	return e
}

// members are all who are neither gone nor stopped. The own entry is the one that
// landed, not the one the watch gave last: that may lag, or stand still, when this
// replica begins to serve.
func (c *core) members() []Entry {
	all := c.view.members()
	if c.stage != serving && c.stage != stopping {
		return all
	}
	at, there := slices.BinarySearchFunc(all, c.id.Replica, func(e Entry, id string) int { return cmp.Compare(e.Incarnation.Replica, id) })
	if !there {
		return slices.Insert(all, at, c.entry(c.beats))
	}
	if all[at].Incarnation != c.id {
		all[at] = c.entry(c.beats)
	}
	return all
}

// ages is for how long each member's lease has not been renewed.
func (c *core) ages(now time.Time) map[string]time.Duration {
	ages := make(map[string]time.Duration)
	for id, l := range c.view.lives {
		if l.entry.Phase != Gone && l.entry.Phase != Stopped {
			ages[id] = now.Sub(l.seen)
		}
	}
	if !c.lease.held.IsZero() {
		ages[c.self] = now.Sub(c.lease.held)
	}
	return ages
}

// writes is the format of the own entry: before it has joined, a replica cannot
// know that the floor is more than the oldest it knows.
func (c *core) writes() Format {
	if !c.joined {
		return Oldest
	}
	return c.floor
}

// beatDone is the answer to a heartbeat.
func (c *core) beatDone(id Incarnation, sent time.Time, landed bool, now time.Time) (out []effect) {
	if id != c.id || !landed {
		return nil
	}
	switch c.stage {
	case joining, serving, stopping:
		c.lease.landed(sent, now)
		if c.deadline != nil && c.lease.holds(now) {
			c.deadline.extend(c.lease.fenceAt(), c.lease.decideAt())
		}
		if c.stage == joining {
			return c.serve(out, now)
		}
	case lapsed:
		if c.cause == LeaseLost {
			c.register(now)
		}
	}
	return nil
}

// claimDone is the answer to the registering write.
func (c *core) claimDone(id Incarnation, revision uint64, err error, now time.Time) (out []effect) {
	if id != c.id || c.stage != registering {
		return nil
	}
	if err == nil {
		c.reg.landed(revision)
		return c.registered(now)
	}
	c.reg.failed(!errors.Is(err, state.ErrConflict), now)
	return []effect{{id: c.id, readOwn: true}}
}

// ownRead is what stands on the own key; there is false if nothing does.
func (c *core) ownRead(id Incarnation, e Entry, revision uint64, there bool, now time.Time) []effect {
	if id != c.id || c.stage != registering {
		return nil
	}
	if !there {
		c.reg.absent(c.reg.revision)
	} else if c.reg.saw(e, revision, now) {
		return c.registered(now)
	}
	return nil
}

func (c *core) registered(now time.Time) []effect {
	c.stage, c.said = joining, 0
	c.guard = guard{timing: c.timing, id: c.id, number: c.reg.number, mine: c.reg.mine}
	c.lease.begin(c.reg.first)
	c.retryJoin = time.Time{}
	return c.tick(0, now)
}

// joinDone says that the floor was touched, that this release may not join under
// it (below), or that neither is known.
func (c *core) joinDone(id Incarnation, floor Format, below bool, err error, now time.Time) (out []effect) {
	if id != c.id || c.stage != joining {
		return nil
	}
	c.below = below
	switch {
	case below:
		c.retryJoin = now.Add(c.timing.TTL)
		return c.notServing(out, BelowFloor)
	case err != nil:
		c.retryJoin = now.Add(c.timing.Heartbeat())
		return nil
	}
	c.joined, c.floor = true, max(c.floor, floor)
	return c.serve(out, now)
}

// serve begins to serve once everything is there.
func (c *core) serve(out []effect, now time.Time) []effect {
	if c.stage != joining || !c.joined || !c.lease.holds(now) || c.floor > c.newest {
		return out
	}
	c.stage, c.cause, c.said = serving, 0, 0
	c.deadline = newDeadline(c.id, c.base)
	c.deadline.extend(c.lease.fenceAt(), c.lease.decideAt())
	own := c.entry(c.reg.number) // any beat but 0: with its number
	out = append(out, effect{event: &Event{Kind: NowServing, Deadline: c.deadline, Entry: own, Floor: c.floor}})
	return c.rewrite(out, now)
}

// fence ends the incarnation.
func (c *core) fence(out []effect, cause Cause, now time.Time) []effect {
	if c.deadline != nil {
		c.deadline.end()
		c.deadline = nil
	}
	c.mine[c.id.ID] = true
	e := c.entry(c.beats)
	c.view.end(nil, e, EndedFenced, now)
	wasStopping := c.stage == stopping
	c.cause = cause
	out = append(out, effect{event: &Event{Kind: NowFenced, Cause: cause, Entry: e}})
	switch {
	case wasStopping:
		c.stage = stopped
	case cause == LeaseLost || cause == HalfOpen:
		// The entry goes on being written and says fenced: so the others know
		// while NATS still takes it, and whether it does is how this replica knows.
		c.stage = lapsed
		out = c.rewrite(out, now)
	default:
		c.register(now) // another life has the entry, or none
	}
	return out
}

func (c *core) notServing(out []effect, cause Cause) []effect {
	if c.said == cause {
		return out
	}
	c.said = cause
	return append(out, effect{event: &Event{Kind: NotServing, Cause: cause}})
}

// saw takes a change of the members' bucket from its watch.
func (c *core) saw(key string, e Entry, revision uint64, deleted bool, now time.Time) (out []effect) {
	if key == c.self {
		out = c.sawOwn(e, revision, deleted, now)
	}
	if !deleted && e.Incarnation.Replica == key {
		out = c.changed(out, c.view.saw(e, revision, now))
	}
	if !deleted && key == c.self && e.Incarnation == c.id && e.Beat > 0 {
		out = c.echo(out, e.Beat, now)
	}
	return out
}

func (c *core) sawOwn(e Entry, revision uint64, deleted bool, now time.Time) (out []effect) {
	c.own.entry, c.own.revision, c.own.there = e, revision, !deleted
	switch c.stage {
	case registering:
		if deleted {
			c.reg.absent(revision)
		} else if c.reg.saw(e, revision, now) {
			return c.registered(now)
		}
	case joining, serving, stopping, lapsed:
		cause := EntryGone
		if !deleted {
			cause = c.guard.saw(e, revision, now)
			c.own.echoed = c.own.echoed || e.Incarnation == c.id
		}
		switch {
		case cause == 0:
		case c.stage == lapsed:
			c.register(now) // there is an entry of another's to leave alone
		default:
			return c.fence(nil, cause, now)
		}
	}
	return out
}

// lost and ready frame what the watch gives anew.
func (c *core) lost() {
	c.view.lost()
	c.own = ownKey{echoed: c.own.echoed}
	if c.stage == registering {
		c.reg.forget()
	}
}

func (c *core) ready(now time.Time) []effect {
	c.view.ready(now)
	c.own.ready = true
	switch c.stage {
	case registering:
		c.reg.begin(now)
		if !c.own.there {
			c.reg.absent(c.reg.revision)
		}
	case joining, serving:
		// It was there and is not: an expiry gives no event.
		if c.own.echoed && !c.own.there {
			return c.fence(nil, EntryGone, now)
		}
	}
	return nil
}

// echo: the own heartbeat came through the watch, and with it everything before.
func (c *core) echo(out []effect, beat uint64, now time.Time) []effect {
	if n := uint64(len(c.sent)); beat+n > c.beats && !c.view.blind {
		c.viewAsOf = c.sent[beat%n]
	}
	c.barriers = slices.DeleteFunc(c.barriers, func(b barrier) bool {
		if beat < b.beat || c.view.blind {
			return false
		}
		close(b.done)
		return true
	})
	if c.stage != serving || !c.deadline.MayDecide(now) {
		return out
	}
	judge, changes := c.view.echo(beat, now)
	out = c.changed(out, changes)
	for _, i := range judge {
		out = append(out, effect{id: c.id, judge: &i})
	}
	return out
}

// await returns a channel that is closed when the view is proven complete as of
// now: by the echo of a heartbeat not yet sent.
func (c *core) await() <-chan struct{} {
	b := barrier{c.beats + 1, make(chan struct{})}
	c.barriers = append(c.barriers, b)
	return b.done
}

// judgeDone is the answer to a judgment.
func (c *core) judgeDone(id, judged Incarnation, landed bool, now time.Time) []effect {
	return c.changed(nil, c.view.judged(judged, landed && id == c.id, now))
}

// floorIs is the floor as watched.
func (c *core) floorIs(f Format, now time.Time) []effect {
	if !c.joined || f <= c.floor {
		return nil
	}
	c.floor = f
	out := []effect{{event: &Event{Kind: FloorRaised, Floor: f}}}
	if f > c.newest && (c.stage == joining || c.stage == serving) {
		c.below = true
		out = c.fence(out, BelowFloor, now)
	}
	return out
}

func (c *core) changed(out []effect, changes []change) []effect {
	for _, ch := range changes {
		switch {
		case ch.Entry.Incarnation == c.id || c.mine[ch.Entry.Incarnation.ID]:
		case ch.How == Held:
			out = append(out, effect{event: &Event{Kind: MemberChanged, Entry: ch.Entry}})
		default:
			out = append(out, effect{event: &Event{Kind: MemberEnded, Entry: ch.Entry, How: ch.How}})
		}
	}
	return out
}

// refused notes that a CONNECT was refused for the store's sake. One that is turned away
// because this replica has not begun to serve, lives twice or is below the floor finds
// others that serve: it holds no will.
func (c *core) refused(budget time.Duration, now time.Time) {
	switch {
	case c.stage == serving, c.stage == lapsed:
	case c.cause == LeaseLost || c.cause == HalfOpen || c.cause == EntryGone: // on its way back from a fence
	default:
		return
	}
	c.refusing = now.Add(budget)
}

// refuses reports whether any member does.
func (c *core) refuses(now time.Time) bool {
	return now.Before(c.refusing) || slices.ContainsFunc(c.view.members(), func(e Entry) bool { return e.Refusing })
}

// stop begins to stop: the lease is renewed, the entry says stopping.
func (c *core) stop(now time.Time) (out []effect) {
	switch c.stage {
	case serving, joining:
		c.stage = stopping
		return c.rewrite(nil, now)
	case registering, lapsed:
		c.stage = stopped
	}
	return nil
}

// finish ends the incarnation after a stop; last is the entry's last write, nil if
// there is no entry of this incarnation.
func (c *core) finish(now time.Time) (last *beat, out []effect) {
	if c.stage != stopping {
		c.stage = stopped
		return nil, nil
	}
	if c.deadline != nil {
		c.deadline.end()
		c.deadline = nil
	}
	c.stage, c.cause = stopped, Stop
	c.beats++
	e := c.entry(c.beats)
	c.mine[c.id.ID] = true
	c.view.end(nil, e, EndedStopped, now)
	return &beat{e.Encode(c.writes()), now}, nil
}

func (c *core) status() Status {
	return Status{
		Serving: c.stage == serving, Registers: c.stage == registering || c.stage == joining, Cause: c.cause,
		Duplicate: c.stage == registering && c.reg.duplicate() || c.said == DuplicateID,
		Below:     c.below, Members: len(c.view.members()),
	}
}
