package cluster

import (
	"flag"
	"testing"
	"time"
)

func TestReplicasStartAndServeAtOnce(t *testing.T) {
	w := newWorld(t, 1, 3)
	w.run(at(1))
	if w.serving() != 3 {
		w.fail("%d of 3 serve after 1 s", w.serving())
	}
	w.run(at(60))
	for _, n := range w.nodes {
		if m := n.core.view.members(); len(m) != 3 {
			w.fail("%s sees %d members", n.name, len(m))
		}
		if n.process != 1 || len(n.served) != 1 {
			w.fail("%s had %d lives in a quiet minute", n.name, len(n.served))
		}
	}
	w.report()
}

// A watch that lags, or is blind, must not keep a replica that serves from knowing
// its own entry: the mesh begins with its number.
func TestAServingReplicaIsAMemberBeforeItsWatchSaysSo(t *testing.T) {
	w := newWorld(t, 2, 2)
	w.run(at(5))
	c := w.nodes[0].core
	number := c.reg.number
	for _, old := range []*life{nil, {entry: Entry{Incarnation: Incarnation{Replica: c.id.Replica, ID: ID{1}}, Number: 1}}} {
		c.view.lives[c.id.Replica] = old
		if old == nil {
			delete(c.view.lives, c.id.Replica)
		}
		m := c.members()
		if len(m) != 2 || m[0].Incarnation != c.id || m[0].Number != number || m[0].Phase != Serving {
			t.Errorf("with %+v in the view the members are %+v, want the own entry with number %d first", old, m, number)
		}
	}
}

// C3: 1.5 T to 1.7 T after the last write, whatever the moment of death.
func TestAKilledReplicaIsGoneInTime(t *testing.T) {
	for seed := range uint64(60) {
		w := newWorld(t, seed, 3)
		w.run(at(20 + float64(seed)/30))
		victim := w.nodes[0]
		i := victim.core.id
		victim.dead = true
		w.run(w.now.Add(40 * time.Second))
		took := w.gone[i].Sub(w.wrote[i])
		// A write under way may land later and be answered to nobody: it is the
		// last write all the same.
		if took < 15*time.Second || took > 17*time.Second {
			w.fail("gone %v after its last write", took)
		}
		for _, n := range w.nodes[1:] {
			if how := n.core.view.ending(i, w.now); how != EndedGone {
				w.fail("%s: %v", n.name, how)
			}
		}
		w.report()
	}
}

// C2, C4: cut off from NATS, it decides until T and serves until 7/6 T.
func TestACutOffReplicaStopsDecidingThenServing(t *testing.T) {
	w := newWorld(t, 3, 2)
	w.run(at(20))
	n := w.nodes[0]
	d := n.core.deadline
	held := n.core.lease.held
	n.slow = func() time.Duration { return time.Hour }
	w.run(held.Add(9900 * time.Millisecond))
	if !d.MayDecide(w.now) {
		w.fail("decides no more before T")
	}
	w.run(held.Add(11600 * time.Millisecond))
	if d.MayDecide(w.now) || !d.MayAct(w.now) || n.core.stage != serving {
		w.fail("before 7/6 T: decides %v, acts %v", d.MayDecide(w.now), d.MayAct(w.now))
	}
	w.run(held.Add(11800 * time.Millisecond))
	if d.MayAct(w.now) || n.core.stage == serving {
		w.fail("serves beyond 7/6 T")
	}
	w.report()
}

// C7: every answer held 2, 4, 6 s: nobody fences.
func TestSlowAnswersFenceNobody(t *testing.T) {
	for _, d := range []time.Duration{2, 4, 6} {
		w := newWorld(t, 5, 3)
		w.run(at(20))
		for _, n := range w.nodes {
			n.slow = func() time.Duration { return d * time.Second / 2 } // each way
		}
		w.run(at(620))
		for _, n := range w.nodes {
			if len(n.served) != 1 {
				w.fail("%s had %d lives with a round trip of %v s", n.name, len(n.served), int64(d))
			}
		}
		w.report()
	}
}

// C5: the lease of a half-open replica stays renewed, so it is fenced but not gone.
func TestAHalfOpenReplicaIsFencedAndNotGone(t *testing.T) {
	w := newWorld(t, 6, 3)
	w.run(at(20))
	n := w.nodes[0]
	i := n.core.id
	n.hungAt, n.blind = w.now, w.now.Add(60*time.Second)
	w.run(at(34.9))
	if n.core.stage != serving {
		w.fail("fenced after less than 15 s of silence")
	}
	w.run(at(37))
	if n.core.stage != lapsed {
		w.fail("not fenced 17 s after the connection went silent")
	}
	for _, o := range w.nodes[1:] {
		if how := o.core.view.ending(i, w.now); how != EndedFenced {
			w.fail("%s: %v", o.name, how)
		}
	}
	w.run(at(80))
	if _, gone := w.gone[i]; gone {
		w.fail("judged gone although its lease was renewed")
	}
	n.hungAt = time.Time{}
	w.run(at(83))
	if n.core.stage != serving || n.core.id == i {
		w.fail("not back 3 s after the connection answered: stage %v", n.core.stage)
	}
	w.report()
}

