package cluster

import (
	"testing"
	"time"
)

// peer is an entry of replica b's incarnation n.
func peer(n byte, number, beat uint64, phase Phase) Entry {
	return Entry{Incarnation: life1("b", n), Number: number, Beat: beat, Phase: phase, Oldest: 1, Newest: 1}
}

func newTestView() *view {
	v := newView("a", ten())
	v.ready(at(0))
	return v
}

// B7: O's watch is blind, so it sees no heartbeat of A, and the server it reads from
// expired A's entry itself. Time alone would judge A.
func TestSilenceAloneNeverJudges(t *testing.T) {
	v := newTestView()
	v.saw(peer(1, 5, 1, Serving), 10, at(0))
	for s := 1.0; s < 100; s++ {
		v.sent(uint64(s), at(s)) // sent, but nothing comes back
	}
	if judge, _ := v.echo(14, at(100)); len(judge) != 0 {
		t.Fatalf("judges %v by the echo of a heartbeat sent before 1.5 T were over", judge)
	}
	// The watch comes back and gives, in order, what it had missed.
	v.saw(peer(1, 5, 90, Serving), 200, at(100))
	if judge, _ := v.echo(99, at(100)); len(judge) != 0 {
		t.Fatalf("judges %v although it wrote before the echo", judge)
	}
}

func TestSilenceProvenByOrderIsJudged(t *testing.T) {
	v := newTestView()
	v.saw(peer(1, 5, 1, Serving), 10, at(0.3))
	for s := 1; s <= 15; s++ {
		v.sent(uint64(s), at(float64(s)))
		if judge, _ := v.echo(uint64(s), at(float64(s)+0.1)); len(judge) != 0 {
			t.Fatalf("judges %v at %d s", judge, s)
		}
	}
	v.sent(16, at(16)) // the first 1.5 T after 0.3
	judge, _ := v.echo(16, at(16.1))
	if len(judge) != 1 || judge[0] != life1("b", 1) {
		t.Fatalf("judges %v", judge)
	}
	if how := v.ending(life1("b", 1), at(16.1)); how != Held {
		t.Fatalf("counts as ended (%v) before the judgment landed", how)
	}
	if again, _ := v.echo(16, at(16.2)); len(again) != 0 {
		t.Fatalf("judges %v again while the first is out", again)
	}
	changes := v.judged(life1("b", 1), true, at(16.3))
	if len(changes) != 1 || changes[0].How != EndedGone || v.ending(life1("b", 1), at(17)) != EndedGone || len(v.members()) != 0 {
		t.Fatalf("after the judgment: %+v, members %v", changes, v.members())
	}
}

// A judgment that did not land, or of which that is not known, means nothing.
func TestOnlyALandedJudgmentCounts(t *testing.T) {
	v := newTestView()
	v.saw(peer(1, 5, 1, Serving), 10, at(0))
	v.sent(1, at(15))
	v.echo(1, at(15))
	if changes := v.judged(life1("b", 1), false, at(16)); len(changes) != 0 || v.ending(life1("b", 1), at(16)) != Held {
		t.Fatalf("a judgment that met a living entry: %+v", changes)
	}
	if judge, _ := v.echo(1, at(16)); len(judge) != 0 {
		t.Fatal("judges again by the same echo")
	}
	v.sent(2, at(16))
	if judge, _ := v.echo(2, at(16)); len(judge) != 1 {
		t.Fatal("does not try again")
	}
}

func TestAWriteBetweenProofAndEchoAcquits(t *testing.T) {
	v := newTestView()
	v.saw(peer(1, 5, 1, Serving), 10, at(0))
	v.sent(1, at(15))
	v.saw(peer(1, 5, 2, Serving), 11, at(15.1)) // it stands before the echo
	if judge, _ := v.echo(1, at(15.2)); len(judge) != 0 {
		t.Fatalf("judges %v", judge)
	}
}