// C9: the second process serves nobody, and the first goes on.
func TestASecondProcessUnderAnIDServesNobody(t *testing.T) {
	w := newWorld(t, 7, 2)
	w.run(at(20))
	second := &node{w: w, name: "uns-0"}
	second.slow = w.nodes[0].slow
	w.nodes = append(w.nodes, second)
	second.start()
	w.run(at(60))
	if second.core.stage != registering || !second.core.status().Duplicate || len(second.served) != 0 {
		w.fail("the second process: stage %v, status %+v", second.core.stage, second.core.status())
	}
	if w.nodes[0].core.stage != serving || len(w.nodes[0].served) != 1 {
		w.fail("the first process was disturbed")
	}
	// Once the first is dead the second takes over.
	w.nodes[0].dead = true
	w.run(at(65))
	if second.core.stage != serving || second.core.status().Duplicate {
		w.fail("the second process does not take over: %+v", second.core.status())
	}
	w.report()
}

// B13, the converse: the first is paused for 5 s while the second starts. Both hold a
// lease for a moment; one serves in the end.
func TestOfTwoProcessesOneServesInTheEnd(t *testing.T) {
	for seed := range uint64(40) {
		w := newWorld(t, seed, 2)
		w.twins = true
		w.run(at(20))
		first := w.nodes[0]
		first.paused = w.now.Add(time.Duration(3500+100*seed) * time.Millisecond)
		second := &node{w: w, name: "uns-0", slow: first.slow}
		w.nodes = append(w.nodes, second)
		w.run(at(20.1))
		second.start()
		w.run(at(80))
		n := 0
		for _, p := range []*node{first, second} {
			if p.core.stage == serving {
				n++
			}
		}
		if n != 1 {
			w.t.Errorf("seed %d: %d of two processes under one id serve", seed, n)
			w.fail("")
		}
		w.report()
	}
}

func TestARestartAfterAStopWaitsForNobody(t *testing.T) {
	w := newWorld(t, 8, 2)
	w.run(at(20))
	n := w.nodes[0]
	i := n.core.id
	n.carryOut(n.core.stop(w.now))
	w.run(at(22))
	if how := w.nodes[1].core.view.ending(i, w.now); how != EndedStopped || len(w.nodes[1].core.view.members()) != 2 {
		w.fail("while it stops: %v", how)
	}
	last, out := n.core.finish(w.now)
	n.carryOut(out)
	if _, err := w.land(n.name, last.value, false, 0); err != nil {
		t.Fatal(err)
	}
	n.dead = true
	w.run(at(22.2))
	if len(w.nodes[1].core.view.members()) != 1 {
		w.fail("a stopped replica is still a member")
	}
	n.start()
	w.run(at(22.7))
	if n.core.stage != serving {
		w.fail("not serving half a second after its start")
	}
	w.run(at(60))
	if _, gone := w.gone[i]; gone {
		w.fail("a stopped incarnation was judged")
	}
	w.report()
}

func TestADeletedEntryFencesAtOnce(t *testing.T) {
	w := newWorld(t, 9, 2)
	w.run(at(20))
	n := w.nodes[0]
	delete(w.records, n.name)
	w.revision++
	n.carryOut(n.core.saw(n.name, Entry{}, w.revision, true, w.now))
	if n.core.stage == serving || n.core.cause != EntryGone {
		w.fail("stage %v, cause %v", n.core.stage, n.core.cause)
	}
	w.run(at(24))
	if n.core.stage != serving {
		w.fail("not back")
	}
	w.report()
}

// An answer to what an earlier incarnation sent is dropped, whatever it says.
func TestAnswersOfAnEarlierIncarnationAreNeverActedOn(t *testing.T) {
	w := newWorld(t, 10, 1)
	w.run(at(20))
	c := w.nodes[0].core
	old := c.id
	c.fence(nil, EntryGone, w.now)
	if out := c.claimDone(old, 999, nil, w.now); len(out) != 0 || c.stage != registering {
		t.Error("registered by an earlier incarnation's claim")
	}
	if out := c.joinDone(old, 1, false, nil, w.now); len(out) != 0 || c.joined {
		t.Error("joined by an earlier incarnation's touch")
	}
	stranger := life1("z", 1)
	c.view.ending(stranger, w.now)
	c.judgeDone(old, stranger, true, w.now)
	if c.view.ending(stranger, w.now) != Held {
		t.Error("a judgment sent before the fence is acted on")
	}
	c.reg.begin(w.now)
	c.reg.there = false
	c.reg.next(w.now)
	c.claimDone(c.id, 1000, nil, w.now)
	if c.stage != joining {
		t.Fatalf("stage %v", c.stage)
	}
	if c.joinDone(old, 1, false, nil, w.now); c.joined {
		t.Error("joined by an earlier incarnation's touch")
	}
	held := c.lease.held
	if c.beatDone(old, w.now.Add(time.Second), true, w.now.Add(time.Second)); c.lease.held != held {
		t.Error("the lease is renewed by an earlier incarnation's heartbeat")
	}
}

// C4: its heartbeats land and come back through the watch, but their answers do not.
func TestWithoutACurrentLeaseNobodyIsJudged(t *testing.T) {
	w := newWorld(t, 12, 1)
	w.run(at(13.5))
	n := w.nodes[0]
	n.core.view.ending(life1("z", 1), w.now) // proven silent from 28.5 s on
	w.run(at(18.5))
	n.back = time.Hour
	w.run(at(29.5))
	if n.core.stage != serving || n.core.deadline.MayDecide(w.now) {
		w.fail("stage %v, decides %v", n.core.stage, n.core.deadline.MayDecide(w.now))
	}
	if n.core.viewAsOf.Before(at(28.5)) {
		w.fail("no heartbeat came back after 28.5 s")
	}
	if len(w.gone) != 0 {
		w.fail("judged")
	}
	w.report()
}

func TestAnEntryMissingFromAListingFencesOnceItWasSeen(t *testing.T) {
	w := newWorld(t, 13, 1)
	n := w.nodes[0]
	w.run(at(0.05))
	n.core.own.echoed = false
	n.core.lost()
	n.core.ready(w.now) // the listing was made before the entry landed
	if n.core.cause != 0 {
		w.fail("fenced for %v before the entry was ever seen", n.core.cause)
	}
	w.run(at(20))
	n.core.lost()
	n.carryOut(n.core.ready(w.now))
	if n.core.cause != EntryGone || n.core.stage == serving {
		w.fail("serves without an entry: stage %v, cause %v", n.core.stage, n.core.cause)
	}
	w.report()
}

func TestBelowTheFloorNobodyServes(t *testing.T) {
	w := newWorld(t, 11, 1)
	w.run(at(20))
	n := w.nodes[0]
	d := n.core.deadline
	n.carryOut(n.core.floorIs(Newest+1, w.now))
	if d.MayAct(w.now) || n.core.cause != BelowFloor || !n.core.status().Below {
		w.fail("serves below the floor: %+v", n.core.status())
	}
	w.run(at(40))
	if n.core.stage == serving {
		w.fail("serves again below the floor")
	}
	w.report()
}

// seeds is how many runs: more, for as long as somebody wants to wait.
var seeds = flag.Uint64("seeds", 60, "runs of the simulated cluster")

func TestNothingIsJudgedGoneWhileItServes(t *testing.T) {
	for seed := range *seeds {
		w := newWorld(t, seed, 3)
		faults(w)
		if n := w.serving(); n != 3 {
			w.fail("%d of 3 serve a minute after the last fault", n)
		}
		for _, n := range w.nodes {
			if m := n.core.view.members(); len(m) != 3 {
				w.fail("%s sees members %v", n.name, m)
			}
		}
		w.report()
	}
}

// faults runs a world through two minutes of faults and two of peace.
func faults(w *world) {
	w.run(at(5))
	for w.now.Before(at(125)) && !w.failed {
		w.fault()
		w.run(w.now.Add(time.Duration(w.r.Int64N(int64(8 * time.Second)))))
	}
	w.run(at(260))
}

// The checks above would be worth nothing if they passed without the safeguards.
func TestTheCheckFindsPlantedBugs(t *testing.T) {
	for name, bugs := range map[string]bugs{
		"judged by the timer alone":               {judgeByTime: true},
		"judged by an unconditional write":        {judgeByTime: true, judgeByPut: true},
		"the lease counts from the answer's time": {fenceLate: true},
		"a late landing revives a lapsed lease":   {landedRevive: true},
	} {
		found := false
		for seed := uint64(0); seed < 400 && !found; seed++ {
			w := newWorld(t, seed, 3)
			w.bugs = bugs
			faults(w)
			if found = w.failed; found {
				t.Logf("%s: found by seed %d", name, seed)
			}
		}
		if !found {
			t.Errorf("%s: not found in 400 runs", name)
		}
	}
}

// A device that meets a replica which starts, lives twice or is below the floor, and comes
// back to it again and again, must not hold the wills of the whole cluster.
func TestOnlyARefusalForTheStoresSakeHoldsWills(t *testing.T) {
	for name, c := range map[string]struct {
		stage stage
		cause Cause
		want  bool
	}{
		"serving, and the store does not answer in time": {serving, 0, true},
		"fenced":                            {lapsed, LeaseLost, true},
		"registering again after a fence":   {registering, HalfOpen, true},
		"joining again after a fence":       {joining, EntryGone, true},
		"starting":                          {registering, 0, false},
		"joining":                           {joining, 0, false},
		"fenced by the floor, and below it": {joining, BelowFloor, false},
		"a newer life has the entry":        {registering, DuplicateID, false},
	} {
		core := newCore("uns-0", "", ten(), at(0))
		core.stage, core.cause = c.stage, c.cause
		core.refused(budget, at(1))
		if got := core.refuses(at(2)); got != c.want {
			t.Errorf("%s: holds wills %v, want %v", name, got, c.want)
		}
	}
}