func TestAWatchThatLostTrackProvesNothing(t *testing.T) {
	v := newTestView()
	v.saw(peer(1, 5, 1, Serving), 10, at(0))
	v.sent(1, at(15))
	v.lost()
	if judge, _ := v.echo(1, at(15.1)); len(judge) != 0 {
		t.Fatalf("judges %v while blind", judge)
	}
	v.sent(2, at(15.2))
	// The own entry in a listing is no echo: a listing has no order.
	if judge, _ := v.echo(2, at(15.3)); len(judge) != 0 {
		t.Fatalf("judges %v by a listing", judge)
	}
	v.sent(2, at(15.5))
	v.ready(at(16))
	for beat, s := uint64(3), 16.0; s < 31; s++ {
		v.sent(beat, at(s))
		if judge, _ := v.echo(beat, at(s)); len(judge) != 0 {
			t.Fatalf("judges %v %v s after it may have missed a write", judge, s-16)
		}
		beat++
	}
	v.sent(100, at(31))
	if judge, _ := v.echo(100, at(31)); len(judge) != 1 {
		t.Fatal("does not judge what is silent since")
	}
}

func TestGoneStaysGone(t *testing.T) {
	v := newTestView()
	v.saw(peer(1, 5, 1, Serving), 10, at(0))
	if ch := v.saw(peer(1, 0, 0, Gone), 20, at(16)); len(ch) != 1 || ch[0].How != EndedGone {
		t.Fatalf("another replica's judgment: %+v", ch)
	}
	if ch := v.saw(peer(1, 5, 9, Serving), 21, at(17)); len(ch) != 0 || v.ending(life1("b", 1), at(17)) != EndedGone || len(v.members()) != 0 {
		t.Fatalf("a heartbeat that arrived late brought it back: %+v %v", ch, v.members())
	}
	ch := v.saw(peer(2, 0, 0, Starting), 30, at(18))
	if len(ch) != 1 || ch[0].How != Held || v.ending(life1("b", 2), at(18)) != Held || len(v.members()) != 1 {
		t.Fatalf("the replica as another incarnation: %+v", ch)
	}
}

func TestAnIncarnationEndsByWhatItsEntrySays(t *testing.T) {
	for phase, how := range map[Phase]Ending{Fenced: EndedFenced, Stopping: EndedStopped, Stopped: EndedStopped, Gone: EndedGone} {
		v := newTestView()
		v.saw(peer(1, 5, 1, Serving), 10, at(0))
		if ch := v.saw(peer(1, 5, 2, phase), 11, at(1)); len(ch) != 1 || ch[0].How != how || v.ending(life1("b", 1), at(1)) != how {
			t.Errorf("%v: %+v", phase, ch)
		}
	}
}

// B10.2: a replica fenced on its silent state connection renews its lease for ever
// and is never judged gone, so its entry must be enough.
func TestAFencedReplicaThatRenewsItsLeaseHasEnded(t *testing.T) {
	v := newTestView()
	v.saw(peer(1, 5, 1, Serving), 10, at(0))
	for s := 1; s < 60; s++ {
		v.saw(peer(1, 5, uint64(1+s), Fenced), uint64(10+s), at(float64(s)))
		v.sent(uint64(s), at(float64(s)))
		if judge, _ := v.echo(uint64(s), at(float64(s))); len(judge) != 0 {
			t.Fatalf("judges %v, which renews its lease", judge)
		}
	}
	if v.ending(life1("b", 1), at(60)) != EndedFenced {
		t.Fatal("its connections count as open for ever")
	}
}

func TestANewerIncarnationEndsTheOneBefore(t *testing.T) {
	v := newTestView()
	v.saw(peer(1, 5, 1, Serving), 10, at(0))
	ch := v.saw(peer(2, 0, 0, Starting), 11, at(1))
	if len(ch) != 2 || ch[0].How != EndedGone || ch[0].Entry.Incarnation != life1("b", 1) || ch[1].Entry.Incarnation != life1("b", 2) {
		t.Fatalf("%+v", ch)
	}
	// And a late heartbeat of the one before changes nothing.
	if ch := v.saw(peer(1, 5, 9, Serving), 12, at(1.1)); len(ch) != 0 || v.members()[0].Incarnation != life1("b", 2) {
		t.Fatalf("%+v, members %v", ch, v.members())
	}
}

func TestALateHeartbeatSaysNothingNewButShowsLife(t *testing.T) {
	v := newTestView()
	v.saw(peer(1, 5, 5, Fenced), 10, at(0))
	v.saw(peer(1, 5, 4, Serving), 11, at(10))
	if v.lives["b"].entry.Phase != Fenced {
		t.Fatal("an older write undid the fence")
	}
	v.sent(1, at(20))
	if judge, _ := v.echo(1, at(20)); len(judge) != 0 {
		t.Fatal("a write it made is not counted")
	}
}

// Records outlive everybody who saw the incarnation they name.
func TestAnIncarnationNobodySawIsJudgedLikeAnyOther(t *testing.T) {
	v := newTestView()
	stranger := life1("z", 7)
	if v.ending(stranger, at(0)) != Held {
		t.Fatal("ended although it may live")
	}
	v.sent(1, at(14.9))
	if judge, _ := v.echo(1, at(14.9)); len(judge) != 0 {
		t.Fatalf("judges %v", judge)
	}
	v.sent(2, at(15))
	judge, _ := v.echo(2, at(15))
	if len(judge) != 1 || judge[0] != stranger {
		t.Fatalf("judges %v", judge)
	}
	v.judged(stranger, true, at(15.1))
	if v.ending(stranger, at(16)) != EndedGone {
		t.Fatal("not gone after the judgment")
	}
}

func TestAStrangerOfAReplicaWithAnotherLifeEndedBeforeIt(t *testing.T) {
	v := newTestView()
	old, own := life1("b", 1), life1("a", 1)
	v.saw(peer(2, 5, 1, Serving), 10, at(0))
	v.saw(Entry{Incarnation: life1("a", 9), Number: 6, Phase: Serving, Beat: 1}, 11, at(0))
	for _, i := range []Incarnation{old, own} {
		if v.ending(i, at(0)) != Held {
			t.Fatalf("%v ended although its entry may only not have arrived", i)
		}
	}
	v.saw(peer(2, 5, 2, Serving), 12, at(14))
	v.sent(1, at(15))
	judge, ch := v.echo(1, at(15))
	if len(judge) != 0 || len(ch) != 2 || v.ending(old, at(15)) != EndedGone || v.ending(own, at(15)) != EndedGone {
		t.Fatalf("judges %v, changes %+v", judge, ch)
	}
}

func TestAStrangerThatIsSeenIsNoStranger(t *testing.T) {
	v := newTestView()
	v.ending(life1("b", 1), at(0))
	v.saw(peer(1, 0, 0, Starting), 10, at(5))
	v.sent(1, at(15))
	if judge, _ := v.echo(1, at(15)); len(judge) != 0 {
		t.Fatalf("judges %v, seen 1 T ago", judge)
	}
}

// The documented change of memberTTL deletes the bucket: its revisions begin again
// and every entry that follows has a lower number than those before.
func TestABucketMadeAnewDoesNotMakeTheLivingOld(t *testing.T) {
	v := newTestView()
	v.saw(peer(1, 5000, 7, Serving), 5007, at(0))
	v.lost()
	v.ready(at(1))
	beat := uint64(0)
	for s := 1.0; s <= 17; s++ {
		beat++
		v.saw(peer(2, 2, uint64(s), Serving), uint64(s)+2, at(s))
		v.sent(beat, at(s))
		if judge, _ := v.echo(beat, at(s)); len(judge) != 0 {
			t.Fatalf("at %v s judges %v", s, judge)
		}
	}
	if m := v.members(); len(m) != 1 || m[0].Incarnation != life1("b", 2) {
		t.Fatalf("members %v", m)
	}
	if v.ending(life1("b", 1), at(18)) != EndedGone || v.ending(life1("b", 2), at(18)) != Held {
		t.Fatal("the wrong life ended")
	}
}

func TestTheSelfIsNeverJudged(t *testing.T) {
	v := newTestView()
	v.saw(Entry{Incarnation: life1("a", 1), Number: 3, Phase: Serving, Beat: 1}, 3, at(0))
	v.sent(1, at(100))
	if judge, _ := v.echo(1, at(100)); len(judge) != 0 {
		t.Fatalf("judges %v", judge)
	}
}

func TestWhatEndedIsNotRememberedForEver(t *testing.T) {
	v := newTestView()
	for i := range 10000 {
		e := peer(0, uint64(i+1), 1, Serving)
		e.Incarnation.ID = ID{byte(i), byte(i >> 8), 1}
		v.saw(e, uint64(i+1), at(float64(i)*10))
	}
	if len(v.ended) > 4097+int(2*time.Hour/(10*time.Second)) {
		t.Fatalf("%d endings kept", len(v.ended))
	}
}
